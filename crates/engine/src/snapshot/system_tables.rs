//! The tables in which drivers look for the cluster: clients are shown proxies there.

/// `system.local`, `system.peers` and `system.peers_v2`, as the nodes have them.
#[derive(Clone, Debug, Default)]
pub struct SystemTables {
    pub(super) local: SystemTable,
    pub(super) peers: SystemTable,
    pub(super) peers_v2: SystemTable,
}

/// The columns of a system table and one row to start from.
#[derive(Clone, Debug, Default)]
pub struct SystemTable {
    pub columns: Vec<SystemColumn>,
    /// A real row (of `system.local`), whose values the proxy shows where it has none of its own.
    pub row: Vec<Option<Vec<u8>>>,
}

/// A column of a system table: name and type option as the node describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemColumn {
    pub name: String,
    pub type_raw: Vec<u8>,
}

impl SystemTables {
    pub(crate) fn local(&self) -> &SystemTable {
        &self.local
    }

    pub(crate) fn peers(&self) -> &SystemTable {
        &self.peers
    }

    pub(crate) fn peers_v2(&self) -> &SystemTable {
        &self.peers_v2
    }
}

impl SystemTable {
    /// A table of which no row is known.
    pub fn of_columns(columns: Vec<SystemColumn>) -> SystemTable {
        let row = Vec::new();
        SystemTable { columns, row }
    }

    /// The value of a column in the row to start from.
    pub(crate) fn value(&self, name: &str) -> Option<&[u8]> {
        let at = self.columns.iter().position(|c| c.name == name)?;
        self.row.get(at)?.as_deref()
    }
}
