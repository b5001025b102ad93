//! The acts of people that the audit log keeps, and on what they are done.

use crate::domain::change::Change;
use crate::domain::endpoint::EndpointName;
use crate::domain::job::{JobId, JobOrder};
use crate::domain::key::Key;
use crate::domain::lane::Lane;
use crate::domain::state::named;
use std::borrow::Cow;

/// What a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named for what it is")]
pub enum Act {
    CancelNotification,
    DiscardNotification,
    ReplayNotification,
    ResendNotification,
    RetryNotification,
    RescheduleNotification,
    ReadPayload,
    HoldLane,
    ReleaseLane,
    RetryLane,
    ReplayFiltered,
    CancelFiltered,
    PauseJob,
    ResumeJob,
    StopJob,
    CreateEndpoint,
    ChangeEndpoint,
    RemoveEndpoint,
    AddEndpointKey,
    RemoveEndpointKey,
    TestEndpoint,
    AddDefaultKey,
    RemoveDefaultKey,
    AddApiKey,
    RevokeApiKey,
    ChangeMasterKey,
    RebuildSchedule,
}

named!(Act {
    CancelNotification = "notification.cancel",
    DiscardNotification = "notification.discard",
    ReplayNotification = "notification.replay",
    ResendNotification = "notification.resend",
    RetryNotification = "notification.retry",
    RescheduleNotification = "notification.reschedule",
    ReadPayload = "notification.read_payload",
    HoldLane = "lane.hold",
    ReleaseLane = "lane.release",
    RetryLane = "lane.retry",
    ReplayFiltered = "job.replay",
    CancelFiltered = "job.cancel",
    PauseJob = "job.pause",
    ResumeJob = "job.resume",
    StopJob = "job.stop",
    CreateEndpoint = "endpoint.create",
    ChangeEndpoint = "endpoint.change",
    RemoveEndpoint = "endpoint.remove",
    AddEndpointKey = "endpoint.add_key",
    RemoveEndpointKey = "endpoint.remove_key",
    TestEndpoint = "endpoint.test",
    AddDefaultKey = "default_key.add",
    RemoveDefaultKey = "default_key.remove",
    AddApiKey = "api_key.add",
    RevokeApiKey = "api_key.revoke",
    ChangeMasterKey = "master_key.change",
    RebuildSchedule = "schedule.rebuild",
});

impl Act {
    /// The act of a change by hand.
    #[must_use]
    pub fn of_change(change: Change) -> Self {
        match change {
            Change::Cancel => Self::CancelNotification,
            Change::Discard => Self::DiscardNotification,
            Change::Replay => Self::ReplayNotification,
            Change::Resend => Self::ResendNotification,
            Change::Retry => Self::RetryNotification,
            Change::Reschedule(_) => Self::RescheduleNotification,
        }
    }

    /// The act of an order to a job.
    #[must_use]
    pub fn of_order(order: JobOrder) -> Self {
        match order {
            JobOrder::Pause => Self::PauseJob,
            JobOrder::Resume => Self::ResumeJob,
            JobOrder::Stop => Self::StopJob,
        }
    }
}

/// On what an act is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActSubject {
    /// A notification.
    Notification(Key),
    /// A lane.
    Lane(Lane),
    /// A job.
    Job(JobId),
    /// An endpoint.
    Endpoint(EndpointName),
    /// The default key of this id.
    DefaultKey(String),
    /// The API key of this name.
    ApiKey(String),
    /// The master key of the journal.
    MasterKey,
    /// The whole schedule.
    Schedule,
}

/// The kind of the subject that is a notification.
pub const NOTIFICATION: &str = "notification";

impl ActSubject {
    /// What it is, in one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Notification(_) => NOTIFICATION,
            Self::Lane(_) => "lane",
            Self::Job(_) => "job",
            Self::Endpoint(_) => "endpoint",
            Self::DefaultKey(_) => "default_key",
            Self::ApiKey(_) => "api_key",
            Self::MasterKey => "master_key",
            Self::Schedule => "schedule",
        }
    }

    /// Its name or id; empty if there is only one. That of a notification is its topic, a slash and its id: a topic has no
    /// slash.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Notification(key) => format!("{}/{}", key.topic(), key.id()).into(),
            Self::Lane(lane) => lane.as_str().into(),
            Self::Job(id) => id.as_str().into(),
            Self::Endpoint(name) => name.as_str().into(),
            Self::DefaultKey(name) | Self::ApiKey(name) => name.into(),
            Self::MasterKey | Self::Schedule => "".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_a_kind_and_a_name() {
        fn check(subject: &ActSubject, kind: &str, name: &str) {
            assert_eq!((subject.kind(), &*subject.name()), (kind, name));
        }
        let key = Key::new("payment.succeeded", "a/b").expect("a key");
        check(
            &ActSubject::Notification(key),
            "notification",
            "payment.succeeded/a/b",
        );
        let lane = Lane::from_name("https://shop.example");
        check(&ActSubject::Lane(lane), "lane", "https://shop.example");
        check(&ActSubject::ApiKey("desk".to_string()), "api_key", "desk");
        check(&ActSubject::Schedule, "schedule", "");
    }

    #[test]
    fn every_act_has_a_name_of_its_own() {
        for act in Act::ALL {
            assert_eq!(Act::from_name(act.as_str()), Some(*act));
        }
    }
}
