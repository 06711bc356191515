//! The catalogue: which tables have layouts or encoded columns, in the keyspace `helenus`. Commands change it,
//! proxies act on it; both do so through this crate, which is pure: CQL texts and rows go in and out.
//!
//! # What is stored
//! - **The catalogue** is one partition of `helenus.catalogue` ([`stored`]), read by its key. It has one version, which
//!   every change raises by compare-and-set ([`change`]).
//! - **Flags** ([`Flag`]): for each table that depends on the catalogue there is a type in the keyspace `helenus` without
//!   any use but its name, such as `"layouts shop.orders 17"`. Types are part of the schema, which each node has
//!   for itself: any single node that is up says which tables are flagged.
//!
//! # What is agreed
//! 1. What a proxy has read is good for [`LEASE`], counted from when the request was sent. A request about a flagged
//!    table is sent under a lease on the catalogue, any other under a lease on the flags alone. So a table
//!    without layouts and encoded columns does not depend on whether the catalogue can be read.
//! 2. A table is named in the catalogue first and flagged then. Nothing is done that relies on either before each node has
//!    the flag, the catalogue's change is at a quorum of every data center, and a lease has passed since.
//! 3. The flag goes after the last layout, or encoded column, of its table, and the table's row in the catalogue
//!    after the flag. Each flag has a number of its own, so that a command that was suspended cannot drop a later one.
//! 4. A node's answer is believed only if it can have followed from what was believed before ([`Belief`]): a version
//!    that went back, other rows under the same version, or a flag without a row are not.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable
    )
)]

pub mod away;
mod belief;
mod catalogue;
pub mod change;
mod flag;
pub mod node_settings;
pub mod stored;
pub mod sweep;
mod table;
pub mod waits;
mod written;

use std::time::Duration;

pub use belief::{Belief, Doubt};
pub use catalogue::{Catalogue, Encoding, Encodings, Layout, Layouts, OfTable};
pub use flag::{Feature, Flag, SELECT_FLAGS};
pub use table::TableKey;
pub use written::{Form, LayoutState, Way, Written};

/// The keyspace of the catalogue.
pub const KEYSPACE: &str = "helenus";
/// How many dictionaries commands make for a table. Each proxy keeps all of them in memory, some 50 to 150 KiB each.
pub const DICTIONARIES_MAX: usize = 64;
/// How often proxies read flags and catalogue, but for tests ([`waits`]).
pub const REFRESH: Duration = Duration::from_secs(3);
/// How long what was read is good for, from when the read was sent. All proxies and commands must agree on it, so it is no
/// setting; only tests shorten it ([`waits`]).
pub const LEASE: Duration = Duration::from_secs(10);
