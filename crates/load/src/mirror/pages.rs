//! Where further pages begin, of the reads that were not read to their end last.

use std::collections::HashMap;

/// Bytes of paging states, half of which are of reads before.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of an entry beside its state, about.
const ENTRY_BYTES: usize = 128;

/// The identity of a read of many pages: connection, statement, and a hash of its values.
pub(crate) type Pages = (u64, u64, u64);

/// Paging states in bounded memory: those that were noted last, and those before.
#[derive(Debug, Default)]
pub(crate) struct PagingStates {
    recent: HashMap<Pages, Vec<u8>>,
    older: HashMap<Pages, Vec<u8>>,
    recent_bytes: usize,
}

impl PagingStates {
    /// Notes where the next page begins, or that there is none.
    pub(crate) fn note(&mut self, of: Pages, state: Option<Vec<u8>>) {
        self.older.remove(&of);
        if let Some(earlier) = self.recent.remove(&of) {
            self.recent_bytes -= ENTRY_BYTES + earlier.len();
        }
        let Some(state) = state else {
            return;
        };
        self.recent_bytes += ENTRY_BYTES + state.len();
        self.recent.insert(of, state);
        if self.recent_bytes > BYTES_MAX / 2 {
            self.older = std::mem::take(&mut self.recent);
            self.recent_bytes = 0;
        }
    }

    pub(crate) fn get(&self, of: &Pages) -> Option<Vec<u8>> {
        self.recent.get(of).or_else(|| self.older.get(of)).cloned()
    }

    /// Bytes that they take, about.
    #[cfg(test)]
    pub(crate) fn byte_len(&self) -> usize {
        let all = self.recent.values().chain(self.older.values());
        all.map(|state| ENTRY_BYTES + state.len()).sum()
    }
}
