//! What a rebuild has done, as text or as JSON.

use crate::domain::key::Key;
use crate::domain::state::State;
use serde_json::{Value, json};

/// What a rebuild has done.
#[derive(Debug)]
pub struct RebuildReport {
    /// The loading of everything, if Redis had lost data.
    pub loaded: Option<LoadedAll>,
    /// The comparison, if there was one.
    pub compared: Option<ComparedPending>,
    /// The one notification, if one was named.
    pub one: Option<(Key, OnePutBack)>,
    /// Whether the histories of the notifications show it.
    pub is_noted: bool,
}

/// All pending notifications that are due soon were put into Redis.
#[derive(Debug)]
pub struct LoadedAll {
    /// How many are pending in the journal.
    pub pending: u64,
    /// Of these, those that are in Redis now. The others are due later, or set aside.
    pub held: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Pending notifications were compared with Redis.
#[derive(Debug)]
pub struct ComparedPending {
    /// How many are pending.
    pub pending: u64,
    /// Of these, those that are due so late that they may wait in the journal alone.
    pub later: u64,
    /// Of these, those that were missing in Redis.
    pub restored: u64,
    /// Of these, those that were at another step.
    pub moved: u64,
}

/// What became of one notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnePutBack {
    /// It is not pending.
    Ended(State),
    /// It is set aside.
    SetAside,
    /// It was in Redis.
    Unchanged,
    /// It is due so late that it may wait in the journal alone.
    Later,
    /// It was at another step there.
    Corrected,
    /// It was missing there.
    Restored,
}

impl RebuildReport {
    /// What was done for all notifications.
    pub fn of_loading(loaded: LoadedAll) -> Self {
        Self {
            loaded: Some(loaded),
            ..Self::empty()
        }
    }

    /// What was done by comparing. `loaded`: what was loaded before.
    pub fn of_comparing(loaded: Option<LoadedAll>, compared: ComparedPending) -> Self {
        Self {
            loaded,
            compared: Some(compared),
            ..Self::empty()
        }
    }

    /// What was done for one notification.
    pub fn of_one(loaded: Option<LoadedAll>, key: &Key, result: OnePutBack) -> Self {
        Self {
            loaded,
            one: Some((key.clone(), result)),
            ..Self::empty()
        }
    }

    fn empty() -> Self {
        Self {
            loaded: None,
            compared: None,
            one: None,
            is_noted: true,
        }
    }

    /// The report as text.
    pub fn as_text(&self) -> String {
        let mut text = String::new();
        match &self.loaded {
            Some(loaded) if loaded.held >= loaded.pending => text.push_str(&format!(
                "{} pending in the journal, all of them in Redis again after {:.1} s\n",
                loaded.pending, loaded.seconds
            )),
            Some(loaded) => text.push_str(&format!(
                "{} pending in the journal; the {} that are due soon are in Redis again after {:.1} s, and the other {} \
                 need not be there: they are due later, or set aside\n",
                loaded.pending,
                loaded.held,
                loaded.seconds,
                loaded.pending - loaded.held
            )),
            None => {}
        }
        if let Some(ComparedPending {
            pending,
            later,
            restored,
            moved,
        }) = &self.compared
        {
            text.push_str(&format!(
                "{pending} pending in the journal: {restored} were missing in Redis and were put back, {moved} \
                 were at another step and were corrected"
            ));
            if *later > 0 {
                text.push_str(&format!(
                    ", {later} are due later and need not be in Redis yet"
                ));
            }
            text.push('\n');
        }
        if let Some((key, result)) = &self.one {
            text.push_str(&match result {
                OnePutBack::Ended(state) => {
                    format!("{key} is {state}; there is nothing to put back\n")
                }
                OnePutBack::SetAside => format!(
                    "{key} is set aside, so it is not put back; `ringback retry` releases it\n"
                ),
                OnePutBack::Unchanged => format!("{key} was in Redis already\n"),
                OnePutBack::Later => {
                    format!("{key} is due later and need not be in Redis yet\n")
                }
                OnePutBack::Corrected => {
                    format!("{key} was at another step in Redis and was corrected\n")
                }
                OnePutBack::Restored => format!("{key} is back in Redis\n"),
            });
        }
        if !self.is_noted {
            text.push_str(
                "the histories do not show this, because only its server may write to this journal\n",
            );
        }
        text
    }

    /// The report as JSON.
    pub fn as_json(&self) -> String {
        let result = |result: &OnePutBack| match result {
            OnePutBack::Ended(_) => "ended",
            OnePutBack::SetAside => "set_aside",
            OnePutBack::Unchanged => "unchanged",
            OnePutBack::Later => "later",
            OnePutBack::Corrected => "corrected",
            OnePutBack::Restored => "restored",
        };
        let state = |result: &OnePutBack| match result {
            OnePutBack::Ended(state) => Value::from(state.as_str()),
            OnePutBack::SetAside
            | OnePutBack::Unchanged
            | OnePutBack::Later
            | OnePutBack::Corrected
            | OnePutBack::Restored => Value::from(State::Scheduled.as_str()),
        };
        let report = json!({
            "loaded": self.loaded.as_ref().map(|loaded| json!({
                "pending": loaded.pending,
                "held": loaded.held,
                "seconds": loaded.seconds,
            })),
            "compared": self.compared.as_ref().map(|compared| json!({
                "pending": compared.pending,
                "later": compared.later,
                "restored": compared.restored,
                "moved": compared.moved,
            })),
            "notification": self.one.as_ref().map(|(key, one)| json!({
                "topic": key.topic(),
                "id": key.id(),
                "state": state(one),
                "result": result(one),
            })),
            "noted": self.is_noted,
        });
        format!("{report:#}\n")
    }
}
