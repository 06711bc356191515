//! Statements of requests: texts, prepared ones, what is known of them, system tables.

pub(crate) mod analysis;
pub mod analyze;
pub(crate) mod children;
pub mod classify;
pub(crate) mod condition;
pub(crate) mod definition;
pub(crate) mod digest;
pub mod in_keys;
pub(crate) mod keyspaces;
pub mod learned;
pub(crate) mod number;
pub(crate) mod of_text;
pub mod order;
pub(crate) mod pieces;
pub(crate) mod place;
pub mod prepared;
pub(crate) mod resendable;
mod routing_key;
pub mod system;
mod system_read;
mod table_counters;
mod text_cache;
pub(crate) mod unread;
pub(crate) mod words;

use std::sync::Arc;

use self::analysis::Analysis;
use self::learned::typical::Typical;
use self::place::Placer;
use self::prepared::{Prepared, Statement};
use self::system::Proxies;
use self::table_counters::TableCounters;
use self::text_cache::TextCache;
use crate::config::{Config, Limits};
use crate::context::Context;
use crate::keys::SessionKey;
use crate::pipeline::query::Query;
use crate::shared::Shared;
use crate::statement::prepared::asked::COUNTED_ONE_OF;
use crate::statement::prepared::cache::PreparedCache;
use crate::statement::prepared::told::{Known, Told};
use crate::stats::TableStats;
use crate::support::sampling::{Sampler, Share};

/// One worker's knowledge of statements.
pub(crate) struct Statements {
    texts: TextCache,
    prepared: PreparedCache,
    told: Told,
    placer: Placer,
    /// The work of requests of which nothing else is known.
    pub typical: Typical,
    tables: TableCounters,
    /// The proxies, which clients are shown in place of nodes.
    proxies: Proxies,
    /// Which answers count for how often statements are asked.
    counted: Sampler,
}

impl Statements {
    pub(crate) fn new(config: &Config, workers: usize, seed: u64) -> Statements {
        let shares = CacheShares::of(&config.limits, workers);
        Statements {
            texts: TextCache::new(shares.texts_bytes, seed),
            prepared: PreparedCache::new(shares.prepared_bytes),
            told: Told::new(shares.told_bytes),
            placer: Placer::default(),
            typical: Typical::default(),
            tables: TableCounters::default(),
            proxies: Proxies::of(config),
            counted: Sampler::default(),
        }
    }

    /// Takes over settings that have changed while the proxy runs.
    pub(crate) fn adopt(&mut self, config: &Config, workers: usize) {
        let shares = CacheShares::of(&config.limits, workers);
        self.texts.set_bytes_max(shares.texts_bytes);
        self.prepared.set_bytes_max(shares.prepared_bytes);
        self.told.set_bytes_max(shares.told_bytes);
        self.proxies = Proxies::of(config);
    }

    /// Notes an answer to a query, which took this long from sending.
    pub(crate) fn learn(&mut self, query: &Query, content: &[u8], service_us: u32) {
        if let Some(statement) = &query.statement {
            statement.learned.note_answer(content.len(), service_us);
            self.typical.note(query.class, service_us);
        }
    }

    /// The statement of a text. `keyspace`: that of names without one.
    pub(crate) fn of_text(&mut self, keyspace: Option<&str>, text: &str) -> Arc<Statement> {
        self.texts.statement(keyspace, text)
    }

    /// Makes a prepared statement known again that was forgotten.
    pub(crate) fn recall(&mut self, shared: &Shared, prepared: &Arc<Prepared>) {
        self.prepared.remember(prepared);
        shared.publish_prepared(prepared);
    }

    /// True if an answer counts for how often its statement is asked.
    #[inline]
    pub(crate) fn is_counted(&mut self) -> bool {
        self.counted.takes(Share::one_of(COUNTED_ONE_OF))
    }

    /// The counters of the table that a request is about.
    pub(crate) fn counters_of(
        &mut self,
        cx: &Context,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> Option<Arc<TableStats>> {
        let (keyspace, table) = analysis.table(statement)?;
        self.tables.of(cx, keyspace, table)
    }

    /// The routing key of a request that was analyzed just now, if it is known.
    pub(crate) fn routing_key(&self, analysis: &Analysis<'_>) -> Option<&[u8]> {
        analysis.place.as_ref().map(|_| self.placer.key())
    }

    /// A prepared statement by id: known to this worker, or to any other.
    pub(crate) fn prepared(&mut self, shared: &Shared, id: &[u8]) -> Option<Arc<Prepared>> {
        self.prepared.get(shared, id)
    }

    /// A statement as it is known by now.
    pub(crate) fn newest(&mut self, shared: &Shared, prepared: &Arc<Prepared>) -> Arc<Prepared> {
        match prepared.standing.is_replaced() {
            true => self.prepared(shared, &prepared.id),
            false => None,
        }
        .unwrap_or_else(|| prepared.clone())
    }

    /// A node has described a statement to a client.
    pub(crate) fn note_told(&mut self, session: SessionKey, prepared: &Prepared) {
        self.told.note(session, prepared);
        prepared.standing.note_told();
    }

    /// True if a client must prepare a statement again before it may use it.
    pub(crate) fn is_outdated(&mut self, session: SessionKey, prepared: &Prepared) -> bool {
        let standing = &prepared.standing;
        standing.is_untold()
            || standing.may_have_changed() && self.knows(session, prepared) == Known::Otherwise
    }

    /// How a client knows a statement.
    pub(crate) fn knows(&mut self, session: SessionKey, prepared: &Prepared) -> Known {
        self.told.knows(session, prepared)
    }
}

/// A worker's share of the bytes that are kept of texts, and of prepared statements: half of these are those
/// that all workers have in common.
struct CacheShares {
    texts_bytes: usize,
    prepared_bytes: usize,
    told_bytes: usize,
}

impl CacheShares {
    fn of(limits: &Limits, workers: usize) -> CacheShares {
        let workers = workers.max(1);
        let told_bytes = limits.prepared_bytes_max / 8 / workers;
        CacheShares {
            texts_bytes: limits.statements_bytes_max / workers,
            prepared_bytes: limits.prepared_bytes_max / 2 / workers - told_bytes,
            told_bytes,
        }
    }
}
