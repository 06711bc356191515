//! The engine's way to the station of statements, by the names that its other files know: to be
//! dissolved into those.

use std::sync::Arc;
use std::time::Instant;

use helenus_policy::schedule::Class;
use helenus_wire::{Header, Malformed, Opcode, Version};

use crate::engine::{Engine, RequestKey, SessionKey};
use crate::gates::lwt_queue::partition_name;
use crate::statement::analysis::Analysis;
use crate::statement::classify;
use crate::statement::learned::Learned;
use crate::statement::prepared::{Prepared, Statement};
use crate::statement::preparing::Preparing;
use crate::stats::TableStats;

impl Engine {
    /// Parses a request's body behind its payload.
    #[inline]
    pub(crate) fn understand<'a>(
        &mut self,
        opcode: Opcode,
        content: &'a [u8],
        version: Version,
        session: Option<&'a str>,
    ) -> Result<Analysis<'a>, Malformed> {
        let cx = &mut self.cx;
        self.statements
            .analyze(cx, opcode, content, version, session)
    }

    /// The partition of a conditional write, if those take turns. Its key was built just now.
    pub(crate) fn partition_of_lwt(
        &self,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> Option<u64> {
        if !self.cx.shared.config.aggregation.lwt_turns {
            return None;
        }
        let partition = self.statements.lwt_partition(analysis, statement)?;
        let (keyspace, table) = partition.table;
        Some(partition_name(keyspace, table, partition.key))
    }

    /// Answers a read of the tables that show the proxies; false if it is none, or a node has to.
    pub(crate) fn answer_system(
        &mut self,
        key: SessionKey,
        header: Header,
        opcode: Opcode,
        content: &[u8],
        version: Version,
        asked: (&Statement, &Analysis<'_>),
    ) -> bool {
        let (cx, flags) = (&self.cx, header.flags);
        let answer = self
            .statements
            .answer_system(cx, flags, opcode, content, version, asked);
        let Some(answer) = answer else {
            return false;
        };
        self.answer_converted(
            key,
            header.stream,
            Opcode::Result,
            answer.header_flags,
            &answer.body,
            self.cx.snapshot.version,
        );
        true
    }

    /// `placed`: whether the partition is known.
    pub(crate) fn class_of(
        &self,
        opcode: Opcode,
        statement: Option<&Statement>,
        prepared: Option<&Prepared>,
        keyspace: Option<&str>,
        placed_lwt: (bool, bool),
    ) -> Class {
        let snapshot = &self.cx.snapshot;
        classify::class_of(snapshot, opcode, statement, prepared, keyspace, placed_lwt)
    }

    pub(crate) fn table_stats(
        &mut self,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
        opcode: Opcode,
    ) -> Option<Arc<TableStats>> {
        self.statements
            .table_stats(&self.cx, analysis, statement, opcode)
    }

    /// A prepared statement by id: known to this worker, or to any other.
    pub(crate) fn prepared(&mut self, id: &[u8]) -> Option<Arc<Prepared>> {
        self.statements.prepared(&self.cx.shared, id)
    }

    /// Whether what a node has prepared is what clients know by this id.
    pub(crate) fn is_known_as(&mut self, id: &[u8], content: &[u8]) -> bool {
        self.statements.is_known_as(&self.cx, id, content)
    }

    /// What a node has prepared at a request's PREPARE, if that is news.
    pub(crate) fn learn_prepared(
        &mut self,
        key: RequestKey,
        content: &[u8],
    ) -> Option<Arc<Prepared>> {
        let request = self.requests.get(key)?;
        let preparing = Preparing {
            statement: request.statement.as_ref()?,
            version: request.version,
            header_flags: request.header_flags,
            body: &request.body,
            session: request.keyspace.as_deref(),
        };
        self.statements
            .learn_prepared(&self.cx, &preparing, content)
    }
}

impl Learned {
    pub(crate) fn note_density(&self, rows: usize, tokens: u64) {
        self.spread.note_density(rows, tokens);
    }

    pub(crate) fn forget_density(&self) {
        self.spread.forget_density();
    }

    pub(crate) fn note_expected(&self, rows: usize, expected: f64) {
        self.spread.note_expected(rows, expected);
    }

    pub(crate) fn wants_partitions(&self, rows: usize, random: u64) -> bool {
        self.spread.wants_partitions(rows, random)
    }

    pub(crate) fn note_partition_rows(&self, rows: f64) {
        self.spread.note_partition_rows(rows);
    }

    pub(crate) fn note_partition_passed(&self) {
        self.spread.note_partition_passed();
    }

    pub(crate) fn rows_per_token(&self) -> Option<f64> {
        self.spread.rows_per_token()
    }

    pub(crate) fn error_of(&self, rows: usize) -> Option<f64> {
        self.spread.error_of(rows)
    }

    pub(crate) fn is_suspended(&self, now: Instant) -> bool {
        self.suspension.is_in_force(now)
    }

    pub(crate) fn suspend(&self, now: Instant) {
        self.suspension.begin(now);
    }

    pub(crate) fn keys_fit(&self, keys: usize) -> bool {
        self.keys.fit(keys)
    }

    pub(crate) fn note_keys(&self, keys: usize, fitted: bool) {
        self.keys.note(keys, fitted);
    }
}
