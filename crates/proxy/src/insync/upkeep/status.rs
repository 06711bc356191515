//! What an operator may see of the upkeep of copies.

use serde::Serialize;

/// What this proxy has done since it was started, and does now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Status {
    /// Whether this proxy is the one that brings copies back.
    pub is_caretaker: bool,
    pub comparing: Vec<Comparing>,
    /// Copies that are in sync again.
    pub copies_returned: u64,
    /// Buckets that proxies which are gone have left, or in which this one has given writes up, and which are equal
    /// again.
    pub buckets_resynchronised: u64,
    /// Buckets of proxies that are gone which are not yet.
    pub buckets_left: usize,
    /// The same where this proxy has given writes up.
    pub buckets_given_up: usize,
    /// Rows that were not the same in all copies and are now.
    pub rows_repaired: u64,
    /// Rows that could not be made equal, each time that one was looked at.
    pub rows_given_up: u64,
    /// What does not succeed, as sentences.
    pub problems: Vec<String>,
}

/// A copy that is joining, or the table itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparing {
    pub keyspace: String,
    pub table: String,
    /// Null: the table itself.
    pub copy: Option<usize>,
    /// Parts of its ranges that are equal, and how many there are.
    pub parts_compared: usize,
    pub parts: usize,
}
