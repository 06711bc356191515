//! Copies of a table that are known to be in sync, so that a strong read may ask one of them alone.
//!
//! In mode `replace` each replica of a table is a layout of its own, and Cassandra no longer compares
//! them. This is the protocol that takes its place: who is asked, who is waited for, and who may be left
//! out. The engine writes by it, and proxies keep themselves in the list of proxies.
//!
//! # Setting
//! A *copy* is one layout of one range of the ring, held by one node. Proxies write every row to all copies
//! with one timestamp, and a copy keeps the greatest of what it has been given. A catalogue, changed by
//! compare-and-set only, holds two lists: of copies, for each range, and of proxies. A member of a list is
//! in sync, joining or out ([`List`]). A proxy relies on the lists that it has read until its lease runs
//! out ([`Known`]).
//!
//! # Rules
//! 1. A **write** is acknowledged when all copies that anybody may read, or may soon read, have it
//!    ([`Write`]): those in sync, those joining, and for the length of a lease those that have just been
//!    evicted. The proxy holds a lease at that moment.
//! 2. A **read** is answered by a copy that was in sync, without interruption and with its node not
//!    restarted, from when the read was sent until its answer arrived ([`Read`]).
//! 3. A copy **comes back** by joining for a whole lease, then being compared with one in sync, in both
//!    directions ([`Join`]).
//! 4. A **proxy** is a member of the second list by the same rules. What makes it in sync is that it knows
//!    in which buckets of the ring others have writes that not all copies may have ([`Marks`]).
//! 5. Before its first write in a bucket a proxy records the **intent** in the catalogue ([`Intents`]), and
//!    tells all proxies. Reads in such a bucket are merged: they ask all copies, and what some lack is written back before
//!    the answer.
//! 6. When a proxy is gone, and all that it has sent has arrived or never will, another **resynchronises**
//!    the buckets that it has left ([`Known::is_gone`]).
//! 7. When **ranges have other owners**, their lists are made from those that they had ([`regroup()`]).
//!
//! # Assumptions
//! - The rates of any two monotonic clocks differ by no more than [`Timing::drift_ppm`] each from real
//!   time.
//! - What a proxy has sent is applied, or never will be, [`Timing::late_us`] after its lease has run out.
//!   Only monotone reads rest on this. Reads that see all acknowledged writes, and copies that end equal
//!   while the proxies live, do not.
//! - Reads of the catalogue see every change that was answered before they were sent.
//!
//! Sources: C. Gray and D. Cheriton, "Leases" (SOSP 1989); W. Lin et al., "PacificA: Replication in
//! Log-Based Distributed Storage Systems" (2008), for the list and its manager; A. Katsarakis et al.,
//! "Hermes" (ASPLOS 2020), for announcing writes before they are made so that any copy can be read; H.
//! Attiya et al., "Sharing Memory Robustly in Message-Passing Systems" (JACM 1995), for writing back.

mod comeback;
mod intents;
mod join;
mod known;
mod list;
mod marks;
mod members;
mod ranges;
mod read;
mod regroup;
mod stored;
mod timing;
mod write;

pub use comeback::{Comeback, is_caretaker};
pub use intents::{BitChange, GivenUp, Intents};
pub use join::{Join, JoinStep};
pub use known::Known;
pub use list::{COPIES_MAX, Copies, LISTED_MAX, List, PROXIES_MAX, Proxies, Refused, State, TABLE};
pub use marks::{Marks, Notice};
pub use members::Members;
pub use ranges::Ranges;
pub use read::{Read, Verdict};
pub use regroup::{Change, NewGroup, OldGroup, Owners, Regrouping, Stuck, regroup};
pub use stored::{BadList, Stored, StoredProxy, check_order, proxies};
pub use timing::Timing;
pub use write::{Step, Write};

#[cfg(test)]
mod simulation;
