//! Work that clients' bytes leave to be done.

use helenus_wire::{Flow, Opcode};

/// Work that a client's envelope leaves to others. Its header and body are with whoever has handed it over.
pub(crate) enum Step<'a> {
    /// Nothing: it has been answered, or nobody would hear the answer.
    Nothing(Flow),
    /// The client needs no login: it wants the links that all such clients share, and is ready then.
    /// Its bytes from here on may be in another mode.
    Admit,
    /// A node is to judge this token.
    LogIn { token: &'a [u8] },
    /// A request of a client that is ready. `content` is the body behind its custom payload.
    Request { opcode: Opcode, content: &'a [u8] },
}
