//! The prepared statements that a worker has met lately, by id. Behind it is the table that all
//! workers share.

use std::sync::Arc;

use crate::shared::Shared;
use crate::statement::prepared::Prepared;
use crate::support::recent::Recent;

/// Prepared statements of one worker, up to a bound in bytes.
pub(in crate::statement) struct PreparedCache {
    known: Recent<Box<[u8]>, Arc<Prepared>>,
}

impl PreparedCache {
    pub(in crate::statement) fn new(bytes_max: usize) -> PreparedCache {
        PreparedCache {
            known: Recent::new(bytes_max),
        }
    }

    pub(in crate::statement) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.known.set_bytes_max(bytes_max);
    }

    /// A statement that is known to this worker, or to any other.
    pub(in crate::statement) fn get(
        &mut self,
        shared: &Shared,
        id: &[u8],
    ) -> Option<Arc<Prepared>> {
        let own = self.known.get(id);
        if own.as_ref().is_some_and(|own| !own.standing.is_replaced()) {
            return own;
        }
        let newest = match own {
            Some(own) => shared.published_or(own),
            None => shared.prepared.get(id)?,
        };
        self.remember(&newest);
        Some(newest)
    }

    pub(in crate::statement) fn remember(&mut self, prepared: &Arc<Prepared>) {
        let (id, weight) = (prepared.id.clone(), prepared.byte_len());
        self.known.insert(id, prepared.clone(), weight);
    }
}
