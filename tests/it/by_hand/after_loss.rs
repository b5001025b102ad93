//! What has ended in the journal is not left in a schedule that lost its lease and was compared before that.

use super::{actor, journal};
use crate::journal_contract::samples::{key, place, registration};
use crate::schedule_contract::losing::Server;
use crate::support::redis_node::until;
use futures_util::future::BoxFuture;
use ringback::domain::notification::{Registration, Start};
use ringback::domain::state::State;
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::recorder::Recorder;
use ringback::journal::{Journal, JournalError};
use ringback::maintenance::recovery::resync::Resync;
use ringback::schedule::recoverable::{Inspection, LoadReason, Recoverable as _};
use ringback::schedule::{ClaimQuota, ScheduleLeases as _, ScheduleReads as _};
use ringback::service::Service;
use std::sync::{Arc, Mutex};

/// When it is due, after it was registered: long after the leases that were lost have expired.
const DELAY_MS: i64 = 600_000;

/// Something happens before the next change is written.
struct BeforeChange {
    journal: Arc<dyn Journal>,
    happens: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl JournalDecorator for BeforeChange {
    fn inner(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call == JournalCall::Change {
            let happens = self.happens.lock().expect("no panic").take();
            if let Some(happens) = happens {
                happens.await;
            }
        }
        calling.await
    }
}

/// Redis is set back to before the lease, and another server has compared everything, before the cancellation is written.
#[tokio::test]
async fn a_cancellation_reaches_a_schedule_that_was_set_back_and_compared_before() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let journal = journal(&dir).await;
    let server = Arc::new(Server::owned_by(journal.id()));
    let one = Arc::new(server.ready().await);
    let before_change = Arc::new(BeforeChange {
        journal: journal.clone(),
        happens: Mutex::default(),
    });
    let recorder = Arc::new(Recorder::start(before_change.clone()));
    let service = Arc::new(Service::new(Some(recorder), one.clone()));
    let later = Registration {
        start: Start::After(DELAY_MS),
        ..registration(key("1"))
    };
    let registered = service.register(later, actor()).await;
    registered.expect("registered");
    let copy = server.copy().await;

    let (server_there, journal_there, one_there) = (server.clone(), journal.clone(), one.clone());
    let comparing = async move {
        server_there.set_back(&copy).await;
        let other = server_there.instance();
        other.restore_write_counts(&one_there.write_counts());
        let found = other.inspect(false).await.expect("looked");
        assert_eq!(found, Inspection::ToLoad(LoadReason::Lost));
        let mut resync = Resync::new(Some(journal_there), &other, &other);
        while resync.step().await.expect("compared") {}
        assert!(other.finish_loading().await.expect("heard"));
    };
    *before_change.happens.lock().expect("no panic") = Some(Box::pin(comparing));
    let cancelled = key("1");
    let cancelling = service.cancel(&cancelled, actor());
    let looking = async {
        one.wait_for_loss().await;
        one.inspect(false).await.expect("looked")
    };
    let (cancelled, found) = tokio::join!(cancelling, looking);
    assert_eq!(cancelled.expect("cancelled").state, State::Cancelled);
    assert_eq!(found, Inspection::Whole);
    let is_pending = async || {
        let held = one.holds(&[place(&key("1"))]).await.expect("answered");
        held[0].is_some_and(|held| held.state == State::Scheduled)
    };
    until("it to be removed", async || {
        (!is_pending().await).then_some(())
    })
    .await;
    server.clock.advance(DELAY_MS);
    let claimed = one.claim(ClaimQuota::of(1)).await.expect("claimed");
    assert_eq!(claimed.leases.len(), 0);
}
