//! Answers of a proxy's admin server as JSON (docs/api.md): proxies fill these types in, viewers read them.
//!
//! Fields are written in the order of their declaration. Readers take what an older proxy does not send for its
//! default, and pass over what only a later one sends. Counters are cumulative since the proxy was started.

mod encodings;
mod histogram;
pub mod history;
mod keys;
mod layouts;
mod node;
mod snapshot;
pub mod summary;

use std::borrow::Cow;

pub use encodings::{EncodedColumn, Encodings};
pub use histogram::Histogram;
pub use keys::{Key, Keys};
pub use layouts::{Layout, Layouts};
pub use node::{Node, Packed, Report, Resources};
pub use snapshot::{Class, ClientKind, Snapshot, Table};

/// A name out of a fixed list of the proxy's: of a class of requests, a counter, a state.
pub type Name = Cow<'static, str>;

#[cfg(test)]
mod tests;
