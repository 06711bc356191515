//! The end of one node request at one node.

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    Answered,
    /// With an error of this code.
    Error(i32),
    /// The node did not answer in time.
    TimedOut,
    /// The node was silent, and another got the request.
    Silent,
    /// Its connection broke.
    Lost,
    /// Another attempt was faster, or nobody waited for it any more.
    GivenUp,
    /// It was never sent: it waited in the proxy only.
    NotSent,
}
