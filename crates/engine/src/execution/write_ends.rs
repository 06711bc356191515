//! What a failure says of a write to copies in sync, and how such a write ends.

/// What a failure says of the write on its copy. What says more comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// It was not sent to the node, or not in a form that the node knows.
    Untried,
    /// The node has done nothing, and may do it at another time.
    Busy,
    /// The node has refused the statement, or its role.
    Refused,
    /// The node has said something else, and may have the write.
    Unclear,
    /// The node has not said anything, and may have it.
    Silent,
}

/// How a write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All required copies have it.
    Complete,
    /// No copy has it.
    Refused,
    /// No copy was sent it in time.
    Unsent,
    /// Others will resynchronise its bucket, because this proxy has left.
    Left,
    /// Its bucket is to be resynchronised while this proxy stays.
    GivenUp(Why),
}

/// Why a write is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// All copies answer with errors after which they may have it, and its client has waited long enough.
    Failing,
    /// A copy refuses the statement or its role, and its client has waited long enough.
    Refused,
    /// Other nodes own its partition, or its table's copies are others.
    Moved,
    /// Its role has ended, and nobody else may send it.
    NoRole,
    /// It has taken too long, or there are too many that nobody waits for.
    Old,
}
