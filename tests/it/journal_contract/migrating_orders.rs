//! Orders, endpoints that were made again, and a job, from the schema of each earlier version that has orders to that of this
//! version.

use super::older::{before_the_newest, migrations, older_postgres, older_sqlite};
use super::order_of_endpoints::{
    AGAIN_MS, ends, make_again, new, old, ordered, place_of, refused, register, set, shop,
};
use super::samples::{
    START_MS, apply, changing, delivery, do_change, failure, find, key, refusal, registering_at,
    registration,
};
use super::{INSTANCE, PostgresStore, SqliteStore, Store};
use ringback::domain::call_rate::CallRate;
use ringback::domain::change::Change;
use ringback::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobOrder, JobState};
use ringback::domain::job_result::JobReason;
use ringback::domain::lane::Lane;
use ringback::domain::notification::Registration;
use ringback::domain::order::{OrderConflict, OrderMode, OrderPlace};
use ringback::domain::snapshot::Snapshot;
use ringback::domain::state::State;
use ringback::journal::postgres::PostgresJournal;
use ringback::journal::{
    Actor, ChangeResult, Changing, Cursor, JobStep, JobStepped, JobUnchanged, Journal,
    RegisterResult, Registering, StoredEndpoint, Transition,
};
use ringback::maintenance::audit::balanced;

/// The version that brought orders.
const FIRST_WITH_ORDERS: i64 = 10;
/// The version that brought jobs.
const FIRST_WITH_JOBS: i64 = 11;
/// When the job is made, and things are done by hand.
const LATER_MS: i64 = START_MS + 60_000;
/// For how long a server has the job.
const LEASE_MS: i64 = 10_000;
/// Where the job stands.
const PLACE: Cursor = Cursor {
    at_ms: START_MS,
    row: 3,
};

/// All notifications: those of the endpoint before, of the one made again, and of a URL.
const IDS: [&str; 16] = [
    "l1 old", "l5 old", "s1 old", "s3 old", "s4 old", "l1 new", "l3 new", "s2 new", "s6 new",
    "s7 new", "l2 url", "l4 url", "s1 url", "s2 url", "s3 url", "s9 url",
];

/// A notification of a URL, whose id says its place in an order.
fn at_url(id: &str) -> Registering {
    let registration = Registration {
        order: Some(place_of(id)),
        ..registration(key(id))
    };
    registering_at(registration, AGAIN_MS)
}

/// Registers one of a URL. It is new.
async fn keep_at_url(journal: &dyn Journal, id: &str) -> Registering {
    let one = at_url(id);
    let reply = register(journal, &one).await;
    let is_new = matches!(
        reply,
        RegisterResult::Created | RegisterResult::CreatedOver(_)
    );
    assert!(is_new, "{id}: {reply:?}");
    one
}

fn job_id() -> JobId {
    JobId::parse("019aa3f2-7c1e-7000-8000-000000000001").expect("an id")
}

async fn fill(journal: &dyn Journal) {
    set(journal, "https://a.example/n", START_MS).await;
    old(journal, "l1 old").await;
    ends(journal, "l5 old", START_MS, &["l1 old"]).await;
    old(journal, "s1 old").await;
    let third = old(journal, "s3 old").await;
    apply(journal, failure(&third.notification, third.progress)).await;
    old(journal, "s4 old").await;
    make_again(journal).await;
    new(journal, "l1 new").await;
    ends(journal, "l3 new", AGAIN_MS, &["l1 new"]).await;
    new(journal, "s2 new").await;
    let sixth = new(journal, "s6 new").await;
    apply(journal, delivery(&sixth.notification, sixth.progress)).await;
    new(journal, "s7 new").await;
    keep_at_url(journal, "l2 url").await;
    let fourth = keep_at_url(journal, "l4 url").await;
    apply(journal, delivery(&fourth.notification, fourth.progress)).await;
    let first = keep_at_url(journal, "s1 url").await;
    apply(journal, refusal(&first.notification, first.progress)).await;
    for id in ["s2 url", "s3 url", "s9 url"] {
        keep_at_url(journal, id).await;
    }
    do_change(journal, &key("s9 url"), Change::Cancel, LATER_MS).await;
    leave_a_job(journal).await;
}

/// A job that has made one notification due, and was paused.
async fn leave_a_job(journal: &dyn Journal) {
    let job = BulkJob {
        id: job_id(),
        kind: JobKind::LaneRetry,
        state: JobState::Running,
        filter: None,
        lane: Some(Lane::from_name("https://shop.example")),
        failed_since_ms: None,
        counts: JobCounts {
            matched: 5,
            ..JobCounts::default()
        },
        rate: CallRate::per_second(0.5).expect("a rate"),
        actor: "anna".into(),
        reason: "they are back".into(),
        problem: None,
        created_ms: LATER_MS,
        ended_ms: None,
    };
    journal.add_job(&job).await.expect("added");
    let taken = journal.take_job(LEASE_MS).await.expect("asked");
    let step = JobStep {
        id: job_id(),
        fence: taken.expect("it is free").fence,
        place: Some(PLACE),
        changes: vec![changing(&key("s2 url"), Change::Retry, LATER_MS)],
        passed: None,
        begin_waiting: Vec::new(),
        end_waiting: Vec::new(),
        unchanged: vec![
            JobUnchanged::new(key("s3 url"), JobReason::Due),
            JobUnchanged::new(key("s4 url"), JobReason::Leased),
        ],
        end: None,
        at_ms: LATER_MS,
        lease_ms: LEASE_MS,
    };
    let stepped = journal.step_job(&step).await.expect("kept");
    assert!(matches!(stepped, JobStepped::Kept(_)), "{stepped:?}");
    let paused = journal
        .order_job(&job_id(), JobOrder::Pause, &anna(), "", LATER_MS)
        .await;
    paused.expect("paused");
}

/// Everything that a journal shows of orders.
#[derive(Debug, PartialEq)]
struct Shown {
    /// With the attempts, without for what it waits.
    found: Vec<Option<Snapshot>>,
    /// Without the attempts, with for what it waits.
    snapshots: Vec<Option<Snapshot>>,
    histories: Vec<Vec<Transition>>,
    endpoint: Option<StoredEndpoint>,
}

async fn shown(journal: &dyn Journal) -> Shown {
    let keys = IDS.map(key);
    let mut shown = Shown {
        found: Vec::new(),
        snapshots: journal.snapshots(&keys).await.expect("read"),
        histories: Vec::new(),
        endpoint: journal.endpoint(&shop()).await.expect("read"),
    };
    for key in &keys {
        shown.found.push(journal.find(key).await.expect("read"));
        let lines = journal.transitions(key).await.expect("read");
        shown.histories.push(lines);
    }
    shown
}

/// What is registered and changed after the migration is judged by what was there before.
async fn check_orders(journal: &dyn Journal) {
    use OrderConflict::{NumberTaken, OtherMode, Passed};
    let is_refused = async |one: Registering, conflict, other: &str| {
        refused(journal, &one, conflict, other).await;
    };
    let superseded = async |one: Registering| {
        let reply = register(journal, &one).await;
        assert!(matches!(reply, RegisterResult::Superseded(_)), "{reply:?}");
    };
    let waits = async |id: &str, expected: bool| {
        let found = journal.snapshots(&[key(id)]).await.expect("read");
        let found = found.into_iter().flatten().next().expect("it is there");
        assert_eq!(found.waits_for_ms.is_some(), expected, "{id}");
    };
    // The endpoint that was made again.
    superseded(ordered("l2 new", AGAIN_MS)).await;
    ends(journal, "l4 new", AGAIN_MS, &["l3 new"]).await;
    is_refused(ordered("l4 newer", AGAIN_MS), NumberTaken, "l4 new").await;
    is_refused(ordered("s5 new", AGAIN_MS), Passed, "s6 new").await;
    waits("s7 new", true).await;
    do_change(journal, &key("s2 new"), Change::Cancel, LATER_MS).await;
    waits("s7 new", false).await;
    new(journal, "s8 new").await;
    waits("s8 new", true).await;
    // The one before.
    superseded(ordered("l4 old", AGAIN_MS - 1)).await;
    ends(journal, "l6 old", AGAIN_MS - 1, &["l5 old"]).await;
    is_refused(ordered("s2 old", AGAIN_MS - 1), Passed, "s3 old").await;
    waits("s4 old", true).await;
    // The URL.
    superseded(at_url("l3 url")).await;
    let strict = OrderPlace::new("l", 8, OrderMode::Strict).expect("a place");
    let other_mode = Registration {
        order: Some(strict),
        ..registration(key("strict"))
    };
    let other_mode = registering_at(other_mode, AGAIN_MS);
    is_refused(other_mode, OtherMode, "l4 url").await;
    is_refused(at_url("s2 urls"), NumberTaken, "s2 url").await;
    is_refused(at_url("s0 url"), Passed, "s1 url").await;
    keep_at_url(journal, "l5 url").await;
    let resend = Changing {
        fence: find(journal, &key("l4 url")).await.fence,
        ..changing(&key("l4 url"), Change::Resend, LATER_MS)
    };
    let resent = journal.change(resend).await.expect("answered");
    assert!(matches!(resent, ChangeResult::Superseded(_)), "{resent:?}");
    waits("s3 url", true).await;
    do_change(journal, &key("s2 url"), Change::Cancel, LATER_MS).await;
    waits("s3 url", false).await;
    do_change(journal, &key("s1 url"), Change::Replay, LATER_MS).await;
    waits("s3 url", true).await;
    let states = ["l5 url", "l6 old", "l4 new"];
    for id in states {
        assert_eq!(find(journal, &key(id)).await.state, State::Scheduled);
    }
    let examined = journal.examine(10).await.expect("examined");
    assert_eq!(examined.rows, examined.counters);
    assert!(balanced(&examined.counters), "{examined:?}");
    assert_eq!(examined.faulty, 0, "{examined:?}");
}

fn anna() -> Actor {
    Actor::named("anna")
}

/// The job goes on where it stood.
async fn check_job(journal: &dyn Journal, expected: &BulkJob) {
    let found = journal.job(&job_id()).await.expect("read");
    assert_eq!(found.as_ref(), Some(expected));
    assert_eq!(journal.take_job(LEASE_MS).await.expect("asked"), None);
    let resumed = journal
        .order_job(&job_id(), JobOrder::Resume, &anna(), "", LATER_MS)
        .await;
    resumed.expect("resumed");
    let taken = journal.take_job(LEASE_MS).await.expect("asked");
    let taken = taken.expect("it is free");
    assert_eq!((taken.fence, taken.place), (2, Some(PLACE)));
}

/// Checks a journal that has been brought from this version to the newest.
async fn check(journal: &dyn Journal, version: i64, expected: &Shown, job: &BulkJob) {
    assert_eq!(&shown(journal).await, expected, "from version {version}");
    if version >= FIRST_WITH_JOBS {
        check_job(journal, job).await;
    }
    check_orders(journal).await;
}

/// The versions from which is migrated.
async fn versions(folder: &str) -> Vec<i64> {
    let mut versions = before_the_newest(&migrations(folder).await);
    versions.retain(|version| *version >= FIRST_WITH_ORDERS);
    assert!(!versions.is_empty());
    versions
}

/// Fills a journal and closes it. Gives what it showed.
async fn filled(store: &dyn Store) -> (Shown, BulkJob) {
    let journal = store.open().await;
    fill(&*journal).await;
    let expected = shown(&*journal).await;
    let job = journal.job(&job_id()).await.expect("read");
    journal.close().await;
    (expected, job.expect("it is there"))
}

#[tokio::test]
async fn the_orders_of_a_sqlite_journal_hold_after_each_migration() {
    let store = SqliteStore::new();
    let (expected, job) = filled(&store).await;
    for version in versions("migrations/sqlite").await {
        let older = older_sqlite(&store, version).await;
        let journal = older.open().await;
        check(&*journal, version, &expected, &job).await;
    }
}

#[tokio::test]
async fn the_orders_of_a_postgres_journal_hold_after_each_migration() {
    let store = PostgresStore::new();
    let (expected, job) = filled(&store).await;
    for version in versions("migrations/postgres").await {
        let url = older_postgres(&store, version).await;
        let journal = PostgresJournal::open(&url, INSTANCE, true).await;
        let journal = journal.expect("it opens");
        check(&journal, version, &expected, &job).await;
    }
}
