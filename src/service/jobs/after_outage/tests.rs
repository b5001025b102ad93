use super::*;
use crate::clock::ManualClock;
use crate::domain::endpoint::EndpointSettings;
use crate::domain::endpoint_name::EndpointName;
use crate::domain::job::{JobOrder, MOST_JOBS};
use crate::endpoints::Endpoints;
use crate::endpoints::store::EndpointStore;
use crate::journal::decorator::{JournalCall, JournalDecorator};
use crate::journal::recorder::Recorder;
use crate::journal::sqlite::SqliteJournal;
use crate::journal::{ExpectedVersion, Journal, JournalError, JournalJobs as _, SettingEndpoint};
use crate::schedule::Limits;
use crate::schedule::memory::MemorySchedule;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn the_wait_doubles_with_each_refusal_of_its_lane() {
    let (one, other) = (Lane::from_name("endpoint:a"), Lane::from_name("endpoint:b"));
    let (mut waiting, mut now) = (RefusedOutages::default(), Instant::now());
    for seconds in [5, 10, 20, 40, 60, 60] {
        assert!(waiting.is_over(&one, now), "{seconds}");
        waiting.refuse(one.clone(), now);
        let wait = Duration::from_secs(seconds);
        let just_before = now + wait - Duration::from_millis(1);
        assert!(!waiting.is_over(&one, just_before), "{seconds}");
        assert!(waiting.is_over(&other, now), "{seconds}");
        now += wait;
        waiting.forget_old(now);
    }
    waiting.forget(&one);
    waiting.refuse(one.clone(), now);
    assert!(waiting.is_over(&one, now + AGAIN), "it begins anew");
    waiting.forget_old(now + AGAIN + 2 * LONGEST_WAIT);
    assert!(waiting.0.is_empty());
}

/// Counts how often the journal was asked how much a job concerns.
struct CountingJournal(SqliteJournal, AtomicUsize);

impl JournalDecorator for CountingJournal {
    fn inner(&self) -> &dyn Journal {
        &self.0
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call == JournalCall::JobMatches {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        calling.await
    }
}

fn outage(endpoint: &str) -> EndedOutage {
    EndedOutage {
        lane: Lane::from_name(&format!("endpoint:{endpoint}")),
        from_ms: 500_000,
        until_ms: 900_000,
    }
}

#[tokio::test]
async fn nothing_is_counted_while_another_job_is_in_the_way() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = SqliteJournal::open(&dir.path().join("journal.db"), "test").await;
    let journal = CountingJournal(journal.expect("it opens"), AtomicUsize::new(0));
    let journal = Arc::new(journal);
    let store = EndpointStore::Journal(journal.clone());
    for name in ["a", "b"] {
        let settings = r#"{"url":"https://a.example/","after_outage_rate":5}"#;
        let setting = SettingEndpoint {
            name: EndpointName::parse(name).expect("a name"),
            settings: EndpointSettings::from_text(settings).expect("settings"),
            keys: None,
            sealed_with: None,
            expected: ExpectedVersion::Any,
            actor: Actor::named("ops"),
            at_ms: 1_000,
            made_again_after_ms: 0,
        };
        store.set(&setting).await.expect("set");
    }
    let clock = Arc::new(ManualClock::at(1_000_000));
    let schedule = Arc::new(MemorySchedule::new(clock, Limits::OF_TESTS));
    let recorder = Arc::new(Recorder::start(journal.clone()));
    let mut service = Service::new(Some(recorder), schedule);
    service.endpoints = Arc::new(Endpoints::open(Some(store), None).await.expect("read"));
    let counted = || journal.1.swap(0, Ordering::Relaxed);
    let job = |lane: &str, kind| {
        let rate = CallRate::per_second(1.0).expect("a rate");
        let mut job = service.job_after(&outage(lane), rate);
        job.kind = kind;
        job.id = JobId::parse(&format!("{:08x}", lane.len() + 0xa0)).expect("an id");
        job
    };

    let (taking, anna) = (job("a", JobKind::LaneRetry), Actor::named("anna"));
    journal.add_job(&taking).await.expect("kept");
    (journal
        .order_job(&taking.id, JobOrder::Pause, &anna, "", 1_000_000)
        .await)
        .expect("paused");
    for _ in 0..2 {
        let refused = service.after_outage(&outage("a")).await;
        assert!(
            matches!(refused, Err(ServiceError::JobRuns(_))),
            "{refused:?}"
        );
    }
    assert_eq!(counted(), 0);
    service
        .after_outage(&outage("b"))
        .await
        .expect("nothing failed");
    assert_eq!(counted(), 1, "another outage goes on");
    (journal
        .order_job(&taking.id, JobOrder::Stop, &anna, "", 1_000_000)
        .await)
        .expect("stopped");
    service
        .after_outage(&outage("a"))
        .await
        .expect("nothing failed");
    assert_eq!(counted(), 1);

    // As many jobs after outages as there may be leave room for those of people.
    for number in 0..MOST_JOBS {
        let mut one = job("b", JobKind::AfterOutage);
        one.id = JobId::parse(&format!("{:08x}", 0xb000 + number)).expect("an id");
        one.lane = Some(Lane::from_name(&format!("endpoint:b-{number}")));
        journal.add_job(&one).await.expect("kept");
    }
    let refused = service.after_outage(&outage("a")).await;
    assert!(
        matches!(refused, Err(ServiceError::TooManyJobs(_))),
        "{refused:?}"
    );
    assert_eq!(counted(), 0);
}
