//! What the servers write beside an entry of the audit log.

use crate::domain::sentence::sentences;

sentences!(
    /// What else is to be known of an act.
    AuditNote {
        FirstAttempt { due: String } = "first attempt at {due}";
        JobMade { job: String, rate: String } = "job {job}, {rate} per second";
        Filtered { filter: String, matched: u64, rate: String } = "filter {filter}, {matched} match, {rate} per second";
        UnreadBefore = "it could not be read before";
        ChangedAddedRemoved { fields: String, added: String, removed: String } = "changed: {fields}; added: key {added}; removed: key {removed}";
        ChangedAdded { fields: String, added: String } = "changed: {fields}; added: key {added}";
        ChangedRemoved { fields: String, removed: String } = "changed: {fields}; removed: key {removed}";
        Changed { fields: String } = "changed: {fields}";
        AddedRemoved { added: String, removed: String } = "added: key {added}; removed: key {removed}";
        Added { added: String } = "added: key {added}";
        Removed { removed: String } = "removed: key {removed}";
        RoleTopicsUntil { role: String, topics: String, until: String } = "role {role}, topics {topics}, until {until}";
        RoleTopics { role: String, topics: String } = "role {role}, topics {topics}";
        RoleUntil { role: String, until: String } = "role {role}, until {until}";
        Role { role: String } = "role {role}";
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sentence::sample::Texts;

    #[test]
    fn a_note_is_read_back_as_itself() {
        for note in AuditNote::samples(&mut Texts::default()) {
            assert_eq!(note.to_string().parse(), Ok(note));
        }
        assert!("something else".parse::<AuditNote>().is_err());
    }
}
