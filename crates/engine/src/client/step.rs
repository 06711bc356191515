//! What clients' bytes leave to be done.

use helenus_wire::{Flow, Header, Opcode};

/// What a client's envelope leaves to be done by others.
pub(crate) enum Step<'a> {
    /// Nothing: it has been answered, or nobody would hear the answer.
    Nothing(Flow),
    /// The client needs no login: it wants the links that all such clients share, and is ready then.
    /// What follows in its bytes may be in another mode.
    Admit,
    /// A node is to judge this token. `asked` is the body of the AUTHENTICATE that it answers.
    LogIn {
        stream: i16,
        asked: Vec<u8>,
        token: &'a [u8],
    },
    /// A request of a client that is ready. `content` is the body behind its custom payload.
    Request {
        header: Header,
        opcode: Opcode,
        body: &'a [u8],
        content: &'a [u8],
    },
}
