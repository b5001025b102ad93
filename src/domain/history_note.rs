//! What the servers write beside a line of the history of a notification. What a person gives as a reason is not made of
//! these.

use crate::domain::sentence::sentences;

sentences!(
    /// What else is to be known of a line of the history.
    HistoryNote {
        SupersededBy { number: i64 } = "superseded by number {number} of its order";
        MovedAndDropped { from: String, to: String } = "from {from} to {to}; the attempt that was asked for by hand is dropped";
        Moved { from: String, to: String } = "from {from} to {to}";
        LostData = "the schedule had lost data";
        SomethingMissing = "something was missing in the schedule";
        UnfinishedRebuild = "an earlier rebuild did not come to its end";
        RebuildAsked = "it was asked for";
        OtherStep = "the schedule had it at another step";
        NotInSchedule = "the schedule did not have it";
        NotInJournal = "the journal did not know it, the schedule did";
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sentence::sample::Texts;

    #[test]
    fn a_note_is_read_back_as_itself() {
        for note in HistoryNote::samples(&mut Texts::default()) {
            assert_eq!(note.to_string().parse(), Ok(note));
        }
        assert!("by the merchant's wish".parse::<HistoryNote>().is_err());
    }
}
