//! The cells of the experiment.

use super::experiment::Hot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// So many clients in a closed loop.
    Closed(usize),
    /// At the experiment's rate.
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub load: Load,
    /// There is a hot key.
    pub is_hot: bool,
}

impl Cell {
    pub(super) fn name(&self) -> String {
        let keys = if self.is_hot { "hot" } else { "even" };
        match self.load {
            Load::Closed(clients) => format!("{keys}, {clients} clients"),
            Load::Open => format!("{keys}, open loop"),
        }
    }
}

impl Hot {
    pub(super) fn loads(&self) -> impl Iterator<Item = Load> {
        let closed = self.clients.iter().map(|clients| Load::Closed(*clients));
        closed.chain([Load::Open])
    }

    pub(super) fn cells(&self) -> Vec<Cell> {
        let both = |load| [false, true].map(|is_hot| Cell { load, is_hot });
        self.loads().flat_map(both).collect()
    }
}
