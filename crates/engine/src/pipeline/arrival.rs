//! A client's request as it arrives: what the proxies' own tables answer, and what is kept of the rest.

use std::sync::Arc;

use helenus_policy::schedule::Class;
use helenus_wire::{Consistency, Opcode, flags};

use crate::exec::Execution;
use crate::exec::scan::begin::Asking;
use crate::features::Slot;
use crate::memory::Held;
pub(crate) use crate::pipeline::arrived::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Target;
use crate::pipeline::query::Query;
use crate::pipeline::request::{Caller, ClientRequest};
use crate::scheduler::scan_limit::Counted;
use crate::session::node_answer::NodeAnswer;
use crate::statement::analysis::Analysis;
use crate::statement::classify::class_of;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// Bytes: a smaller statement is not worth counting beside the request's body.
const READ_MIN: usize = 8 * 1024;

/// Bytes that a request keeps of what was read in its text, until it is answered. The text may be known to no one
/// else by then.
pub(crate) fn bytes_read(opcode: Opcode, statement: Option<&Statement>) -> usize {
    let of_text = statement.filter(|_| opcode != Opcode::Execute);
    let bytes = of_text.map_or(0, Statement::byte_len);
    match bytes < READ_MIN {
        true => 0,
        false => bytes,
    }
}

impl Engine {
    /// Answers a read of the tables that show the proxies; false if it is none, or a node has to.
    pub(crate) fn answer_system(
        &mut self,
        arrival: &Arrival<'_>,
        statement: &Statement,
        analysis: &Analysis<'_>,
    ) -> bool {
        let Arrival {
            session,
            header,
            opcode,
            version,
            content,
            ..
        } = *arrival;
        // Traces and what a payload asks for are a node's business.
        if header.flags & (flags::TRACING | flags::CUSTOM_PAYLOAD) != 0 {
            return false;
        }
        let answer = self
            .statements
            .answer_system(&self.cx, opcode, content, version, statement, analysis);
        let Some(answer) = answer else {
            return false;
        };
        let answer = NodeAnswer {
            opcode: Opcode::Result,
            header_flags: answer.header_flags,
            body: &answer.body,
            version: self.cx.snapshot.version(),
        };
        let (clients, cx) = (&mut self.clients, &mut self.cx);
        clients.answer_converted(cx, session, header.stream, answer);
        true
    }

    /// A client request, made of what has arrived, with how it will be carried out.
    ///
    /// # Errors
    /// There are too many scans.
    pub(crate) fn make_request(
        &mut self,
        arrival: Arrival<'_>,
        mut analysis: Analysis<'_>,
        statement: Option<Arc<Statement>>,
        slot: &mut Slot,
    ) -> Result<ClientRequest, String> {
        let Arrival { header, opcode, .. } = arrival;
        let class = class_of(
            &self.cx.snapshot,
            opcode,
            statement.as_deref(),
            analysis.prepared.as_deref(),
            analysis.keyspace,
            analysis.place.is_some(),
            analysis.lwt,
        );
        let mut execution = Execution::as_it_came();
        let mut counted = None;
        if class == Class::Scan {
            counted = self.count_scan(&analysis, statement.as_deref())?;
            let asking = statement.as_deref().map(|statement| Asking {
                header,
                opcode,
                content: arrival.content,
                version: arrival.version,
                statement,
                prepared: analysis.prepared.as_deref(),
                keyspace: analysis.keyspace,
            });
            if let Some((begun, place)) = asking.and_then(|asking| asking.execution(&self.cx)) {
                add(&self.cx.shared.stats.global.scans_in_pieces, 1);
                analysis.place = place;
                execution = begun;
            }
        }
        if statement.is_none() && opcode != Opcode::Batch {
            add(&self.cx.shared.stats.global.requests_opaque, 1);
        }
        let of = statement.as_deref();
        let table = self.statements.table_stats(&self.cx, &analysis, of, opcode);
        if class == Class::Scan {
            self.join_alike(&analysis, of);
        }
        let keyspace = arrival.keyspace.filter(|_| !analysis.has_own_keyspaces);
        let body = self.requests.keep(arrival.body);
        let read_bytes = bytes_read(opcode, statement.as_deref());
        let settled_at = analysis.settled_at();
        let caller = Caller {
            session: arrival.session,
            stream: header.stream,
            started: self.cx.now,
        };
        let query = Query {
            header_flags: header.flags,
            keyspace: keyspace.cloned(),
            statement,
            prepared: analysis.prepared,
            table,
            pool: arrival.pool,
            class,
            resendable: analysis.resendable,
            consistency: analysis.consistency.unwrap_or(Consistency::ONE),
            serial_consistency: analysis.serial_consistency,
            settled_at,
            ..Query::new(opcode, arrival.version, body)
        };
        let target = Target::Place {
            place: analysis.place,
            primary: analysis.lwt,
        };
        let read = (read_bytes > 0).then(|| Held::new(&self.cx.memory, read_bytes));
        let features = std::mem::take(slot);
        Ok(ClientRequest::new(
            caller,
            query,
            target,
            execution,
            features,
            (counted, read),
        ))
    }

    /// A scan begins with what is known of those alike.
    #[inline(never)]
    fn join_alike(&self, analysis: &Analysis<'_>, statement: Option<&Statement>) {
        // Not by its counters: these may be those of several tables.
        if let (Some(statement), Some(table)) = (statement, analysis.table(statement)) {
            let shapes = &self.cx.shared.shapes;
            statement
                .learned
                .join(|| shapes.of(table, &statement.facts));
        }
    }

    /// Counts a scan, unless there are too many.
    fn count_scan(
        &self,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> Result<Option<Counted>, String> {
        let of = analysis.table(statement);
        let of = of.map_or("", |(keyspace, _)| keyspace);
        let settings = &self.cx.shared.config.scheduling;
        self.cx.shared.scans.begin(of, settings)
    }
}
