//! What the environment asks for: how many runs, with which seed, and which cases.

use crate::support::chance::fresh_seed;

/// How many runs of each kind; `None` asks for the short form.
pub fn runs() -> Option<u64> {
    number("RINGBACK_INTERLEAVINGS")
}

/// The seed of another run that is tried again, or a fresh one.
pub fn seed() -> u64 {
    number("RINGBACK_INTERLEAVING_SEED").unwrap_or_else(fresh_seed)
}

/// The one case whose place is given, or all of them.
pub fn cases<Case>(all: &'static [Case]) -> &'static [Case] {
    match number("RINGBACK_INTERLEAVING_CASE") {
        Some(place) => {
            let place = usize::try_from(place).expect("small");
            all.get(place..=place).expect("there is no such case")
        }
        None => all,
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}
