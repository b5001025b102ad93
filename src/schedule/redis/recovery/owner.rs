//! The owner of the data in a partition, as text: the journal, and how many partitions there are.

/// What the owners of the same data begin with, whatever their number of partitions.
pub fn same_data(owner: &str) -> &str {
    let before = owner.rfind('/').map_or(0, |slash| slash + 1);
    &owner[..before]
}

/// Why a server may not start with another number of partitions now.
pub(super) fn running(found: &str, owner: &str) -> String {
    let many = |owner: &str| owner[same_data(owner).len()..].to_string();
    let (found, own) = (many(found), many(owner));
    format!(
        "this Redis schedule has {found} partitions and another server uses it, but this server was started with --partitions \
         {own}; start it with --partitions {found}, or stop all others first (a killed server counts as running for 30 s): then \
         it empties the schedule and loads it from the journal"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_the_same_data_differ_in_the_number_alone() {
        assert_eq!(same_data("0198/4"), "0198/");
        assert_eq!(same_data("a/b/256"), "a/b/");
        let said = running("0198/4", "0198/1");
        assert!(
            said.contains("has 4 partitions") && said.contains("--partitions 1;"),
            "{said}"
        );
    }
}
