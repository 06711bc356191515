//! What this proxy knows of the lists of copies in sync and of proxies ([`helenus_layout::insync`]), for people:
//! the control side stores it, and the admin port shows it. Plain data, to be looked at without a lock. What
//! requests are carried out by is [`helenus_engine::copies`].
//!
//! Times in it are those of [`crate::boot_time`].

use helenus_layout::insync::{Join, Known, LISTED_MAX, List, PROXIES_MAX, Ranges, TABLE};

#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    /// This proxy's number, while it is in the list of proxies.
    pub me: Option<usize>,
    /// None while this proxy takes no part.
    pub proxies: Option<Known<PROXIES_MAX>>,
    /// Of proxies, by number.
    pub addresses: Vec<(usize, String)>,
    pub copies: Vec<CopiesOf>,
    /// Numbers of proxies with the buckets in which they had recorded intents when this one joined.
    pub intents: Vec<(usize, i32)>,
    /// Why lists are not believed, as sentences.
    pub problems: Vec<String>,
}

/// The copies of a group of a table's ranges, all with the same owners.
#[derive(Clone, Debug)]
pub(crate) struct CopiesOf {
    pub keyspace: String,
    pub table: String,
    /// Host ids, in the order of the copies.
    pub owners: Vec<[u8; 16]>,
    /// Those that the list is about; None if that is not known.
    pub ranges: Option<Ranges>,
    pub known: Known<LISTED_MAX>,
    /// Copies that are joining.
    pub joins: Vec<Join>,
}

impl CopiesOf {
    /// The numbers of all that are, or were, members of this list: those of the copies, and that of the table itself.
    pub(crate) fn members(&self, list: &List<LISTED_MAX>) -> impl Iterator<Item = usize> + use<> {
        let table = Some(TABLE).filter(|table| list.since(*table) > 0);
        (0..self.owners.len()).chain(table)
    }
}
