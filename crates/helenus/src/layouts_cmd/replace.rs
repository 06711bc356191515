//! Layouts in place of a table's replicas (mode `replace`): no row stays in the table itself, and each layout is a full
//! copy with one replica, in a keyspace of its own in one data center.
//!
//! ```text
//!  mode in helenus.layouts   stage in helenus.copies   clients
//!  replacing                 filling                   use the table; its rows are copied
//!  replace                   filling, no lists         wait: the copies are compared with the table
//!  replace                   open, lists               use the copies; the table is about to be emptied
//!  replace                   in use                    use the copies
//!  replace                   draining, no lists        wait: the rows are copied back
//!  add, or none              none                      use the table
//! ```
//!
//! - Without lists of copies proxies neither read nor write such a table, so both changes of hands happen while nobody
//!   writes. All rows are in the table until the lists are there, and in a copy until the catalogue forgets the copies.
//! - The lists and the stage are one partition, which is changed by compare-and-set as a whole: that the lists are there
//!   says that the comparison has come to its end.
//! - The stage has the number of the command that is at work. Another one that takes over has another number, and waits
//!   until nothing that the first has sent can arrive any more; the first asks for its number before it writes
//!   ([`stage::Claim`]).

pub(super) mod checks;
pub(super) mod create;
pub(super) mod nodes;
pub(super) mod rebuild;
pub(super) mod remove;
pub(super) mod stage;
pub(super) mod status;
pub(super) mod verify;

use anyhow::Result;
use helenus_rows::{Table, TableName};

use super::catalogue::Entry;
use crate::online::cluster::Cluster;
use crate::online::table;

/// The numbers of copies that are in sync in all groups of ranges; none if a list cannot be as it is, or there is none.
fn in_sync_everywhere(rows: &[super::lists::CopiesRow], copies: usize) -> Vec<usize> {
    use helenus_layout::insync::State;
    let is_in_sync = |copy: &usize| {
        rows.iter().all(|row| {
            let list = row.list.as_ref();
            list.is_ok_and(|list| list.state(*copy) == State::InSync)
        })
    };
    match rows.is_empty() {
        true => Vec::new(),
        false => (0..copies).filter(is_in_sync).collect(),
    }
}

/// Fails if the table of one of these is no copy of this one.
async fn check_tables(cluster: &Cluster, own: &Table, entries: &[Entry]) -> Result<()> {
    for entry in entries {
        let name = entry.table(&own.name);
        let found = table::load(cluster, &name).await?;
        checks::check_copy(own, &found, &entry.clustering)?;
    }
    Ok(())
}

/// What a message calls one of the copies.
fn described(entry: &Entry, of: &TableName) -> String {
    format!("{} ({})", entry.layout, entry.table(of))
}
