use super::*;
use crate::service::empty_stores::service_over_empty_stores;

#[tokio::test]
async fn a_destination_is_shown_without_what_waits_while_lists_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let service = service_over_empty_stores(dir.path()).await;
    let lane = Lane::from_name("https://shop.example");
    tokio::time::pause();
    let is_counted = async || {
        let shown = service.lane(&lane).await.expect("the schedule answers");
        !shown.is_pending_at_least()
    };
    assert!(is_counted().await);
    let first = service.list_limit.permit(None).await.expect("free");
    let second = service.list_limit.permit(None).await.expect("free");
    let begun = tokio::time::Instant::now();
    assert!(!is_counted().await);
    assert!(begun.elapsed() < Duration::from_secs(1));
    drop(first);
    assert!(is_counted().await);
    drop(second);
}

#[tokio::test]
async fn a_list_leads_to_the_destinations_of_the_journal_while_other_lists_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let service = service_over_empty_stores(dir.path()).await;
    tokio::time::pause();
    let page_after = async |cursor: Option<String>| {
        let request = LaneListRequest {
            state: None,
            limit: 10,
            cursor,
            asked_by: None,
        };
        service.lanes(&request).await
    };
    let whole = page_after(None).await.expect("read");
    assert_eq!(whole.next, None);
    let first = service.list_limit.permit(None).await.expect("free");
    let second = service.list_limit.permit(None).await.expect("free");
    let begun = tokio::time::Instant::now();
    let short = page_after(None).await.expect("the schedule answers");
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(short.next.as_deref(), Some(IN_JOURNAL));
    let refused = page_after(short.next.clone()).await;
    assert!(matches!(refused, Err(ServiceError::TooManyLists)));
    drop((first, second));
    assert_eq!(page_after(short.next).await.expect("read").next, None);
}
