//! Chance by a seed: what a test decides at random, it decides again from the same seed.

use std::ops::Range;
use std::time::Duration;

/// A stream of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of one of many things under the same seed, whatever is drawn for the others.
    pub fn of_one(seed: u64, number: u64) -> Self {
        let mut chance = Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        chance.next();
        chance
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        let index = self.below(among.len() as u64);
        &among[usize::try_from(index).expect("an index")]
    }

    /// A time within a range of milliseconds.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

/// A seed nobody has chosen.
pub fn fresh_seed() -> u64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("randomness");
    u32::from_ne_bytes(bytes).into()
}
