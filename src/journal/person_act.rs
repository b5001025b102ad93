//! An act of a person, as it is given to the audit log: the same for every database.
//!
//! An entry says who did what, when, on what and why. It never contains a secret, a key, a body or the value of a header: of
//! an endpoint that was changed it names the fields that changed, and of keys it has the ids.

use super::{
    Actor, AddingApiKey, Changing, ChangingDefaultKeys, LaneOrder, Rebuild, RemovingEndpoint,
    RevokingApiKey, SettingEndpoint, StoredEndpoint,
};
use crate::domain::act::{Act, ActSubject};
use crate::domain::api_key::KeyTopics;
use crate::domain::audit_note::AuditNote;
use crate::domain::call_rate::CallRate;
use crate::domain::change::Change;
use crate::domain::default_keys::DefaultKeyChange;
use crate::domain::endpoint::Endpoint;
use crate::domain::endpoint_differences::EndpointDifferences;
use crate::domain::job::{BulkJob, JobKind, JobOrder};
use crate::domain::key::Key;
use crate::domain::lane_settings::{LaneSetting, LaneSettings};
use crate::domain::snapshot::Snapshot;
use crate::domain::timestamp::display_ms;

/// Maximum length of the reason and of the detail of an entry, in characters. Longer ones are cut.
pub const LONGEST_TEXT: usize = 1_000;
/// Maximum length of the name of a subject, in characters. The longest is that of a lane, which is a part of a URL.
const LONGEST_SUBJECT: usize = 2_100;

/// An act of a person, to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonAct {
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: Act,
    /// On what.
    pub subject: ActSubject,
    /// Why: what the person gave as the reason; may be empty.
    pub reason: String,
    /// What else is to be known of it, such as the fields that were changed; may be empty.
    pub detail: String,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

impl PersonAct {
    /// An act without a reason.
    #[must_use]
    pub fn of(act: Act, subject: ActSubject, actor: &Actor, at_ms: i64) -> Self {
        Self {
            actor: actor.clone(),
            act,
            subject,
            reason: String::new(),
            detail: String::new(),
            at_ms,
        }
    }

    /// Somebody reads what a notification sends.
    #[must_use]
    pub fn reading_payload(key: &Key, actor: &Actor, at_ms: i64) -> Self {
        let subject = ActSubject::Notification(key.clone());
        Self::of(Act::ReadPayload, subject, actor, at_ms)
    }

    pub(super) fn for_reason(self, reason: &str) -> Self {
        let reason = reason.to_string();
        Self { reason, ..self }
    }

    fn with_detail(self, detail: String) -> Self {
        Self { detail, ..self }
    }

    fn with_note(self, note: &AuditNote) -> Self {
        self.with_detail(note.to_string())
    }

    /// The parts of the texts that are stored.
    pub(super) fn texts(&self) -> ActTexts {
        ActTexts {
            subject: cut(&self.subject.name(), LONGEST_SUBJECT),
            reason: cut(&self.reason, LONGEST_TEXT),
            detail: cut(&self.detail, LONGEST_TEXT),
        }
    }

    /// A change of a notification, which is like this after it.
    pub(super) fn of_change(changing: &Changing, after: &Snapshot) -> Self {
        let subject = ActSubject::Notification(changing.lease.key().clone());
        let act = Act::of_change(changing.change);
        let of = Self::of(act, subject, &changing.actor, changing.at_ms);
        let of = of.for_reason(&changing.reason);
        match changing.change {
            Change::Reschedule(_) => {
                let due = display_ms(after.progress.first_due_ms);
                of.with_note(&AuditNote::FirstAttempt { due })
            }
            Change::Cancel | Change::Discard | Change::Replay | Change::Resend | Change::Retry => {
                of
            }
        }
    }

    /// A change of who holds a lane, whose settings were these and become those. `None` if nothing of it changes, and for
    /// a change of its limits: that is a part of the change of its endpoint.
    pub(super) fn of_lane_order(
        order: &LaneOrder,
        before: &LaneSettings,
        after: &LaneSettings,
    ) -> Option<Self> {
        let act = match &order.setting {
            LaneSetting::Hold(Some(_)) => Act::HoldLane,
            LaneSetting::Hold(None) => Act::ReleaseLane,
            LaneSetting::Limits(_) | LaneSetting::All(_) => return None,
        };
        let subject = ActSubject::Lane(order.lane.clone());
        let of = Self::of(act, subject, &order.actor, order.at_ms);
        (before != after).then(|| of.for_reason(&order.reason))
    }

    /// A job that is made. `None` if a server makes it, or if it stands for the release of a lane, which is kept itself.
    pub(super) fn of_new_job(job: &BulkJob) -> Option<Self> {
        let subject_is_job = || ActSubject::Job(job.id.clone());
        let (act, subject) = match (job.kind, &job.lane) {
            (JobKind::LaneRetry, Some(lane)) => (Act::RetryLane, ActSubject::Lane(lane.clone())),
            (JobKind::Replay, _) => (Act::ReplayFiltered, subject_is_job()),
            (JobKind::Cancel, _) => (Act::CancelFiltered, subject_is_job()),
            (JobKind::LaneRetry | JobKind::LaneRelease | JobKind::AfterOutage, _) => return None,
        };
        let actor = Actor::named(&*job.actor);
        let rate = CallRate::calls_per_second(job.rate).to_string();
        let of = Self::of(act, subject, &actor, job.created_ms);
        let note = match &job.filter {
            None => AuditNote::JobMade {
                job: job.id.to_string(),
                rate,
            },
            Some(filter) => AuditNote::Filtered {
                filter: filter.to_stored(),
                matched: job.counts.matched,
                rate,
            },
        };
        Some(of.for_reason(&job.reason).with_note(&note))
    }

    /// An order to a job.
    pub(super) fn of_job_order(job: &BulkJob, order: JobOrder, actor: &Actor, at_ms: i64) -> Self {
        let subject = ActSubject::Job(job.id.clone());
        Self::of(Act::of_order(order), subject, actor, at_ms)
    }

    /// A change of an endpoint, which was like this before: `None` if there was none, or if it could not be read.
    pub(super) fn of_setting(
        setting: &SettingEndpoint,
        before: Option<&StoredEndpoint>,
        after: &Endpoint,
        is_new: bool,
    ) -> Self {
        let subject = ActSubject::Endpoint(setting.name.clone());
        let of = |act| Self::of(act, subject, &setting.actor, setting.at_ms);
        if is_new {
            return of(Act::CreateEndpoint);
        }
        let Some(before) = before else {
            return of(Act::ChangeEndpoint).with_note(&AuditNote::UnreadBefore);
        };
        let differing = EndpointDifferences::between(&before.endpoint, after, setting.at_ms);
        let has_added = !differing.added_keys.is_empty();
        let has_removed = !differing.removed_keys.is_empty();
        let has_forgotten = !differing.forgotten_keys.is_empty();
        let act = match differing.settings.is_empty() {
            true if has_added && !has_removed => Act::AddEndpointKey,
            true if !has_added && (has_removed || has_forgotten) => Act::RemoveEndpointKey,
            true | false => Act::ChangeEndpoint,
        };
        match described(&differing, act) {
            Some(note) => of(act).with_note(&note),
            None => of(act),
        }
    }

    /// The removal of an endpoint.
    pub(super) fn of_removing(removing: &RemovingEndpoint) -> Self {
        let subject = ActSubject::Endpoint(removing.name.clone());
        Self::of(
            Act::RemoveEndpoint,
            subject,
            &removing.actor,
            removing.at_ms,
        )
    }

    /// A change of the default keys.
    pub(super) fn of_default_keys(changing: &ChangingDefaultKeys) -> Self {
        let (act, id) = match &changing.change {
            DefaultKeyChange::First(added) | DefaultKeyChange::Add(added, _) => {
                (Act::AddDefaultKey, &added.key.id)
            }
            DefaultKeyChange::Remove(id) => (Act::RemoveDefaultKey, id),
        };
        let subject = ActSubject::DefaultKey(id.clone());
        Self::of(act, subject, &changing.actor, changing.at_ms)
    }

    /// A new API key.
    pub(super) fn of_adding_api_key(adding: &AddingApiKey) -> Self {
        let record = &adding.record;
        let subject = ActSubject::ApiKey(record.name.as_str().to_string());
        let role = record.role.to_string();
        let topics = record.topics.as_ref().map(KeyTopics::to_text);
        let until = record.expires_ms.map(display_ms);
        let note = match (topics, until) {
            (Some(topics), Some(until)) => AuditNote::RoleTopicsUntil {
                role,
                topics,
                until,
            },
            (Some(topics), None) => AuditNote::RoleTopics { role, topics },
            (None, Some(until)) => AuditNote::RoleUntil { role, until },
            (None, None) => AuditNote::Role { role },
        };
        Self::of(Act::AddApiKey, subject, &adding.actor, record.created_ms).with_note(&note)
    }

    /// The revocation of an API key.
    pub(super) fn of_revoking_api_key(revoking: &RevokingApiKey) -> Self {
        let subject = ActSubject::ApiKey(revoking.name.clone());
        Self::of(Act::RevokeApiKey, subject, &revoking.actor, revoking.at_ms)
    }

    /// A change of the master key.
    pub(super) fn of_master_key(actor: &Actor, at_ms: i64) -> Self {
        Self::of(Act::ChangeMasterKey, ActSubject::MasterKey, actor, at_ms)
    }

    /// A rebuild of the schedule.
    pub(super) fn of_rebuild(rebuild: &Rebuild) -> Self {
        let schedule = ActSubject::Schedule;
        Self::of(
            Act::RebuildSchedule,
            schedule,
            &rebuild.actor,
            rebuild.at_ms,
        )
        .for_reason(&rebuild.reason)
    }
}

/// The texts of an entry, each within its bound.
pub(super) struct ActTexts {
    pub(super) subject: String,
    pub(super) reason: String,
    pub(super) detail: String,
}

fn cut(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}

/// What differs, in words; `None` if that is nothing to be named.
fn described(differing: &EndpointDifferences, act: Act) -> Option<AuditNote> {
    let mut changed = differing.settings.clone();
    changed.extend(differing.has_other_keys.then_some("keys"));
    let ids = |ids: &[String]| (!ids.is_empty()).then(|| ids.join(", key "));
    let fields = (act == Act::ChangeEndpoint && !changed.is_empty()).then(|| changed.join(", "));
    let added = ids(&differing.added_keys);
    // Those that had ended go by themselves when another key is added.
    let removed = [&*differing.removed_keys, &*differing.forgotten_keys].concat();
    let removed = ids(&removed).filter(|_| act != Act::AddEndpointKey);
    Some(match (fields, added, removed) {
        (Some(fields), Some(added), Some(removed)) => AuditNote::ChangedAddedRemoved {
            fields,
            added,
            removed,
        },
        (Some(fields), Some(added), None) => AuditNote::ChangedAdded { fields, added },
        (Some(fields), None, Some(removed)) => AuditNote::ChangedRemoved { fields, removed },
        (Some(fields), None, None) => AuditNote::Changed { fields },
        (None, Some(added), Some(removed)) => AuditNote::AddedRemoved { added, removed },
        (None, Some(added), None) => AuditNote::Added { added },
        (None, None, Some(removed)) => AuditNote::Removed { removed },
        (None, None, None) => return None,
    })
}

#[cfg(test)]
mod tests;
