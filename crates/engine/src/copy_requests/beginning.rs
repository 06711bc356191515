//! A write to copies in sync as it begins: whether there is room for it, and with which timestamp and time.

use std::rc::Rc;

use helenus_wire::{Options, ValueRef, code};

use crate::arrival::Arrival;
use crate::engine::Engine;
use crate::execution::copied_write::{CopiedWrite, Purpose};
use crate::execution::copied_writes::shares::Share;
use crate::execution::fan_out_write::bytes_of;
use crate::execution::rewriting::Refusal;
use crate::execution::sent_to_copies::{Own, OwnAsked, SentToCopies, Written, write_options};
use crate::memory::Held;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Statement;

const TOO_MANY: &str = "Helenus: too many writes to tables with copies in place of replicas are under way: have \
                        fewer requests in flight, or wait until the node that is away is back or left out";

/// A write that may begin.
pub(crate) struct Ready<'a> {
    /// It, or the first statement of a BATCH.
    pub first: &'a Statement,
    pub asked: OwnAsked,
    pub written: Written,
    pub shares: Vec<Rc<Share>>,
    /// Bytes that it holds alone.
    pub held: usize,
}

impl Engine {
    /// Refuses a write of so many bytes to so many copies, and to the table itself, if there is no room for it.
    pub(crate) fn may_begin(&self, bytes: usize, copies: usize) -> Result<(), Refusal> {
        self.is_room_for(bytes)?;
        if self.cx.memory.is_full(bytes.saturating_mul(copies + 1)) {
            return Err(Refusal::no_memory());
        }
        match self.copied.is_full() {
            true => Err(Refusal::new(code::OVERLOADED, TOO_MANY)),
            false => Ok(()),
        }
    }

    /// A write with its one timestamp and its one time. `values`: what stands behind all statements.
    pub(crate) fn begun(
        &mut self,
        (arrival, analysis): (&Arrival<'_>, &Analysis<'_>),
        purpose: Purpose,
        of: Ready<'_>,
        (asked, values): (&Options<'_>, &[ValueRef<'_>]),
    ) -> CopiedWrite {
        let since_1970 = self.cx.since_1970();
        let since_1970_us = i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX);
        let timestamp_us = match asked.timestamp {
            Some(timestamp_us) => timestamp_us,
            None => self.copied.timestamp_us(since_1970_us),
        };
        let now_in_seconds = i32::try_from(since_1970.as_secs()).unwrap_or(i32::MAX);
        let version = self.cx.snapshot.version;
        let mut options = Vec::with_capacity(bytes_of(values) + 32);
        let own = (asked, now_in_seconds);
        write_options(values, timestamp_us, own, version, &mut options);
        let payload: Box<[u8]> = arrival.payload().into();
        let keyspace = match asked.keyspace {
            Some(keyspace) => Some(keyspace.into()),
            None => {
                let of_session = arrival.keyspace.filter(|_| !analysis.has_own_keyspaces);
                of_session.cloned()
            }
        };
        let own = size_of::<CopiedWrite>() + size_of_val(&*purpose.owners) + of.held;
        let own = own
            + keyspace
                .as_ref()
                .map_or(0, |keyspace: &Rc<str>| keyspace.len());
        let held = Held::new(&self.cx.memory, own + payload.len() + options.len());
        let sent = SentToCopies {
            written: of.written,
            payload,
            options: options.into(),
            version,
            max: self.cx.shared.config.limits.request_bytes_max,
            pool: arrival.pool,
            table: self
                .statements
                .table_stats(&self.cx, analysis, Some(of.first), arrival.opcode),
            own: Own {
                asked: of.asked,
                keyspace,
                place: analysis.place.clone(),
                level: asked.consistency,
            },
            shares: of.shares.into(),
        };
        CopiedWrite::new(purpose, sent, held)
    }
}
