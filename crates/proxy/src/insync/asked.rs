//! What is asked of the catalogue, and what it says.

pub(super) use helenus_layout::insync::Owners;
use helenus_layout::insync::{Copies, Ranges, State, Stored, TABLE};

/// Names one start of a proxy: a random UUID.
pub(super) type Start = [u8; 16];
/// Keyspace and name.
pub(super) type TableName = (String, String);

/// One of the lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListName {
    Proxies,
    Copies(TableName),
}

/// A row of the list of proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProxyRow {
    pub start: Start,
    pub number: i32,
    pub state: String,
    pub since: i64,
    pub address: String,
}

/// What a read at QUORUM says of proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Beats {
    pub version: i64,
    pub beats: Vec<(Start, i64)>,
}

/// A list of copies, with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub owners: Owners,
    /// None if that cannot be so: then it is about none.
    pub ranges: Option<Ranges>,
    pub list: Stored,
}

/// What is to be asked of the catalogue: one thing at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// At SERIAL.
    Read(ListName),
    /// In which buckets starts of proxies have left intents.
    ReadIntents,
    Change(Change),
    ChangeCopies(CopiesChange),
    /// This start was evicted: go on as another one.
    StartAnew,
}

/// A change of the list of proxies by compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The version that it must still have; 0: it is not there yet.
    pub known: u64,
    pub version: u64,
    pub start: Start,
    pub number: usize,
    pub state: State,
    /// Another start had the number, whose row goes.
    pub replaces: Option<Start>,
}

/// A change of lists of a table's copies by compare-and-set: of all these groups, or of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopiesChange {
    pub table: TableName,
    pub groups: Vec<GroupChange>,
}

/// A change of the list of one group of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupChange {
    pub owners: Owners,
    /// The version that it must still have.
    pub known: u64,
    pub list: Stored,
    /// Copies that were in sync and are no longer.
    pub left: Vec<usize>,
    /// A copy that joins and has no rows.
    pub was_empty: Option<usize>,
}

impl GroupChange {
    /// From the known list to that one.
    pub(super) fn new(owners: &Owners, known: &Copies, list: &Copies) -> GroupChange {
        GroupChange {
            owners: owners.clone(),
            known: known.version(),
            list: Stored::of(list, owners.len()),
            left: known.in_sync().minus(list.in_sync()).iter().collect(),
            was_empty: None,
        }
    }
}

/// One of the copies of a group of ranges, or the table itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CopyName {
    pub table: TableName,
    pub owners: Owners,
    /// [`TABLE`] for the table itself.
    pub copy: usize,
}

impl CopyName {
    pub(super) fn described(&self) -> String {
        let (keyspace, table) = &self.table;
        match self.copy {
            TABLE => format!("the table {keyspace}.{table} itself"),
            copy => format!("copy {copy} of {keyspace}.{table}"),
        }
    }
}
