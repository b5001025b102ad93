//! The owner of the data in a partition, as text: the journal, and how many partitions there are.

use crate::schedule::redis::NO_JOURNAL;

/// The journal and the number of partitions.
fn parts(owner: &str) -> (&str, &str) {
    owner.rsplit_once('/').unwrap_or((owner, "?"))
}

/// What the owners of the same data begin with, whatever their number of partitions.
pub fn same_data(owner: &str) -> &str {
    let before = owner.rfind('/').map_or(0, |slash| slash + 1);
    &owner[..before]
}

/// The number of partitions of the data of an owner.
pub fn number_in(owner: &str) -> &str {
    parts(owner).1
}

/// Why the data of this owner cannot be used by another one.
pub fn foreign(found: &str, owner: &str) -> String {
    let ((journal, partitions), (own, own_partitions)) = (parts(found), parts(owner));
    if journal == own {
        return format!(
            "this Redis schedule has {partitions} partitions, but this server was started with \
             --partitions {own_partitions}; start it with --partitions {partitions}, like the other \
             servers{}",
            match journal == NO_JOURNAL {
                true => "",
                false =>
                    " (a server that starts with another number while no other runs loads it anew from the journal)",
            }
        );
    }
    let name = |journal: &str| match journal {
        NO_JOURNAL => "no journal".to_string(),
        journal => format!("journal {journal}"),
    };
    format!(
        "this Redis schedule belongs to {}, but this server has {}; give each its own Redis \
         database, or start with the journal it belongs to",
        name(journal),
        name(own)
    )
}

/// Why a server may not start with another number of partitions now. `found`: the owner of the data, and for how long at least
/// a server counts as running, in milliseconds.
pub(super) fn at_work((found, at_least_ms): (&str, &str), owner: &str) -> String {
    let (found, own) = (number_in(found), number_in(owner));
    let seconds = (at_least_ms.parse::<u64>().unwrap_or_default()).div_ceil(1_000);
    format!(
        "this Redis schedule has {found} partitions and another server uses it, but this server was started with --partitions \
         {own}; start it with --partitions {found}, or stop all others first (one that was killed counts as running for 30 s, \
         and until the time of its attempts is over; here for another {seconds} s): then it empties the schedule and loads it \
         from the journal"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_schedule_is_named() {
        let text = foreign("none/1", "0199/4");
        assert!(text.contains("belongs to no journal, but"), "{text}");
        assert!(text.contains("this server has journal 0199"), "{text}");
        let text = foreign("0199/1", "0199/4");
        assert!(text.contains("--partitions 1"), "{text}");
        assert!(text.contains("starts with another number"), "{text}");
        assert!(!text.contains("belongs to"), "{text}");
        let text = foreign("none/1", "none/4");
        assert!(!text.contains("starts with another number"), "{text}");
    }

    #[test]
    fn owners_of_the_same_data_differ_in_the_number_alone() {
        assert_eq!(same_data("0198/4"), "0198/");
        assert_eq!(same_data("a/b/256"), "a/b/");
        assert_eq!(number_in("a/b/256"), "256");
        assert_eq!((same_data("alone"), number_in("alone")), ("", "?"));
        let said = at_work(("0198/4", "1001"), "0198/1");
        for part in ["has 4 partitions", "--partitions 1;", "another 2 s"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
