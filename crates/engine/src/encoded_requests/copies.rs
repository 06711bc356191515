//! What nodes have prepared in place of clients' statements.

use std::sync::Arc;

use crate::engine::Engine;
use crate::keys::PoolKey;
use crate::statement::encoded_plan::Changed;
use crate::statement::prepared::{InRange, Prepared, Statement};

impl Engine {
    /// What the nodes have prepared of a changed statement; if nothing, they are asked to.
    pub(super) fn known_of(
        &mut self,
        pool: PoolKey,
        changed: &Changed<Statement>,
    ) -> Option<Arc<Prepared>> {
        let statement = changed.statement();
        let known = match &*statement.in_range() {
            InRange::Known(known) => Some(known.clone()),
            _ => None,
        };
        if known.is_none() {
            self.prepare_copies(pool, std::iter::once(statement));
        }
        let known = self.cx.shared.newest(known?);
        if self
            .statements
            .prepared(&self.cx.shared, &known.id)
            .is_none()
        {
            // Others have taken its place; a node that forgets it, too, is to be taught it again.
            self.statements.recall(&self.cx.shared, &known);
        }
        Some(known)
    }
}
