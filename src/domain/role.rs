//! The roles of API keys, and what each permits.

use std::fmt;

/// The role of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A service that registers notifications. It also reads, moves and cancels them, within its topics if it has any.
    Producer,
    /// A person who helps merchants: reads everything, retries, replays, resends, moves, cancels, and works with jobs and
    /// lanes.
    Support,
    /// Everything, also endpoints, signing keys and API keys.
    Operator,
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permission {
    /// To register notifications.
    Register,
    /// To read notifications.
    Read,
    /// To cancel or to move a pending notification.
    Withdraw,
    /// To read what is not about single notifications: endpoints, lanes and jobs.
    Inspect,
    /// To send a notification again or now: retry, resend, replay.
    Resend,
    /// To run jobs, and to hold and release lanes.
    Jobs,
    /// Everything else: endpoints, signing keys, API keys, discarding, the audit log.
    Operate,
}

impl Role {
    /// All roles, the one with the fewest permissions first.
    pub const ALL: [Self; 3] = [Self::Producer, Self::Support, Self::Operator];

    /// The name of the role in requests, answers and the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Support => "support",
            Self::Operator => "operator",
        }
    }

    /// The role with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Whether a key with this role may send a request that needs this.
    #[must_use]
    pub fn permits(self, permission: Permission) -> bool {
        match (self, permission) {
            (Self::Operator, _)
            | (_, Permission::Read | Permission::Withdraw)
            | (Self::Producer, Permission::Register)
            | (Self::Support, Permission::Inspect | Permission::Resend | Permission::Jobs) => true,
            (
                Self::Producer,
                Permission::Inspect | Permission::Resend | Permission::Jobs | Permission::Operate,
            )
            | (Self::Support, Permission::Register | Permission::Operate) => false,
        }
    }
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 7] = [
        Self::Register,
        Self::Read,
        Self::Withdraw,
        Self::Inspect,
        Self::Resend,
        Self::Jobs,
        Self::Operate,
    ];

    /// What a request that needs this does, for an error.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Register => "register notifications",
            Self::Read => "read notifications",
            Self::Withdraw => "cancel or move notifications",
            Self::Inspect => "read endpoints, lanes and jobs",
            Self::Resend => "send notifications again",
            Self::Jobs => "run jobs, hold or release lanes",
            Self::Operate => {
                "change endpoints or keys, discard dead letters, or read API keys or the audit log"
            }
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_permits_what_the_documents_say() {
        use Permission::{Inspect, Jobs, Operate, Read, Register, Resend, Withdraw};
        fn check(role: Role, permitted: &[Permission]) {
            for permission in Permission::ALL {
                let expected = permitted.contains(&permission);
                assert_eq!(role.permits(permission), expected, "{role} {permission:?}");
            }
        }
        check(Role::Producer, &[Register, Read, Withdraw]);
        check(Role::Support, &[Read, Withdraw, Inspect, Resend, Jobs]);
        check(Role::Operator, &Permission::ALL);
        assert_eq!(
            Permission::ALL.len(),
            [Register, Read, Withdraw, Inspect, Resend, Jobs, Operate].len()
        );
    }

    #[test]
    fn a_role_has_one_name() {
        for role in Role::ALL {
            assert_eq!(Role::from_name(role.as_str()), Some(role));
        }
        assert_eq!(Role::from_name("Operator"), None);
        assert_eq!(Role::from_name(""), None);
    }
}
