//! What the window lacks is loaded while what was recovered is compared with the journal, however long that takes.

use super::lane_settings::FOR_EVER;
use super::stage::{HORIZON_MS, Stage};
use crate::support::redis_node::until;
use crate::support::within;
use futures_util::future::join_all;
use ringback::journal::decorator::{JournalCall, JournalDecorator};
use ringback::journal::{Journal, JournalError};
use ringback::maintenance::Maintenance;
use ringback::telemetry::metrics::Metrics;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A journal whose answers to comparisons do not come.
struct SilentAboutStandings {
    inner: Arc<dyn Journal>,
    asked: Arc<Semaphore>,
}

impl JournalDecorator for SilentAboutStandings {
    fn inner(&self) -> &dyn Journal {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: JournalCall,
        calling: impl Future<Output = Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        if call == JournalCall::Standings {
            self.asked.add_permits(1);
            std::future::pending::<()>().await;
        }
        calling.await
    }
}

#[tokio::test]
async fn what_becomes_due_soon_is_loaded_while_a_recovery_compares() {
    let stage = Stage::redis_with_window().await;
    stage.register("known", 60_000).await;
    stage.journal_one("later", HORIZON_MS).await;
    let run = ["HSET", "{rb:0}:meta", "run", "another"];
    stage.redis_command(&run).await;
    let asked = Arc::new(Semaphore::new(0));
    let journal = Arc::new(SilentAboutStandings {
        inner: stage.journal.clone(),
        asked: asked.clone(),
    });
    let schedule = stage.schedule.clone();
    let begun = Maintenance::begin(Some(journal), schedule, FOR_EVER, Metrics::new()).await;
    let stop = CancellationToken::new();
    let duties = begun.expect("both stores answer").duties(&stop);
    let checking = async {
        let permit = within("the comparison", asked.acquire()).await;
        permit.expect("open").forget();
        assert!(stage.held("later").await.is_none());
        stage.clock.advance(HORIZON_MS / 2);
        until("what is due soon", async || stage.held("later").await).await;
        stop.cancel();
    };
    let running = join_all(duties.into_iter().map(|(_, duty)| duty));
    within("the duties", async { tokio::join!(running, checking) }).await;
}
