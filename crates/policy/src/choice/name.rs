//! The policies' names.

use std::fmt;
use std::str::FromStr;

/// How a replica is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The first in ring order.
    First,
    /// All nodes in turn, not only replicas.
    RoundRobin,
    /// The replicas in turn.
    TokenAware,
    /// The replica with the lowest use of CPU and memory.
    ResourceV1,
    /// The replica with the lowest use of CPU, memory and disk, with its distance.
    ResourceV2,
    /// Response time and queue length.
    C3,
    /// The replica that is predicted to finish the request first.
    #[default]
    EarliestFinish,
}

impl Policy {
    pub const ALL: [Policy; 7] = [
        Policy::First,
        Policy::RoundRobin,
        Policy::TokenAware,
        Policy::ResourceV1,
        Policy::ResourceV2,
        Policy::C3,
        Policy::EarliestFinish,
    ];

    /// True if it chooses among all nodes and not only replicas.
    pub fn is_over_all_nodes(self) -> bool {
        self == Policy::RoundRobin
    }

    /// True if it goes by what is known of the nodes.
    pub fn is_informed(self) -> bool {
        !matches!(
            self,
            Policy::First | Policy::RoundRobin | Policy::TokenAware
        )
    }

    pub fn name(self) -> &'static str {
        match self {
            Policy::First => "first",
            Policy::RoundRobin => "round-robin",
            Policy::TokenAware => "token-aware",
            Policy::ResourceV1 => "resource-v1",
            Policy::ResourceV2 => "resource-v2",
            Policy::C3 => "c3",
            Policy::EarliestFinish => "earliest-finish",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no assignment policy is called {:?}; there are first, round-robin, token-aware, \
             resource-v1, resource-v2, c3 and earliest-finish",
            self.0
        )
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let found = Policy::ALL.into_iter().find(|p| p.name() == text);
        found.ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}
