//! Puts what is pending in the journal back into the schedule: whole entries, or places in lanes.

use super::by_partition;
use super::context::{Context, WaitingPlace};
use super::partition::Partition;
use crate::domain::lane::Lane;
use crate::domain::place::PlaceInLane;
use crate::schedule::envelope;
use crate::schedule::{Entry, Restored, ScheduleError};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

/// Maximum number of entries restored by one script, and maximum of their bytes: a script must not block
/// Redis for much longer than a millisecond.
const MOST_RESTORED: usize = 200;
const MOST_RESTORED_BYTES: usize = 512 * 1024;
/// Maximum number of restore scripts that wait for a reply at a time: while Redis runs one, the next is on
/// the network.
const AT_ONCE: usize = 3;
/// The arguments of `restore.lua` before those of the first lane, and of each lane beside its entries.
const BEFORE_LANES: usize = 8;
const LANE_ARGUMENTS: usize = 3;

/// What a script puts back.
pub trait Restorable: Sync {
    fn lane(&self) -> &Lane;

    fn key(&self) -> &str;

    /// About how many bytes it adds to the command.
    fn estimated_bytes(&self) -> usize;

    fn place(&self, context: &Context) -> WaitingPlace;

    /// Its envelope; of one that may be bare, only the header. `None` if only the places of such are known.
    fn envelope(&self, context: &Context) -> Option<Vec<u8>>;
}

impl Restorable for Entry {
    fn lane(&self) -> &Lane {
        &self.notification.lane
    }

    fn key(&self) -> &str {
        self.notification.key.as_str()
    }

    fn estimated_bytes(&self) -> usize {
        envelope::estimated_bytes(self)
    }

    fn place(&self, context: &Context) -> WaitingPlace {
        context.place_of_recorded(self)
    }

    fn envelope(&self, context: &Context) -> Option<Vec<u8>> {
        Some(context.envelope_of_recorded(self))
    }
}

impl Restorable for PlaceInLane {
    fn lane(&self) -> &Lane {
        &self.entry.lane
    }

    fn key(&self) -> &str {
        self.entry.key.as_str()
    }

    fn estimated_bytes(&self) -> usize {
        self.entry.key.as_str().len() + self.entry.lane.as_str().len()
    }

    fn place(&self, _context: &Context) -> WaitingPlace {
        WaitingPlace::of(self)
    }

    fn envelope(&self, _context: &Context) -> Option<Vec<u8>> {
        None
    }
}

/// See [`crate::schedule::ScheduleMaintenance::restore`] and [`crate::schedule::ScheduleMaintenance::restore_places`].
pub async fn restore<Item: Restorable>(
    partitions: &[Partition],
    items: &[Item],
) -> Result<Restored, ScheduleError> {
    let mut places = by_partition(items.iter().map(Item::lane), partitions.len());
    let mut calls = Vec::new();
    for (partition, places) in partitions.iter().zip(&mut places) {
        // A script puts all its entries of one lane in at once. The sort is stable, so these stay in their order.
        places.sort_by_key(|place| items[*place].lane().as_str());
        for places in cut(places, items) {
            calls.push(call(partition, places, items));
        }
    }
    let mut restored = Restored::default();
    let mut calls = stream::iter(calls).buffered(AT_ONCE);
    while let Some(some) = calls.try_next().await? {
        restored += some;
    }
    Ok(restored)
}

/// Splits the entries into parts. Each part is restored by one script.
fn cut<'places, Item: Restorable>(
    mut places: &'places [usize],
    items: &[Item],
) -> Vec<&'places [usize]> {
    let mut parts = Vec::new();
    while !places.is_empty() {
        let mut bytes = 0;
        let many = places.iter().take(MOST_RESTORED).take_while(|place| {
            let fits = bytes < MOST_RESTORED_BYTES;
            bytes += items[**place].estimated_bytes();
            fits
        });
        let (part, rest) = places.split_at(many.count());
        parts.push(part);
        places = rest;
    }
    parts
}

/// Restores one part, of which those of one lane follow each other. Its entries are encoded when it is sent, while Redis runs the
/// script of the part before.
async fn call<Item: Restorable>(
    partition: &Partition,
    places: &[usize],
    items: &[Item],
) -> Result<Restored, ScheduleError> {
    let context = &partition.context;
    let mut command = context.call(&partition.restore);
    let waiting: Vec<(&Item, WaitingPlace)> = (places.iter())
        .map(|place| (&items[*place], items[*place].place(context)))
        .collect();
    let lanes = || waiting.chunk_by(|(one, _), (next, _)| one.lane() == next.lane());
    command
        .arg(context.channel())
        .arg(BEFORE_LANES + LANE_ARGUMENTS * lanes().count() + 2 * waiting.len())
        .arg(u8::from(waiting.iter().any(|(_, place)| place.is_ranked)));
    let mut earliest_ms = i64::MAX;
    for lane in lanes() {
        let claimed_ms = lane.iter().map(|(_, place)| place.claimed_ms).min();
        let claimed_ms = claimed_ms.expect("invariant: a chunk is not empty");
        earliest_ms = earliest_ms.min(claimed_ms);
        command
            .arg(lane[0].0.lane().as_str())
            .arg(lane.len())
            .arg(claimed_ms);
        for (item, place) in lane {
            command.arg(place.score).arg(item.key());
        }
    }
    for (item, _) in &waiting {
        if let Some(envelope) = item.envelope(context) {
            command.arg(envelope);
        }
    }
    let mut reply = context
        .run(&partition.bulk, &partition.restore, &command)
        .await?;
    context.wake.bring_forward(earliest_ms);
    Ok(Restored {
        missing: reply.number()?.unsigned_abs(),
        moved: reply.number()?.unsigned_abs(),
    })
}
