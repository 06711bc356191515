//! Requests that are sent in place of clients' own.

use std::sync::Arc;
use std::time::Instant;

use helenus_wire::Opcode;

use crate::features::encodings::plan::Changed;
use crate::features::encodings::shown::{OnEncoded, Shown};
use crate::features::encodings::{EncodedTable, Encodings};
use crate::keys::PoolKey;
use crate::pipeline::engine::Engine;
use crate::statement::prepared::{InRange, Prepared, Statement};

pub(super) const NOT_READABLE: &str = "the request cannot be understood";

/// A request to nodes in place of a client's.
#[derive(Default)]
pub(crate) struct Stored {
    /// It is not sent later than this: by then columns may be encoded of which nothing is known here.
    pub until: Option<Instant>,
    /// The encoded columns as they were known then. A read in many requests goes on as long as that holds.
    pub known: Option<Arc<Encodings>>,
    pub encoded: Option<Box<OnEncoded>>,
    /// Opcode and body in place of the client's own.
    pub sent: Option<(Opcode, Vec<u8>)>,
}

impl Stored {
    pub(super) fn on(self, table: &Arc<EncodedTable>, shown: Shown) -> Stored {
        self.on_all(table, Box::default(), shown)
    }

    /// `others`: tables that a batch writes beside the first.
    fn on_all(
        mut self,
        table: &Arc<EncodedTable>,
        others: Box<[Arc<EncodedTable>]>,
        shown: Shown,
    ) -> Stored {
        self.encoded = Some(Box::new(OnEncoded {
            table: table.clone(),
            others,
            shown,
        }));
        self
    }

    /// Of a batch that writes these tables; `None` if there are none.
    pub(super) fn on_batch<'t>(
        self,
        tables: impl Iterator<Item = &'t Arc<EncodedTable>>,
    ) -> Option<Stored> {
        let mut all: Vec<Arc<EncodedTable>> = Vec::new();
        for table in tables {
            if !all.iter().any(|known| Arc::ptr_eq(known, table)) {
                all.push(table.clone());
            }
        }
        let (first, others) = all.split_first()?;
        Some(self.on_all(first, others.into(), Shown::ByName))
    }
}

/// A changed statement as the nodes have prepared it; if they have not, they are asked to.
pub(super) fn known_of(
    engine: &mut Engine,
    pool: PoolKey,
    changed: &Changed<Statement>,
) -> Option<Arc<Prepared>> {
    let statement = changed.statement();
    let known = match &*statement.in_range() {
        InRange::Known(known) => Some(known.clone()),
        _ => None,
    };
    if known.is_none() {
        engine.prepare_made(pool, std::iter::once(statement));
    }
    let known = engine.cx().shared.newest(known?);
    let prepared = engine.prepared(&known.id);
    if prepared.is_none() {
        // Others have taken its place; a node that forgets it, too, is to be taught it again.
        engine.remember_prepared(&known);
    }
    Some(known)
}
