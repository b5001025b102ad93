//! `ringback rebuild` and a registration that is on its way from the journal into Redis.

use super::stage::Stage;
use crate::cli::program::run;
use crate::journal_contract::samples::{keep, key, registering_at, registration};
use crate::support::{postgres, short_pause, within};
use ringback::clock::{Clock as _, SystemClock};
use ringback::schedule::recoverable::Inspection;

#[tokio::test]
async fn a_rebuild_leaves_what_is_on_its_way_to_the_server_that_registers_it() {
    let stage = Stage::postgres().await;
    // The command goes by the clock of this machine. From now on, so does the server.
    let now_ms = SystemClock.now_ms();
    stage.clock.turn_to(now_ms);
    let recoverable = stage.schedule.recoverable().expect("in Redis");
    let found = recoverable.inspect(false).await.expect("looked");
    assert_eq!(found, Inspection::Whole);
    let registering = registering_at(registration(key("1")), now_ms);
    let progress = registering.progress;
    let notification = keep(stage.journal.as_ref(), registering).await;

    // Of what the command asks the journal, only one question needs this table: when was registered what differs? So when
    // the command waits for it, it has compared, and has put nothing in.
    let url = stage.postgres.as_deref().expect("on PostgreSQL");
    let mut holding = postgres::connect(url).await;
    let lock = "BEGIN; LOCK TABLE endpoints IN ACCESS EXCLUSIVE MODE";
    postgres::run(&mut holding, lock).await;
    let mut arguments = vec!["rebuild", "--topic", "payment.succeeded"];
    arguments.extend(stage.flags());
    let arguments: Vec<String> = arguments.into_iter().map(String::from).collect();
    let dir = stage.dir.path().to_path_buf();
    let mut rebuilding = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&dir, &arguments, &[])
    });
    let mut looking = postgres::connect(url).await;
    let waiting = async {
        loop {
            let many: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'",
            )
            .fetch_one(&mut looking)
            .await
            .expect("read");
            if many > 0 {
                return;
            }
            if rebuilding.is_finished() {
                let finished = (&mut rebuilding).await.expect("it ran");
                panic!("the command did not look how young it is: {finished:?}");
            }
            short_pause().await;
        }
    };
    within("the command to compare", waiting).await;
    // It arrives.
    stage.schedule_one(&notification, progress).await;
    postgres::run(&mut holding, "ROLLBACK").await;

    let finished = within("the command to end", rebuilding).await;
    let finished = finished.expect("it ran");
    assert_eq!((finished.status, &*finished.stderr), (0, ""));
    assert_eq!(
        finished.stdout,
        "1 pending in the journal: 0 were missing in Redis and were put back, 0 were at another step and were corrected\n"
    );
    assert!(!stage.held("1").await.expect("held").verify);
    let line = stage.last_line(&notification.key).await;
    assert_eq!(&*line.kind, "registered");
    assert_eq!(stage.claim().await, ["1"]);
}
