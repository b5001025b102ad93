//! For tests: a service over stores in which nothing is yet.

use super::Service;
use crate::clock::ManualClock;
use crate::journal::recorder::Recorder;
use crate::journal::sqlite::SqliteJournal;
use crate::journal::timeless::TimelessJournal;
use crate::schedule::Limits;
use crate::schedule::memory::MemorySchedule;
use crate::schedule::window::Window;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A service with a journal in this directory, and what is due within an hour in its schedule. The calls of its journal take
/// none of a paused time.
pub(super) async fn service_over_empty_stores(dir: &Path) -> Service {
    let journal = SqliteJournal::open(&dir.join("journal.db"), "test").await;
    let journal = TimelessJournal::over(Arc::new(journal.expect("it opens")));
    let limits = Limits {
        window: Window::of(Duration::from_secs(3_600)),
        ..Limits::OF_TESTS
    };
    let schedule = MemorySchedule::new(Arc::new(ManualClock::at(1_000_000)), limits);
    let recorder = Arc::new(Recorder::start(Arc::new(journal)));
    Service::new(Some(recorder), Arc::new(schedule))
}
