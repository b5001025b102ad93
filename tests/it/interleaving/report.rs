//! What all runs of a world have found.

use super::world::{JUDGE, Kind, World};
use ringback::maintenance::audit::Comparison;
use std::time::Duration;

/// How long a difference must last that counts. Nothing is written any more when the stores are compared.
const MOMENT: Duration = Duration::from_millis(1);

/// What all runs of a world have found.
#[derive(Default)]
pub struct Found {
    pub runs: u64,
    pub wrong: Vec<String>,
}

/// Compares both stores, as `ringback audit` does, and shows what is wrong.
pub async fn report(kind: Kind, world: &World, seed: u64, found: Found, with: &str) {
    let Found { runs, mut wrong } = found;
    let (journal, schedule) = (&world.journals[JUDGE], &world.schedules[JUDGE]);
    let mut comparison = Comparison::new(journal.as_ref(), schedule.as_ref(), MOMENT);
    while comparison.step().await.expect("compared") {}
    let compared = comparison.compared();
    let is_clean = compared.different == 0 && compared.journal == 0 && compared.schedule == 0;
    if !is_clean {
        wrong.push(format!("the stores differ: {compared:?}"));
    }
    println!(
        "{kind:?}, seed {seed}: {runs} runs {with}, {} wrong",
        wrong.len()
    );
    let shown: Vec<String> = wrong.iter().take(12).cloned().collect();
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} are wrong:\n{}",
        wrong.len(),
        shown.join("\n")
    );
}
