//! A node with one copy.

use super::{Cell, KEYS};

#[derive(Clone, Debug)]
pub(super) struct Node {
    cells: [Cell; KEYS],
    /// The number of its present start.
    pub(super) boot: u32,
    pub(super) up: bool,
    /// What the commit log has not on disk yet, in order.
    unsynced: Vec<(usize, Cell)>,
    synced: [Cell; KEYS],
    starts: u32,
    before_crash: [Cell; KEYS],
}

impl Node {
    pub(super) fn new() -> Node {
        Node {
            cells: [Cell::default(); KEYS],
            boot: 1,
            up: true,
            unsynced: Vec::new(),
            synced: [Cell::default(); KEYS],
            starts: 1,
            before_crash: [Cell::default(); KEYS],
        }
    }

    pub(super) fn read(&self, key: usize) -> Cell {
        self.cells[key]
    }

    pub(super) fn cells(&self) -> &[Cell; KEYS] {
        &self.cells
    }

    pub(super) fn write(&mut self, key: usize, cell: Cell) {
        self.cells[key] = self.cells[key].max(cell);
        self.unsynced.push((key, cell));
    }

    pub(super) fn sync(&mut self) {
        self.synced = self.cells;
        self.unsynced.clear();
    }

    /// Keeps the first `kept` of what was not on disk.
    pub(super) fn crash(&mut self, kept: usize) {
        self.up = false;
        self.before_crash = self.cells;
        self.cells = self.synced;
        let kept = kept.min(self.unsynced.len());
        for (key, cell) in std::mem::take(&mut self.unsynced).into_iter().take(kept) {
            self.cells[key] = self.cells[key].max(cell);
        }
        self.synced = self.cells;
    }

    pub(super) fn restart(&mut self) {
        self.up = true;
        self.starts += 1;
        self.boot = self.starts;
    }

    /// As if it had lost nothing, and had not been restarted.
    pub(super) fn restore(&mut self, boot: u32) {
        self.boot = boot;
        for (cell, before) in self.cells.iter_mut().zip(self.before_crash) {
            *cell = (*cell).max(before);
        }
    }

    /// DROP TABLE, and CREATE.
    pub(super) fn empty(&mut self) {
        self.cells = [Cell::default(); KEYS];
        self.sync();
        self.before_crash = self.cells;
    }

    pub(super) fn unsynced(&self) -> usize {
        self.unsynced.len()
    }
}
