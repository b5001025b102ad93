//! What all runs of a world have found.

use super::world::{JUDGE, Kind, World};
use ringback::maintenance::audit::Comparison;
use std::time::Duration;

/// How long a difference must last that counts. Nothing is written any more when the stores are compared.
const MOMENT: Duration = Duration::from_millis(1);
/// Of how many wrong results the message tells.
const MOST_SHOWN: usize = 12;

/// What all runs of a world have found.
#[derive(Default)]
pub struct Found {
    pub runs: u64,
    pub wrong: Vec<String>,
}

impl Found {
    /// Prints how many runs there were. Fails if anything is wrong, with a message that tells the first of it.
    pub fn conclude(self, kind: Kind, seed: u64, with: &str) {
        let Self { runs, wrong } = self;
        let many = wrong.len();
        println!("{kind:?}, seed {seed}: {runs} runs {with}, {many} wrong");
        let shown: Vec<String> = wrong.into_iter().take(MOST_SHOWN).collect();
        assert!(
            shown.is_empty(),
            "seed {seed}: {many} are wrong:\n{}",
            shown.join("\n")
        );
    }
}

/// Compares both stores, as `ringback audit` does, and concludes.
pub async fn report(kind: Kind, world: &World, seed: u64, mut found: Found, with: &str) {
    let (journal, schedule) = (&world.journals[JUDGE], &world.schedules[JUDGE]);
    let mut comparison = Comparison::new(journal.as_ref(), schedule.as_ref(), MOMENT);
    while comparison.step().await.expect("compared") {}
    let compared = comparison.compared();
    let is_clean = compared.different == 0 && compared.journal == 0 && compared.schedule == 0;
    if !is_clean {
        found.wrong.push(format!("the stores differ: {compared:?}"));
    }
    found.conclude(kind, seed, with);
}
