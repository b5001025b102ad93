use super::*;
use crate::domain::api_key::{ApiKeyDigest, KeyTopics};
use crate::domain::role::Role;
use crate::journal::sqlite::SqliteJournal;
use crate::journal::timeless::TimelessJournal;

const NOW_MS: i64 = 1_000;

fn record(name: &str, role: Role, expires_ms: Option<i64>) -> ApiKeyRecord {
    ApiKeyRecord {
        name: ApiKeyName::parse(name).expect("a name"),
        role,
        topics: KeyTopics::from_text("a b"),
        digest: ApiKeyDigest::of(name.as_bytes()),
        created_by: "api".into(),
        created_ms: 0,
        expires_ms,
    }
}

fn row(record: ApiKeyRecord) -> ApiKeyRow {
    ApiKeyRow {
        name: record.name.as_str().to_string(),
        read: Ok(record),
    }
}

fn access(configured: Option<&str>, is_exposed: bool, rows: Vec<ApiKeyRow>) -> AccessControl {
    let rate = RequestRate::per_second(2);
    let configured = configured.map(|key| ApiKeyDigest::of(key.as_bytes()));
    let access = AccessControl {
        configured: configured.map(|digest| (digest, RequestLimit::new(rate))),
        rate,
        is_exposed,
        ..AccessControl::default()
    };
    access.write().replace(rows, rate);
    access
}

fn admitted(access: &AccessControl, key: Option<&str>) -> Result<Caller, NotAdmitted> {
    let admitted = access.admit(key.map(str::as_bytes), NOW_MS);
    admitted.map(|caller| (*caller).clone())
}

#[test]
fn without_any_key_this_machine_may_do_everything_and_nobody_else_anything() {
    let open = access(None, false, Vec::new());
    assert_eq!(admitted(&open, None), Ok(Caller::operator()));
    assert_eq!(admitted(&open, Some("any")), Ok(Caller::operator()));
    let exposed = access(None, true, Vec::new());
    assert_eq!(admitted(&exposed, None), Err(NotAdmitted::NoKeyExists));
    assert_eq!(
        admitted(&exposed, Some("any")),
        Err(NotAdmitted::UnknownKey)
    );
}

#[test]
fn a_key_gives_its_role_and_topics() {
    let keys = vec![
        row(record("one", Role::Producer, None)),
        row(record("two", Role::Support, Some(NOW_MS + 1))),
        row(record("three", Role::Operator, Some(NOW_MS))),
    ];
    let access = access(Some("configured"), false, keys);
    assert_eq!(admitted(&access, None), Err(NotAdmitted::NoKey));
    assert_eq!(admitted(&access, Some("on")), Err(NotAdmitted::UnknownKey));
    let one = admitted(&access, Some("one")).expect("admitted");
    assert_eq!(
        (one.role, one.may_use("a"), one.may_use("c")),
        (Role::Producer, true, false)
    );
    let two = admitted(&access, Some("two")).expect("admitted");
    assert_eq!(
        two.name.map(|name| name.to_string()).as_deref(),
        Some("two")
    );
    let three = admitted(&access, Some("three"));
    assert!(
        matches!(three, Err(NotAdmitted::Expired(_, NOW_MS))),
        "{three:?}"
    );
    assert_eq!(
        admitted(&access, Some("configured")),
        Ok(Caller::operator())
    );
}

#[test]
fn keys_that_have_expired_or_cannot_be_read_still_close_the_server() {
    let expired = access(
        None,
        false,
        vec![row(record("one", Role::Operator, Some(1)))],
    );
    assert_eq!(admitted(&expired, None), Err(NotAdmitted::NoKey));
    let unreadable = ApiKeyRow {
        name: "one".to_string(),
        read: Err("damaged".to_string()),
    };
    let damaged = access(None, false, vec![unreadable]);
    assert_eq!(admitted(&damaged, None), Err(NotAdmitted::NoKey));
    damaged.write().forget("one");
    assert_eq!(admitted(&damaged, None), Ok(Caller::operator()));
}

#[test]
fn each_key_has_a_limit_of_its_own_that_a_reading_does_not_renew() {
    let keys = || {
        vec![
            row(record("one", Role::Support, None)),
            row(record("two", Role::Support, None)),
        ]
    };
    let access = access(None, false, keys());
    // The machine may stop this test for longer than half a second, but not at each of many requests.
    let refused = |access: &AccessControl| {
        (0..1_000).find_map(|_| {
            access.write().replace(keys(), access.rate);
            admitted(access, Some("one")).err()
        })
    };
    assert!(matches!(refused(&access), Some(NotAdmitted::TooMany)));
    assert!(admitted(&access, Some("two")).is_ok());
}

#[test]
fn a_key_that_is_gone_is_refused() {
    let access = access(
        Some("configured"),
        false,
        vec![row(record("one", Role::Support, None))],
    );
    assert!(admitted(&access, Some("one")).is_ok());
    access.write().replace(Vec::new(), None);
    assert_eq!(admitted(&access, Some("one")), Err(NotAdmitted::UnknownKey));
}

/// For how long another server may not know a change: half a second, and the steps of the timers. The calls of the journal
/// themselves take none of the paused time.
const UNKNOWN_FOR: Duration = Duration::from_millis(505);

#[tokio::test]
async fn a_change_on_another_server_holds_after_half_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let inner = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let inner = Arc::new(inner.expect("it opens"));
    let journal: Arc<dyn Journal> = Arc::new(TimelessJournal::over(inner));
    let open = async || {
        let opening = AccessControl::open(Some(journal.clone()), Some("configured"), false, None);
        Arc::new(opening.await.expect("read"))
    };
    let (here, other) = (open().await, open().await);
    let stop = CancellationToken::new();
    tokio::time::pause();
    let running = tokio::spawn(here.clone().run(stop.clone()));
    let until = async |is_admitted: bool| {
        let changed = tokio::time::Instant::now();
        while admitted(&here, Some("one")).is_ok() != is_admitted {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let unknown = changed.elapsed();
            assert!(unknown <= UNKNOWN_FOR, "{is_admitted}: {unknown:?}");
        }
    };
    // Neither change is made just before a reading.
    let between = Duration::from_millis(170);
    tokio::time::sleep(between).await;
    let added = other.add(record("one", Role::Producer, None), Actor::named("ops"));
    assert_eq!(added.await.expect("kept"), Some(ApiKeyAdded::Added));
    until(true).await;
    tokio::time::sleep(between).await;
    let revoked = other.revoke("one".to_string(), Actor::named("ops"), NOW_MS);
    assert_eq!(revoked.await.expect("kept"), Some(ApiKeyRevoked::Revoked));
    until(false).await;
    stop.cancel();
    running.await.expect("it stops");
}
