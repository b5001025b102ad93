//! Every kind of act leaves exactly one entry in the audit log, and what was refused or repeated, or is not the act of a
//! person, leaves none.

use super::Store;
use super::audit_log::{entries, revoking_of};
use super::samples::{
    START_MS, apply, changing, delivery, find, keep, key, refusal, registering, registering_at,
    registration,
};
use ringback::domain::api_key::{ApiKeyDigest, ApiKeyName, ApiKeyRecord, KeyTopics};
use ringback::domain::call_rate::CallRate;
use ringback::domain::change::Change;
use ringback::domain::default_keys::{DefaultKey, DefaultKeyChange, DefaultKeys};
use ringback::domain::endpoint::{Endpoint, EndpointName, EndpointSettings};
use ringback::domain::endpoint_keys::{EndpointKey, EndpointKeys};
use ringback::domain::job::{BulkJob, JobCounts, JobId, JobKind, JobOrder, JobState};
use ringback::domain::job_filter::JobFilter;
use ringback::domain::lane::Lane;
use ringback::domain::lane_settings::{LaneHold, LaneLimits, LaneSetting};
use ringback::domain::notification::Start;
use ringback::domain::role::Role;
use ringback::domain::signing_key::KeyKind;
use ringback::domain::state::State;
use ringback::journal::resealing::Resealing;
use ringback::journal::{
    Actor, AddingApiKey, ApiKeyAdded, ApiKeyRevoked, ChangeResult, Changing, ChangingDefaultKeys,
    DefaultKeysChanged, EndpointSet, ExpectedVersion, JobAdded, JobOrdered, JobStep, JobStepped,
    Journal, LaneOrder, OperatorKey, Rebuild, RemovingEndpoint, SealedKeys, SettingEndpoint,
};

fn anna() -> Actor {
    Actor::named("anna")
}

/// The acts since so many were there, oldest first, each as `act subject: detail`.
async fn since(journal: &dyn Journal, before: usize) -> Vec<String> {
    let entries = entries(journal).await;
    let new = entries.len() - before;
    let text = |entry: &ringback::journal::AuditEntry| {
        format!("{} {}: {}", entry.act, entry.subject, entry.detail)
    };
    entries[..new].iter().rev().map(text).collect()
}

pub async fn each_change_of_a_notification_is_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let at_ms = START_MS + 1_000;
    for (change, state, expected, detail) in [
        (Change::Cancel, State::Scheduled, "notification.cancel", ""),
        (Change::Discard, State::Dead, "notification.discard", ""),
        (Change::Replay, State::Dead, "notification.replay", ""),
        (Change::Resend, State::Delivered, "notification.resend", ""),
        (Change::Retry, State::Scheduled, "notification.retry", ""),
        (
            Change::Reschedule(Start::After(60_000)),
            State::Scheduled,
            "notification.reschedule",
            "first attempt at 2026-11-20T08:31:01.000Z",
        ),
    ] {
        let before = entries(&*journal).await.len();
        let given = registering(&format!("{change}"));
        let progress = given.progress;
        let notification = keep(&*journal, given).await;
        match state {
            State::Dead => apply(&*journal, refusal(&notification, progress)).await,
            State::Delivered => apply(&*journal, delivery(&notification, progress)).await,
            State::Scheduled | State::Cancelled => {}
        }
        let key = &notification.key;
        // A lease that was lost, and then a change that comes twice.
        let lost = Changing {
            fence: 9,
            ..changing(key, change, at_ms)
        };
        let result = journal.change(lost).await.expect("answered");
        assert!(matches!(result, ChangeResult::Fenced(_)), "{result:?}");
        for is_first in [true, false] {
            let result = journal.change(changing(key, change, at_ms)).await;
            let is_done = matches!(result, Ok(ChangeResult::Done(_)));
            assert_eq!(is_done, is_first, "{result:?}");
        }
        let subject = format!("{}/{}", key.topic(), key.id());
        let expected = [format!("{expected} {subject}: {detail}")];
        assert_eq!(since(&*journal, before).await, expected);
        let entry = entries(&*journal).await.remove(0);
        assert_eq!(entry.reason, format!("asked to {change}"));
        assert_eq!((&*entry.actor, entry.at_ms), ("support", at_ms));
    }
    let before = entries(&*journal).await.len();
    let missing = journal.change(changing(&key("none"), Change::Cancel, at_ms));
    assert_eq!(missing.await.expect("answered"), ChangeResult::Missing);
    // A service cancels what it has registered.
    let notification = keep(&*journal, registering("own")).await;
    let own = Changing {
        actor: Actor::unaudited("orders"),
        ..changing(&notification.key, Change::Cancel, at_ms)
    };
    let result = journal.change(own).await.expect("answered");
    assert!(matches!(result, ChangeResult::Done(_)), "{result:?}");
    assert_eq!(since(&*journal, before).await, [""; 0]);
}

pub async fn each_order_to_a_lane_is_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let hold = |reason: &str| {
        LaneSetting::Hold(Some(LaneHold {
            by: "anna".into(),
            reason: reason.into(),
            since_ms: START_MS,
        }))
    };
    let order = |setting, actor| LaneOrder {
        lane: Lane::from_name("https://shop.example"),
        setting,
        actor,
        reason: "moving".into(),
        at_ms: START_MS,
    };
    for (setting, actor, expected) in [
        (hold("a"), anna(), Some("lane.hold")),
        (hold("a"), anna(), None),
        (hold("b"), anna(), Some("lane.hold")),
        (hold("c"), Actor::dispatcher(), None),
        (
            LaneSetting::Limits(LaneLimits {
                rate: CallRate::per_second(1.0).ok(),
                concurrency: None,
            }),
            anna(),
            None,
        ),
        (LaneSetting::Hold(None), anna(), Some("lane.release")),
        (LaneSetting::Hold(None), anna(), None),
    ] {
        let before = entries(&*journal).await.len();
        let order = order(setting, actor);
        journal.change_lane(&order).await.expect("kept");
        let expected: Vec<String> = expected
            .map(|act| format!("{act} https://shop.example: "))
            .into_iter()
            .collect();
        assert_eq!(since(&*journal, before).await, expected, "{order:?}");
    }
    let entry = entries(&*journal).await.remove(0);
    assert_eq!((&*entry.actor, &*entry.reason), ("anna", "moving"));
    assert_eq!(entry.subject_kind, "lane");
}

fn job(id: &str, kind: JobKind, lane: &str) -> BulkJob {
    BulkJob {
        id: JobId::parse(id).expect("an id"),
        kind,
        state: JobState::Running,
        lane: Some(Lane::from_name(lane)),
        filter: None,
        failed_since_ms: None,
        counts: JobCounts::default(),
        rate: CallRate::per_second(0.5).expect("a rate"),
        actor: "anna".into(),
        reason: "they are back".into(),
        problem: None,
        created_ms: START_MS,
        ended_ms: None,
    }
}

pub async fn a_job_of_a_filter_is_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let of = |id: &str, kind| BulkJob {
        lane: None,
        filter: Some(JobFilter {
            topic: Some("paid".into()),
            ..JobFilter::default()
        }),
        ..job(id, kind, "")
    };
    for (id, kind, is_new) in [
        ("1", JobKind::Replay, true),
        ("1", JobKind::Replay, true),
        ("2", JobKind::Replay, false),
        ("3", JobKind::Cancel, true),
    ] {
        let added = journal.add_job(&of(id, kind)).await.expect("answered");
        assert_eq!(added == JobAdded::Added, is_new, "{added:?}");
    }
    let made = [
        r#"job.replay 1: filter {"topic":"paid"}, 0 match, 0.5 per second"#,
        r#"job.cancel 3: filter {"topic":"paid"}, 0 match, 0.5 per second"#,
    ];
    assert_eq!(since(&*journal, 0).await, made);
    assert_eq!(entries(&*journal).await[0].reason, "they are back");
}

pub async fn a_job_and_each_order_to_it_are_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let mut later = registration(key("1"));
    later.start = Start::After(3_600_000);
    keep(&*journal, registering_at(later, START_MS)).await;
    let first = job("1", JobKind::LaneRetry, "https://shop.example");
    for _ in 0..2 {
        let added = journal.add_job(&first).await.expect("kept");
        assert_eq!(added, JobAdded::Added, "it can be repeated");
    }
    let second = job("2", JobKind::LaneRetry, "https://shop.example");
    let taken = journal.add_job(&second).await.expect("answered");
    assert!(matches!(taken, JobAdded::LaneTaken(_)), "{taken:?}");
    // A server makes the one; the other stands for an order to a lane.
    let after_outage = job("3", JobKind::AfterOutage, "https://b.example");
    let release = BulkJob {
        state: JobState::Done,
        ended_ms: Some(START_MS),
        ..job("4", JobKind::LaneRelease, "https://b.example")
    };
    for unaudited in [after_outage, release] {
        let added = journal.add_job(&unaudited).await.expect("kept");
        assert_eq!(added, JobAdded::Added);
    }
    let made = ["lane.retry https://shop.example: job 1, 0.5 per second"];
    assert_eq!(since(&*journal, 0).await, made);
    assert_eq!(entries(&*journal).await[0].reason, "they are back");

    // What a job does is no act of its own.
    let taken = journal.take_job(60_000).await.expect("asked");
    let step = JobStep {
        id: first.id.clone(),
        fence: taken.expect("it is free").fence,
        place: None,
        changes: vec![changing(&key("1"), Change::Retry, START_MS)],
        passed: None,
        begin_waiting: Vec::new(),
        end_waiting: Vec::new(),
        unchanged: Vec::new(),
        end: None,
        at_ms: START_MS,
        lease_ms: 60_000,
    };
    let stepped = journal.step_job(&step).await.expect("kept");
    assert!(matches!(stepped, JobStepped::Kept(_)), "{stepped:?}");
    assert_eq!(find(&*journal, &key("1")).await.fence, 1);

    for order in [
        JobOrder::Resume,
        JobOrder::Pause,
        JobOrder::Pause,
        JobOrder::Resume,
        JobOrder::Stop,
        JobOrder::Stop,
    ] {
        let ordered = journal
            .order_job(&first.id, order, &anna(), "ticket 5", START_MS)
            .await;
        ordered.expect("answered");
    }
    let missing = journal
        .order_job(&second.id, JobOrder::Stop, &anna(), "", START_MS)
        .await;
    assert_eq!(missing.expect("answered"), JobOrdered::Missing);
    let expected = ["job.pause 1: ", "job.resume 1: ", "job.stop 1: "];
    assert_eq!(since(&*journal, 1).await, expected);
    let reasons: Vec<String> = (entries(&*journal).await.iter().take(3))
        .map(|entry| entry.reason.to_string())
        .collect();
    assert_eq!(reasons, ["ticket 5"; 3]);
}

fn endpoint_key(id: &str, signs_until_ms: Option<i64>) -> EndpointKey {
    EndpointKey {
        id: id.to_string(),
        kind: KeyKind::Symmetric,
        sealed: format!("sealed-secret-{id}"),
        public_key: None,
        created_ms: START_MS,
        signs_until_ms,
    }
}

fn setting(settings: &str, keys: Option<Vec<EndpointKey>>) -> SettingEndpoint {
    SettingEndpoint {
        name: EndpointName::parse("shop").expect("a name"),
        settings: EndpointSettings::from_text(settings).expect("settings"),
        keys: keys.map(|keys| SealedKeys {
            keys: EndpointKeys::stored(keys),
            master_key: Some("one".to_string()),
        }),
        sealed_with: None,
        expected: ExpectedVersion::Any,
        actor: anna(),
        at_ms: START_MS,
        made_again_after_ms: 0,
    }
}

pub async fn each_change_of_an_endpoint_is_one_act(store: &dyn Store) {
    const PLAIN: &str = r#"{"url":"https://a.example/secret-path"}"#;
    const OTHER: &str =
        r#"{"url":"https://b.example/","rate":5000,"headers":[["x-token","secret-value"]]}"#;
    let journal = store.open().await;
    let first = || endpoint_key("k1", None);
    let ending = || endpoint_key("k1", Some(START_MS + 9));
    let second = || endpoint_key("k2", None);
    for (setting, expected) in [
        (setting(PLAIN, None), Some("create shop: ")),
        (setting(PLAIN, None), None),
        // It also changes the limits of the lane.
        (
            setting(OTHER, None),
            Some("change shop: changed: url, rate, headers"),
        ),
        (
            setting(OTHER, Some(vec![first()])),
            Some("add_key shop: added: key k1"),
        ),
        (
            setting(OTHER, Some(vec![second(), ending()])),
            Some("add_key shop: added: key k2"),
        ),
        (
            setting(OTHER, Some(vec![second()])),
            Some("remove_key shop: removed: key k1"),
        ),
        (
            setting(PLAIN, Some(vec![first()])),
            Some("change shop: changed: url, rate, headers, keys; added: key k1; removed: key k2"),
        ),
    ] {
        let before = entries(&*journal).await.len();
        journal.set_endpoint(&setting).await.expect("answered");
        let expected: Vec<String> = expected
            .map(|act| format!("endpoint.{act}"))
            .into_iter()
            .collect();
        assert_eq!(since(&*journal, before).await, expected);
    }
    let before = entries(&*journal).await.len();
    let old = SettingEndpoint {
        expected: ExpectedVersion::Exactly(1),
        ..setting(OTHER, None)
    };
    let other_master_key = SettingEndpoint {
        sealed_with: Some("two".to_string()),
        ..setting(OTHER, None)
    };
    for (refused, expected) in [
        (old, EndpointSet::Conflict),
        (other_master_key, EndpointSet::OtherMasterKey),
    ] {
        let set = journal.set_endpoint(&refused).await.expect("answered");
        assert_eq!(set, expected);
    }
    for expected in [true, false] {
        let removing = RemovingEndpoint {
            name: EndpointName::parse("shop").expect("a name"),
            actor: anna(),
            at_ms: START_MS,
        };
        let removed = journal.remove_endpoint(&removing).await.expect("answered");
        assert_eq!(removed, expected);
    }
    assert_eq!(since(&*journal, before).await, ["endpoint.remove shop: "]);
    let all = format!("{:?}", entries(&*journal).await);
    assert!(!all.contains("secret"), "{all}");
}

pub async fn each_change_of_the_default_keys_is_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let key = |id: &str| DefaultKey {
        key: endpoint_key(id, None),
        fingerprint: format!("fingerprint-{id}"),
    };
    let changing = |change, actor| ChangingDefaultKeys {
        change,
        master_key: Some("one".to_string()),
        actor,
        at_ms: START_MS,
    };
    for (change, actor, expected) in [
        // A server gives the journal its first key.
        (
            DefaultKeyChange::First(key("k1")),
            Actor::maintenance(),
            None,
        ),
        (DefaultKeyChange::First(key("k9")), anna(), None),
        (DefaultKeyChange::Add(key("k2"), 50), anna(), Some("add k2")),
        (DefaultKeyChange::Add(key("k2"), 50), anna(), None),
        (
            DefaultKeyChange::Remove("k1".to_string()),
            anna(),
            Some("remove k1"),
        ),
        (DefaultKeyChange::Remove("k2".to_string()), anna(), None),
        (DefaultKeyChange::Remove("none".to_string()), anna(), None),
    ] {
        let before = entries(&*journal).await.len();
        let changing = changing(change, actor);
        let changed = journal.change_default_keys(&changing).await;
        changed.expect("answered");
        let expected: Vec<String> = expected
            .map(|act| format!("default_key.{act}: "))
            .into_iter()
            .collect();
        assert_eq!(since(&*journal, before).await, expected, "{changing:?}");
    }
    let before = entries(&*journal).await.len();
    let other = ChangingDefaultKeys {
        master_key: Some("two".to_string()),
        ..changing(DefaultKeyChange::Add(key("k3"), 50), anna())
    };
    let refused = journal.change_default_keys(&other).await.expect("answered");
    assert_eq!(refused, DefaultKeysChanged::OtherMasterKey);
    assert_eq!(since(&*journal, before).await, [""; 0]);
}

pub async fn each_change_of_the_api_keys_is_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let record = |name: &str, role, secret: &str| ApiKeyRecord {
        name: ApiKeyName::parse(name).expect("a name"),
        role,
        topics: None,
        digest: ApiKeyDigest::of(secret.as_bytes()),
        created_by: "anna".into(),
        created_ms: START_MS,
        expires_ms: None,
    };
    let bound = ApiKeyRecord {
        topics: KeyTopics::from_text("a b"),
        expires_ms: Some(START_MS + 1_000),
        ..record("shop", Role::Producer, "1")
    };
    for (record, expected, act) in [
        (bound.clone(), ApiKeyAdded::NoOperator, None),
        (
            record("admin", Role::Operator, "2"),
            ApiKeyAdded::Added,
            Some("admin: role operator"),
        ),
        (
            record("admin", Role::Operator, "2"),
            ApiKeyAdded::Added,
            None,
        ),
        (
            record("admin", Role::Operator, "3"),
            ApiKeyAdded::NameTaken,
            None,
        ),
        (
            bound,
            ApiKeyAdded::Added,
            Some("shop: role producer, topics a b, until 2026-11-20T08:30:01.000Z"),
        ),
    ] {
        let before = entries(&*journal).await.len();
        let adding = AddingApiKey {
            record,
            operator: OperatorKey::Needed,
            actor: anna(),
        };
        let added = journal.add_api_key(&adding).await.expect("answered");
        assert_eq!(added, expected);
        let act: Vec<String> = act
            .map(|act| format!("api_key.add {act}"))
            .into_iter()
            .collect();
        assert_eq!(since(&*journal, before).await, act);
    }
    let before = entries(&*journal).await.len();
    for (name, expected) in [
        ("admin", ApiKeyRevoked::LastOperator),
        ("shop", ApiKeyRevoked::Revoked),
        ("shop", ApiKeyRevoked::Missing),
    ] {
        let revoked = journal.revoke_api_key(&revoking_of(name, &anna())).await;
        assert_eq!(revoked.expect("answered"), expected);
    }
    assert_eq!(since(&*journal, before).await, ["api_key.revoke shop: "]);
}

/// Encrypts nothing, and succeeds.
struct NothingSealed;

impl Resealing for NothingSealed {
    fn fingerprints(&self) -> [String; 2] {
        ["one".to_string(), "two".to_string()]
    }

    fn endpoint(&mut self, _: &Endpoint) -> Option<Endpoint> {
        None
    }

    fn default_keys(&mut self, _: &DefaultKeys) -> Option<DefaultKeys> {
        None
    }

    fn unreadable(&mut self, _: &str) {}

    fn succeeded(&self) -> bool {
        true
    }
}

pub async fn a_rebuild_and_a_change_of_the_master_key_are_acts(store: &dyn Store) {
    let journal = store.open().await;
    for actor in [Actor::maintenance(), anna()] {
        let rebuild = Rebuild {
            at_ms: START_MS,
            actor,
            reason: "Redis was empty".to_string(),
        };
        journal.rebuilding(&rebuild).await.expect("kept");
    }
    assert_eq!(since(&*journal, 0).await, ["schedule.rebuild : "]);
    assert_eq!(entries(&*journal).await[0].reason, "Redis was empty");
    journal.close().await;
    drop(journal);
    // There is nothing to encrypt, so nothing is done.
    store
        .reseal(&mut NothingSealed, START_MS)
        .await
        .expect("answered");
    let journal = store.open().await;
    let sealed = setting(r#"{"url":"https://a.example/"}"#, Some(vec![]));
    journal.set_endpoint(&sealed).await.expect("set");
    journal.close().await;
    drop(journal);
    store
        .reseal(&mut NothingSealed, START_MS + 1)
        .await
        .expect("done");
    let journal = store.open().await;
    let expected = ["endpoint.create shop: ", "master_key.change : "];
    assert_eq!(since(&*journal, 1).await, expected);
}
