//! When a server asks for the duty that loads the window ([`super::window`]), and when it leaves that to the others.

use super::duty::run;
use super::window::WindowLoader;
use crate::clock::Clock;
use crate::journal::Journal;
use crate::schedule::Schedule;
use crate::schedule::window::Window;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the schedule is asked how far it was loaded.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Loads the window for ever, whenever this instance has the duty, and the schedule `is_whole` or at least holds again what is
/// due soon: after a loss, what it holds is compared with the journal for some time, and more becomes due meanwhile.
///
/// A server without a horizon asks for the duty only while servers with one have left something out, or may do so. When they
/// are gone, it loads everything, and would keep the duty and load nothing afterwards, so that another one with a horizon
/// could not load what it leaves out.
pub(super) async fn load(
    (journal, schedule): (Arc<dyn Journal>, Arc<dyn Schedule>),
    clock: Arc<dyn Clock>,
    is_whole: watch::Receiver<bool>,
) {
    let (can_load, loads) = watch::channel(*is_whole.borrow());
    let loading = load_while((journal, schedule.clone()), clock, loads);
    tokio::join!(
        loading,
        follow_recovery(schedule.as_ref(), is_whole, can_load)
    );
}

/// Says whether something can be loaded now: if the schedule is whole, or what is due soon was loaded after a loss.
async fn follow_recovery(
    schedule: &dyn Schedule,
    mut is_whole: watch::Receiver<bool>,
    can_load: watch::Sender<bool>,
) {
    loop {
        let can = *is_whole.borrow_and_update()
            || matches!(
                schedule.loaded_until(&schedule.out_of_reach()).await,
                Ok(Some(_))
            );
        can_load.send_if_modified(|before| std::mem::replace(before, can) != can);
        tokio::select! {
            Ok(()) = is_whole.changed() => {}
            () = tokio::time::sleep(ASK_AGAIN) => {}
        }
    }
}

async fn load_while(
    (journal, schedule): (Arc<dyn Journal>, Arc<dyn Schedule>),
    clock: Arc<dyn Clock>,
    healthy: watch::Receiver<bool>,
) {
    let is_whole = schedule.limits().window == Window::WHOLE;
    loop {
        if is_whole {
            until_noted(schedule.as_ref(), |loaded_until| {
                loaded_until != Some(i64::MAX)
            })
            .await;
        }
        let duty = WindowLoader::new(journal.clone(), schedule.clone());
        let loading = run(duty, journal.clone(), clock.clone(), healthy.clone());
        let everything = until_noted(schedule.as_ref(), |loaded_until| {
            loaded_until == Some(i64::MAX)
        });
        tokio::select! {
            () = loading => {}
            () = everything, if is_whole => {}
        }
    }
}

/// Waits until the schedule has noted such an instant.
async fn until_noted(schedule: &dyn Schedule, is_such: impl Fn(Option<i64>) -> bool) {
    loop {
        // `health` logs the outages of the schedule.
        if let Ok(loaded_until) = schedule.loaded_until(&schedule.out_of_reach()).await
            && is_such(loaded_until)
        {
            return;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}
