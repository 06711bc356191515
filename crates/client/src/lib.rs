//! A client of the native protocol, versions 3 to 5, for tests and tools: one connection, every byte of it within reach.
//!
//! [`Client`] blocks, over anything that can be read and written. [`Codec`] is one without a stream, for clients that wait
//! for many things at once, and [`Incoming`] the half of it that reads. Beside them are the bodies of requests
//! ([`request`] and its like), and answers as they are read ([`Answer`]).
//!
//! No driver: it knows one server, opens nothing anew, and neither chooses nor tries again.

mod answer;
mod body;
mod client;
mod codec;

pub use answer::{Answer, Column, Fault, Judged, Prepared, Row};
pub use body::{
    BatchChild, Options, Statement, auth_response, batch, plain_token, prepare, request,
    set_values, startup,
};
pub use client::{Client, PATIENCE};
pub use codec::{Codec, Incoming};
pub use helenus_wire::{Compression, Opcode, PreparedIds, ValueRef};
