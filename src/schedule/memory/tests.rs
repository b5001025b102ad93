//! Where bodies are kept, and how much memory is counted. The contract of all schedules is tested in
//! `tests/it/schedule_contract`.

use super::*;
use crate::clock::ManualClock;
use crate::domain::ack::AckRule;
use crate::domain::body::Body;
use crate::domain::destination::Destination;
use crate::domain::headers::Headers;
use crate::domain::ladder::Ladder;
use crate::domain::notification::{Registration, Start, Target};
use crate::domain::priority::Priority;
use crate::domain::state::State;
use crate::domain::webhook_id::WebhookId;
use crate::schedule::window::Window;
use crate::schedule::{ClaimQuota, KnownToJournal, SettingsSource};
use bytes::Bytes;

const LIMITS: Limits = Limits {
    lane_start: 100,
    lane_cap: 100,
    lease_ms: 15_000,
    remember_ms: None,
    settings_source: SettingsSource::Schedule,
    window: Window::WHOLE,
    early_ms: 0,
};
const BODY: &[u8] = &[7; 2_000];
const SMALL_BODY: &[u8] = &[7; 1_024];

fn schedule(memory_bytes: usize) -> (ManualClock, MemorySchedule) {
    let clock = ManualClock::at(0);
    let schedule = MemorySchedule::over_journal(Arc::new(clock.clone()), LIMITS, memory_bytes);
    (clock, schedule)
}

fn entry(id: &str, start_ms: i64) -> Entry {
    with_body(id, start_ms, BODY)
}

fn with_body(id: &str, start_ms: i64, body: &'static [u8]) -> Entry {
    let registration = Registration {
        key: Key::new("t", id).expect("a key"),
        target: Target::Url(Destination::parse("https://shop.example/").expect("a destination")),
        body: Bytes::from_static(body),
        content_type: "text/plain".to_string(),
        headers: Headers::default(),
        start: Start::After(start_ms),
        ladder: Some(Ladder::standard()),
        ack: Some(AckRule::standard()),
        priority: Priority::Normal,
        order: None,
    };
    let (notification, progress) = registration.accept(WebhookId::from_bytes([0; 16]), 0, None);
    Entry::scheduled(Arc::new(notification), progress)
}

async fn claim_one(schedule: &MemorySchedule) -> Lease {
    let claimed = schedule
        .claim(ClaimQuota::of(10))
        .await
        .expect("claimed")
        .leases;
    let [lease] = <[Lease; 1]>::try_from(claimed).expect("one");
    lease
}

fn body(lease: &Lease) -> &Body {
    &lease.entry.notification.body
}

fn bodies_held(schedule: &MemorySchedule) -> usize {
    schedule.memory().expect("in memory").bodies
}

#[tokio::test]
async fn a_body_is_held_for_a_first_attempt_that_is_due_soon() {
    for (start_ms, held) in [(0, true), (5_000, true), (5_001, false)] {
        let (clock, schedule) = schedule(1_000_000);
        schedule.register(entry("1", start_ms)).await.expect("new");
        assert_eq!(bodies_held(&schedule), if held { 2_000 } else { 0 });
        clock.advance(start_ms);
        let lease = claim_one(&schedule).await;
        let expected = match held {
            true => Bytes::from_static(BODY).into(),
            false => Body::InJournal(2_000),
        };
        assert_eq!(*body(&lease), expected, "{start_ms}");
    }
}

#[tokio::test]
async fn no_body_is_held_for_a_later_attempt() {
    let (clock, schedule) = schedule(1_000_000);
    schedule.register(entry("1", 0)).await.expect("new");
    let lease = claim_one(&schedule).await;
    let mut progress = lease.entry.progress;
    progress.attempts = 1;
    let again = Settlement::Again(progress);
    schedule.settle(lease, again).await.expect("settled");
    assert_eq!(bodies_held(&schedule), 0);
    let lease = claim_one(&schedule).await;
    assert_eq!(*body(&lease), Body::InJournal(2_000));
    // A released entry keeps its body where it is.
    schedule
        .settle(lease, Settlement::Release)
        .await
        .expect("settled");
    clock.advance(1);
    assert_eq!(*body(&claim_one(&schedule).await), Body::InJournal(2_000));
    // An entry that is put in with its body, after an attempt.
    let mut later = entry("2", 1);
    later.progress.attempts = 1;
    schedule.restore(&[later]).await.expect("restored");
    assert_eq!(bodies_held(&schedule), 0);
    assert_eq!(*body(&claim_one(&schedule).await), Body::InJournal(2_000));
}

#[tokio::test]
async fn a_small_body_is_held_for_every_attempt_while_there_is_room() {
    let (clock, schedule) = schedule(70_000);
    let entry = with_body("1", 60_000, SMALL_BODY);
    schedule.register(entry).await.expect("new");
    assert_eq!(bodies_held(&schedule), 1_024);
    clock.advance(60_000);
    let lease = claim_one(&schedule).await;
    let mut progress = lease.entry.progress;
    progress.attempts = 1;
    let again = Settlement::Again(progress);
    schedule.settle(lease, again).await.expect("settled");
    assert_eq!(bodies_held(&schedule), 1_024);
    let lease = claim_one(&schedule).await;
    assert_eq!(*body(&lease), Bytes::from_static(SMALL_BODY).into());
    // An eighth of the limit holds eight small bodies.
    for id in ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11"] {
        let entry = with_body(id, 600_000, SMALL_BODY);
        schedule.register(entry).await.expect("new");
    }
    assert_eq!(bodies_held(&schedule), 8 * 1_024);
    // Bodies that are due soon may take half of the limit; after a failed attempt, the eighth counts again.
    for id in ["12", "13", "14"] {
        let soon = with_body(id, 60_000, SMALL_BODY);
        schedule.register(soon).await.expect("new");
    }
    assert_eq!(bodies_held(&schedule), 11 * 1_024);
    for lease in schedule
        .claim(ClaimQuota::of(10))
        .await
        .expect("claimed")
        .leases
    {
        let mut progress = lease.entry.progress;
        progress.attempts = 1;
        let again = Settlement::Again(progress);
        schedule.settle(lease, again).await.expect("settled");
    }
    assert_eq!(bodies_held(&schedule), 8 * 1_024);
}

#[tokio::test]
async fn without_a_journal_every_body_is_held() {
    let clock = ManualClock::at(0);
    let schedule = MemorySchedule::new(Arc::new(clock.clone()), LIMITS);
    schedule.register(entry("1", 60_000)).await.expect("new");
    clock.advance(60_000);
    let lease = claim_one(&schedule).await;
    let again = Settlement::Again(lease.entry.progress);
    schedule.settle(lease, again).await.expect("settled");
    let lease = claim_one(&schedule).await;
    assert_eq!(*body(&lease), Bytes::from_static(BODY).into());
}

#[tokio::test]
async fn bodies_take_half_of_the_limit_at_most() {
    let (_, schedule) = schedule(20_000);
    for number in 0..11 {
        let entry = entry(&format!("{number:02}"), 0);
        schedule.register(entry).await.expect("new");
        let memory = schedule.memory().expect("in memory");
        assert!(
            memory.bodies <= 10_000 && memory.taken <= 20_000,
            "{memory:?}"
        );
    }
    assert!(bodies_held(&schedule) >= 5_000);
}

#[tokio::test]
async fn memory_is_reserved_once_and_is_freed_again() {
    let (_, schedule) = schedule(10_000);
    let given = entry("1", 60_000);
    let mut reservations = Vec::new();
    let refused = loop {
        match schedule.reserve_memory(&given.notification) {
            Ok(reservation) => reservations.push(reservation),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, MemoryLimitReached::OfLane(10_000));
    assert!(
        (5..20).contains(&reservations.len()),
        "{}",
        reservations.len()
    );
    reservations.pop();
    let reservation = schedule
        .reserve_memory(&given.notification)
        .expect("one was dropped");
    // The entry is counted instead of the reservation.
    let before = schedule.memory().expect("in memory").taken;
    schedule.register(given.clone()).await.expect("new");
    drop(reservation);
    assert_eq!(schedule.memory().expect("in memory").taken, before);
    drop(reservations);
    assert!(schedule.memory().expect("in memory").taken > 0);

    // An ended entry is not counted any more.
    let lease = match schedule
        .lease_one(&LeaseRequest::new(given.notification.key_in_lane()))
        .await
    {
        Ok(LeasedOne::Leased(lease)) => *lease,
        other => panic!("{other:?}"),
    };
    let end = Settlement::to(State::Cancelled, None, lease.entry.progress, 1);
    schedule.settle(lease, end).await.expect("settled");
    assert_eq!(schedule.memory().expect("in memory").taken, 0);
}

#[test]
fn a_ladder_of_its_own_counts_and_a_named_one_does_not() {
    use crate::domain::ladder::CustomLadder;
    assert_eq!(Ladder::standard().own_bytes(), 0);
    let custom = CustomLadder {
        intervals: vec!["1m".to_string(); 30],
        window: None,
        repeat_last: false,
        jitter: 0.0,
    };
    let custom = Ladder::custom(&custom).expect("a ladder");
    assert!(custom.own_bytes() >= 30 * 8, "{}", custom.own_bytes());
}

#[tokio::test]
async fn a_lane_that_keeps_much_leaves_memory_to_the_others() {
    let (_, schedule) = schedule(100_000);
    let mut reservations = Vec::new();
    let crowded = entry("1", 60_000);
    let refused = loop {
        match schedule.reserve_memory(&crowded.notification) {
            Ok(reservation) => reservations.push(reservation),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, MemoryLimitReached::OfLane(100_000));
    let taken = schedule.memory().expect("in memory").taken;
    assert!((45_000..=50_000).contains(&taken), "{taken}");
    schedule.check().await.expect("others find room");
    // What is in the journal already is put in all the same.
    schedule.register(crowded.clone()).await.expect("new");
    let mut lanes = 0;
    let refused = 'lanes: loop {
        let mut other = entry("2", 60_000);
        let lane = Lane::parse(&format!("https://shop-{lanes}.example")).expect("a lane");
        let notification = Arc::make_mut(&mut other.notification);
        notification.lane = lane;
        lanes += 1;
        // A sixteenth of the memory.
        for number in 0.. {
            match schedule.reserve_memory(&other.notification) {
                Ok(reservation) => reservations.push(reservation),
                Err(MemoryLimitReached::OfLane(_)) => {
                    assert!(number > 5, "{number}");
                    continue 'lanes;
                }
                Err(refused) => break 'lanes refused,
            }
        }
    };
    assert_eq!(refused, MemoryLimitReached::OfAll(100_000));
    assert!((8..=10).contains(&lanes), "{lanes}");
    drop(reservations);
    assert!(schedule.reserve_memory(&crowded.notification).is_ok());
}

#[test]
fn an_ack_rule_of_its_own_counts_and_a_named_one_does_not() {
    use crate::domain::ack::{AckRule, CustomAck};
    assert_eq!(AckRule::standard().own_bytes(), 0);
    let given = format!(
        r#"{{"json":{{"pointer":"","equals":[{}1]}}}}"#,
        "1,".repeat(400)
    );
    let custom: CustomAck = serde_json::from_str(&given).expect("a rule");
    let custom = AckRule::custom(custom).expect("a rule");
    assert!(custom.own_bytes() > 400 * 16, "{}", custom.own_bytes());
}

#[tokio::test]
async fn what_is_restored_is_counted_and_not_refused() {
    let (_, schedule) = schedule(1_000);
    let entries: Vec<Entry> = ["1", "2", "3"].map(|id| entry(id, 60_000)).into();
    schedule.restore(&entries).await.expect("restored");
    let taken = schedule.memory().expect("in memory").taken;
    assert!(taken > 1_000, "{taken}");
    let moved: Vec<Entry> = entries
        .into_iter()
        .map(|mut entry| {
            entry.progress.due_ms += 5;
            entry
        })
        .collect();
    assert_eq!(schedule.restore(&moved).await.expect("restored").moved, 3);
    let memory = schedule.memory().expect("in memory");
    assert_eq!((memory.taken, memory.bodies), (taken, 0), "counted once");
}

#[tokio::test]
async fn what_arrives_under_a_lease_by_hand_is_counted_once() {
    let given = entry("1", 0);
    let (_, plain) = schedule(1_000_000);
    plain.register(given.clone()).await.expect("new");
    let one = plain.memory();
    let (_, empty) = schedule(1_000_000);
    for (reservation, expected) in [
        (Reservation::Recheck, one),
        (Reservation::Put(Box::new(given.clone())), one),
        (Reservation::Forget, empty.memory()),
    ] {
        let (_, schedule) = schedule(1_000_000);
        let mut request = LeaseRequest::new(given.notification.key_in_lane());
        request.known = Some(KnownToJournal {
            registered_ms: -10_000,
            due_ms: None,
        });
        let reserved = match schedule.lease_one(&request).await {
            Ok(LeasedOne::Reserved(reserved)) => reserved,
            other => panic!("{other:?}"),
        };
        schedule.register(given.clone()).await.expect("new");
        assert_eq!(schedule.memory(), one);
        let what = format!("{reservation:?}");
        let ended = schedule.end_reservation(reserved, reservation).await;
        assert_eq!(ended.expect("answered"), Settled::Done);
        assert_eq!(schedule.memory(), expected, "{what}");
    }
}
