//! The audit log: what is kept of an act, and how it is listed and pruned. Which acts there are is in `acts`.

use super::samples::{START_MS, changing, find, history, keep, key, registering};
use super::{INSTANCE, Store};
use futures_util::future::join_all;
use ringback::domain::act::{Act, ActSubject};
use ringback::domain::change::Change;
use ringback::domain::lane::Lane;
use ringback::domain::lane_settings::{LaneHold, LaneSetting};
use ringback::domain::state::State;
use ringback::journal::{
    Actor, ApiKeyRevoked, AuditEntry, AuditFilter, ChangeResult, Changing, Cursor, Journal,
    LONGEST_TEXT, LaneOrder, OperatorKey, PersonAct, Prune, RevokingApiKey,
};

/// All entries, newest first.
pub async fn entries(journal: &dyn Journal) -> Vec<AuditEntry> {
    let page = journal
        .audit_log(&AuditFilter::default(), None, 1_000)
        .await;
    let page = page.expect("read");
    assert_eq!(page.next, None);
    page.items
}

pub fn revoking_of(name: &str, actor: &Actor) -> RevokingApiKey {
    RevokingApiKey {
        name: name.to_string(),
        operator: OperatorKey::Needed,
        actor: actor.clone(),
        at_ms: START_MS,
    }
}

/// An act that changes nothing in the journal.
fn act(actor: &str, id: &str, at_ms: i64) -> PersonAct {
    PersonAct::reading_payload(&key(id), &Actor::named(actor), at_ms)
}

async fn keep_all(journal: &dyn Journal, acts: &[PersonAct]) {
    for act in acts {
        journal.keep_act(act).await.expect("kept");
    }
}

pub async fn an_act_is_kept_as_it_was_given(store: &dyn Store) {
    let journal = store.open().await;
    assert_eq!(entries(&*journal).await, []);
    let long = "失".repeat(LONGEST_TEXT + 1);
    let given = PersonAct {
        reason: "a\0b\n'商户'".to_string(),
        detail: long,
        ..act("desk/li.lei", "a/b c", START_MS)
    };
    let service = PersonAct {
        actor: Actor::unaudited("orders"),
        ..given.clone()
    };
    keep_all(&*journal, &[service, given]).await;
    drop(journal);
    // It outlives an end without a close.
    let journal = store.open().await;
    let mut found = entries(&*journal).await;
    let reason = std::mem::take(&mut found[0].reason);
    // PostgreSQL stores no NUL.
    assert!(
        ["a\0b\n'商户'", "a\\0b\n'商户'"].contains(&&*reason),
        "{reason}"
    );
    let expected = AuditEntry {
        id: found[0].id,
        at_ms: START_MS,
        actor: "desk/li.lei".to_string(),
        act: "notification.read_payload".to_string(),
        subject_kind: "notification".to_string(),
        subject: "payment.succeeded/a/b c".to_string(),
        reason: String::new(),
        detail: "失".repeat(LONGEST_TEXT),
        instance: INSTANCE.to_string(),
    };
    assert_eq!(found, [expected]);
}

pub async fn an_act_whose_entry_cannot_be_kept_is_not_done(store: &dyn Store) {
    let journal = store.open().await;
    let notification = keep(&*journal, registering("1")).await;
    journal.close().await;
    drop(journal);
    store.damage("ALTER TABLE audit_log RENAME TO away").await;
    let journal = store.open().await;
    let cancel = || changing(&notification.key, Change::Cancel, START_MS + 1);
    let hold = LaneOrder {
        lane: Lane::from_name("https://shop.example"),
        setting: LaneSetting::Hold(Some(LaneHold {
            by: "anna".into(),
            reason: "moving".into(),
            since_ms: START_MS,
        })),
        actor: Actor::named("anna"),
        reason: "moving".to_string(),
        at_ms: START_MS,
    };
    journal.change(cancel()).await.expect_err("not done");
    journal.change_lane(&hold).await.expect_err("not done");
    let read = act("anna", "1", START_MS);
    journal.keep_act(&read).await.expect_err("not kept");
    let lanes = journal.lane_changes(0, 10).await.expect("read");
    assert_eq!(lanes.changes, []);
    let found = find(&*journal, &notification.key).await;
    assert_eq!((found.state, found.fence), (State::Scheduled, 0));
    assert_eq!(history(&*journal, &notification.key).await, ["registered"]);
    // Whoever is not audited needs no entry.
    let own = Changing {
        actor: Actor::unaudited("orders"),
        ..cancel()
    };
    let done = journal.change(own).await.expect("done");
    assert!(matches!(done, ChangeResult::Done(_)), "{done:?}");
    keep(&*journal, registering("2")).await;
    journal.close().await;
    drop(journal);
    store.damage("ALTER TABLE away RENAME TO audit_log").await;
    let journal = store.open().await;
    assert_eq!(entries(&*journal).await, []);
}

pub async fn what_comes_twice_at_once_is_one_act(store: &dyn Store) {
    let journal = store.open().await;
    let notification = keep(&*journal, registering("1")).await;
    let cancel = changing(&notification.key, Change::Cancel, START_MS + 1);
    let all = join_all((0..4).map(|_| journal.change(cancel.clone()))).await;
    let is_done = |result: &&Result<ChangeResult, _>| matches!(result, Ok(ChangeResult::Done(_)));
    assert_eq!(all.iter().filter(is_done).count(), 1, "{all:?}");
    assert_eq!(entries(&*journal).await.len(), 1);
    let missing = revoking_of("none", &Actor::named("anna"));
    let revoked = journal.revoke_api_key(&missing).await.expect("answered");
    assert_eq!(revoked, ApiKeyRevoked::Missing);
    assert_eq!(entries(&*journal).await.len(), 1);
}

pub async fn each_filter_picks_its_acts(store: &dyn Store) {
    let journal = store.open().await;
    let acts = [
        act("desk", "1", 10),
        act("desk/li.lei", "2", 20),
        act("desk/han", "3", 20),
        act("desktop", "4", 30),
        act("DESK", "5", 40),
        act("d%", "6", 50),
    ];
    keep_all(&*journal, &acts).await;
    let check = async |actor: Option<&str>, from_ms, to_ms, expected: &[&str]| {
        let filter = AuditFilter {
            actor: actor.map(str::to_string),
            from_ms,
            to_ms,
        };
        let page = journal.audit_log(&filter, None, 10).await.expect("read");
        let found: Vec<&str> = (page.items.iter())
            .filter_map(|entry| entry.subject.strip_prefix("payment.succeeded/"))
            .collect();
        assert_eq!(found, expected, "{filter:?}");
        assert_eq!(page.next, None);
    };
    check(None, None, None, &["6", "5", "4", "3", "2", "1"]).await;
    check(Some("desk"), None, None, &["3", "2", "1"]).await;
    check(Some("desk/han"), None, None, &["3"]).await;
    check(Some("desk/"), None, None, &[]).await;
    check(Some("d%"), None, None, &["6"]).await;
    check(Some("nobody"), None, None, &[]).await;
    // A time includes its start and not its end.
    check(None, Some(20), Some(40), &["4", "3", "2"]).await;
    check(None, Some(21), None, &["6", "5", "4"]).await;
    check(None, None, Some(20), &["1"]).await;
    check(None, Some(30), Some(30), &[]).await;
    check(Some("desk"), Some(20), Some(21), &["3", "2"]).await;
}

pub async fn pages_follow_on_each_other_whatever_is_done_meanwhile(store: &dyn Store) {
    let journal = store.open().await;
    for number in 0..20 {
        // Several have the same instant.
        let one = act("anna", &number.to_string(), START_MS + number / 3);
        keep_all(&*journal, &[one]).await;
    }
    let filter = AuditFilter::default();
    let (mut found, mut cursor): (Vec<String>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = journal.audit_log(&filter, cursor, 7).await.expect("read");
        assert!(page.items.len() <= 7);
        found.extend(page.items.into_iter().map(|entry| entry.subject));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        keep_all(&*journal, &[act("anna", "new", START_MS + 60_000)]).await;
    }
    let expected: Vec<String> = (0..20)
        .rev()
        .map(|number| format!("payment.succeeded/{number}"))
        .collect();
    assert_eq!(found, expected);
    // As many as there are is the last page.
    let all = journal.audit_log(&filter, None, 22).await.expect("read");
    assert_eq!((all.items.len(), all.next), (22, None));
}

pub async fn old_acts_are_pruned_in_steps(store: &dyn Store) {
    let journal = store.open().await;
    for number in 0..5 {
        let subject = ActSubject::ApiKey(number.to_string());
        let anna = Actor::named("anna");
        let one = PersonAct::of(Act::RevokeApiKey, subject, &anna, START_MS + number);
        keep_all(&*journal, &[one]).await;
    }
    let prune = Prune {
        payloads_before_ms: START_MS,
        records_before_ms: START_MS + 3,
        dead_before_ms: None,
    };
    let left = async || {
        let entries = entries(&*journal).await;
        let names = entries.into_iter().map(|entry| entry.subject);
        names.collect::<Vec<_>>()
    };
    let pruned = journal.prune(&prune, 2).await.expect("pruned");
    assert!(pruned.more);
    assert_eq!(left().await, ["4", "3", "2"]);
    let pruned = journal.prune(&prune, 2).await.expect("pruned");
    assert!(!pruned.more);
    assert_eq!(left().await, ["4", "3"]);
}
