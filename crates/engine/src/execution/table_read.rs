//! A read of several partitions of a table with copies in sync, while the table itself is in sync in all its lists: as
//! it came, through any node. Its answer counts if the table has stayed so until it came. If the table has left, a first
//! page is read from the copies instead.

use std::sync::Arc;
use std::time::Instant;

use helenus_layout::plan::LogicalTable;
use helenus_wire::{Opcode, Version, code};

use crate::copies::TableInSync;
use crate::copy_rings::RingId;
use crate::execution::copy_parts::CopyParts;
use crate::execution::copy_read::own_form;
use crate::execution::outcome::{Outcome, Response, Step, Told};
use crate::execution::surroundings::Surroundings;
use crate::keys::NodeRequestKey;
use crate::memory::Held;

/// How often it is asked in all, if the lists change each time.
const ASKED_MAX: u16 = 3;

const LEFT: &str = "Helenus: the table has left the lists of what is in sync while it was read, or this proxy \
                               has; read again, from its copies";

pub(super) fn left() -> Step<'static> {
    Step::Told(Box::new(Told {
        code: code::OVERLOADED,
        text: LEFT.to_owned(),
        fields: Vec::new(),
        version: None,
    }))
}

/// A read of the table itself that is under way.
pub(crate) struct TableRead {
    pub table: Arc<LogicalTable>,
    /// The node's own paging state and the size of the page, if the page before came from a copy.
    pub continued: Option<(Box<[u8]>, i32)>,
    /// When it was asked first. All attempts have the time of one.
    began: Option<Instant>,
    attempts: u16,
    under_way: Option<UnderWay>,
    arrived: Option<Arrived>,
    /// The same read of copies, if they give it.
    by_copies: Option<Box<CopyParts>>,
}

impl std::fmt::Debug for TableRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TableRead")
    }
}

struct UnderWay {
    key: NodeRequestKey,
    in_sync: TableInSync,
    ring: (RingId, usize),
}

/// An answer that is to be judged.
pub(crate) struct Arrived {
    pub in_sync: TableInSync,
    /// By which it was asked.
    pub ring: (RingId, usize),
    pub header_flags: u8,
    pub version: Version,
    pub body: Vec<u8>,
    _held: Held,
}

impl TableRead {
    pub(crate) fn new(table: Arc<LogicalTable>, continued: Option<(Box<[u8]>, i32)>) -> TableRead {
        TableRead {
            table,
            continued,
            began: None,
            attempts: 0,
            under_way: None,
            arrived: None,
            by_copies: None,
        }
    }

    pub(crate) fn or_by_copies(self, by_copies: Option<CopyParts>) -> TableRead {
        let by_copies = by_copies.map(Box::new);
        TableRead { by_copies, ..self }
    }

    /// What is asked of copies now that the table has left.
    pub(super) fn take_by_copies(&mut self) -> Option<Box<CopyParts>> {
        self.by_copies.take()
    }

    /// `None`: the table has left, or comes and goes.
    pub(super) fn send(&mut self, around: &mut Surroundings<'_>) -> Option<Step<'static>> {
        let named = (&*self.table.keyspace, &*self.table.name);
        let lists = around.cx.shared.copies.lists();
        let now_us = around.cx.shared.copies.us(around.cx.now);
        let ring = around.cx.snapshot.copy_rings.with_groups(named.0, named.1);
        let in_sync = lists.table_in_sync(named, ring, now_us);
        let in_sync = in_sync.filter(|_| self.attempts < ASKED_MAX)?;
        let continued = self.continued.as_ref();
        let continued = continued.map(|(state, size)| (&**state, *size));
        let (form, work) = own_form(around, continued);
        let key = around.send_own_part(self.attempts, form, work);
        let began = *self.began.get_or_insert(around.cx.now);
        if let Some(request) = around.requests.get_mut(key) {
            request.time_runs_since = began;
        }
        self.attempts += 1;
        self.under_way = Some(UnderWay { key, in_sync, ring });
        Some(Step::Wait)
    }

    /// The node request under way.
    pub(crate) fn child(&self) -> Option<NodeRequestKey> {
        self.under_way.as_ref().map(|under_way| under_way.key)
    }

    pub(super) fn on_attempt<'a>(
        &mut self,
        around: &mut Surroundings<'_>,
        outcome: Outcome<'a>,
    ) -> Step<'a> {
        let Some(UnderWay { in_sync, ring, .. }) = self.under_way.take() else {
            return Step::Wait;
        };
        let Outcome::Answered(response) = outcome else {
            return outcome.unchanged();
        };
        if response.header.opcode != Opcode::Result as u8 {
            return Step::Broken("neither a result nor an error".to_owned());
        }
        self.keep(around, (in_sync, ring), &response);
        Step::Wait
    }

    fn keep(
        &mut self,
        around: &mut Surroundings<'_>,
        (in_sync, ring): (TableInSync, (RingId, usize)),
        response: &Response<'_>,
    ) {
        let Response {
            content, prelude, ..
        } = response;
        if let Some(learned) = around.learned() {
            learned.note_answer(content.len(), response.service_us);
        }
        self.arrived = Some(Arrived {
            in_sync,
            ring,
            header_flags: response.header.flags,
            version: response.version,
            body: [*prelude, *content].concat(),
            _held: Held::new(&around.cx.memory, prelude.len() + content.len()),
        });
        around.todo.judge = true;
    }

    pub(crate) fn take_arrived(&mut self) -> Option<Arrived> {
        self.arrived.take()
    }
}
