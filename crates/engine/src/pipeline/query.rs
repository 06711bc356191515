//! Queries for nodes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use helenus_policy::route::Elsewhere;
use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, ExecuteView, Opcode, Reader, Version, flags};

use crate::config::Cluster;
use crate::context::Context;
use crate::keys::PoolKey;
use crate::pipeline::retry::resendable::Resendable;
use crate::snapshot::timeouts::Timed;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::TableStats;

/// A query for nodes: a body, and what is known of it.
pub(crate) struct Query {
    pub opcode: Opcode,
    pub header_flags: u8,
    /// Version of `body`.
    pub version: Version,
    pub body: Vec<u8>,
    /// Keyspace of the client's session.
    pub keyspace: Option<Rc<str>>,
    pub statement: Option<Arc<Statement>>,
    pub prepared: Option<Arc<Prepared>>,
    pub table: Option<Arc<TableStats>>,
    pub pool: PoolKey,
    pub class: Class,
    pub resendable: Resendable,
    pub consistency: Consistency,
    /// Of its Paxos rounds, if the client said so.
    pub serial_consistency: Option<Consistency>,
    /// Nothing had happened to its prepared statements by then ([`Common::descriptions`]).
    ///
    /// [`Common::descriptions`]: crate::shared::Common::descriptions
    pub settled_at: Option<u64>,
    /// It must not be sent later: what it was made by may be another thing by then.
    pub send_before: Option<Instant>,
}

/// Room of a body's buffer at most, if it is kept for another.
pub(super) const SPARE_BYTES_MAX: usize = 4_096;

impl Query {
    /// Nothing is known of it but its bytes.
    pub(crate) fn new(opcode: Opcode, version: Version, body: Vec<u8>) -> Query {
        Query {
            opcode,
            header_flags: 0,
            version,
            body,
            keyspace: None,
            statement: None,
            prepared: None,
            table: None,
            pool: PoolKey::default(),
            class: Class::System,
            resendable: Resendable::default(),
            consistency: Consistency::ONE,
            serial_consistency: None,
            settled_at: None,
            send_before: None,
        }
    }

    /// Bytes of memory that its body takes: all its room, unless it is in a buffer that is kept for other bodies.
    #[inline]
    pub(crate) fn held_len(&self) -> usize {
        match self.body.capacity() {
            room if room > SPARE_BYTES_MAX => room,
            _ => self.body.len(),
        }
    }

    /// Its body behind its custom payload.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        let mut reader = Reader::new(&self.body);
        if self.header_flags & flags::CUSTOM_PAYLOAD != 0 {
            reader.skip_bytes_map().ok()?;
        }
        Some(reader.rest())
    }

    /// How many statements it has.
    pub(crate) fn statement_count(&self) -> usize {
        if self.opcode != Opcode::Batch {
            return 1;
        }
        // Behind the kind of the batch.
        let count = self.content().and_then(|content| content.get(1..3));
        count.map_or(0, |count| {
            usize::from(u16::from_be_bytes([count[0], count[1]]))
        })
    }

    /// When nodes of other data centres are tried. A write goes to local ones first: they keep hints for those that a broken
    /// network hides.
    pub(crate) fn elsewhere(&self, cluster: &Cluster) -> Elsewhere {
        match cluster.may_leave_dc(self.consistency, self.serial_consistency) {
            false => Elsewhere::Never,
            true if self.is_read() => Elsewhere::Owners,
            true => Elsewhere::Last,
        }
    }

    /// True if it changes data.
    pub(crate) fn is_write(&self) -> bool {
        self.opcode == Opcode::Batch || matches!(self.class, Class::Write | Class::Lwt)
    }

    pub(crate) fn is_read(&self) -> bool {
        self.opcode != Opcode::Prepare && self.statement.as_ref().is_some_and(|s| s.is_read())
    }

    /// It has timed out: it may be long, and its answers will never say so.
    pub(crate) fn note_timeout(&self, now: Instant) {
        if self.class == Class::Scan
            && let Some(statement) = &self.statement
        {
            statement.learned.note_timeout(now);
        }
    }

    /// Counts it for the prepared statement that its client has asked for, after this time.
    pub(crate) fn note_asked(&self, cx: &Context, waited_us: u64) {
        let Some(prepared) = self.prepared.as_ref().filter(|_| self.is_read()) else {
            return;
        };
        let prepared = cx.shared.newest(prepared.clone());
        prepared.asked.note(cx.now, waited_us, self.continues());
    }

    /// True if it asks for a further page.
    fn continues(&self) -> bool {
        let content = self.content().unwrap_or_default();
        let view = ExecuteView::parse(content, self.version);
        view.is_ok_and(|view| view.options.paging_state.is_some())
    }

    /// Which of the node's time-outs count for it.
    pub(crate) fn timed(&self) -> Timed {
        let statement = self.statement.as_ref();
        let select = statement.and_then(|statement| statement.facts.select.as_deref());
        let folds = select.is_some_and(|s| s.aggregates || s.group_by);
        match self.class {
            Class::Point | Class::Slice if folds => Timed::Pages,
            Class::Point | Class::Slice => Timed::Read,
            Class::Multi => Timed::Pages,
            Class::Scan => {
                // A function may be a user's aggregate, and rows that fit be far between.
                let filters = statement.is_some_and(|s| !s.facts.key_terms.is_empty())
                    || select.is_some_and(|s| {
                        s.allow_filtering
                            || s.other_relations
                            || !s.ins.is_empty()
                            || !s.ranges.is_empty()
                    });
                match folds || filters || select.is_some_and(|s| s.calls) {
                    true => Timed::Pages,
                    false => Timed::Range,
                }
            }
            Class::System => Timed::Range,
            Class::Write => Timed::Write,
            Class::Lwt => Timed::Lwt,
            Class::Other => Timed::Other,
        }
    }
}
