//! A client and its answer.

use helenus_policy::schedule::Class;

use crate::pipeline::request::Caller;
use crate::session::node_answer::NodeAnswer;

/// A client has been answered.
pub(crate) struct ClientAnswer<'a> {
    pub client: Caller,
    /// How long it has waited, in microseconds.
    pub us: u64,
    /// Of its request.
    pub class: Class,
    pub header_flags: u8,
    pub answer: NodeAnswer<'a>,
}
