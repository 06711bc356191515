//! Requests that are carried out as others than their clients have asked.

use std::time::Instant;

use helenus_wire::{Malformed, Opcode, ResultKind, Version, code, result_kind, strip_prelude};

use crate::features::{self, Arrived, Slot};
use crate::keys::ClientRequestKey;
use crate::memory::NO_MEMORY;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::pipeline::request::ClientRequest;
use crate::rewrite::refusal::Refusal;
use crate::rewrite::rewritten::{AsAsked, Rewritten};
use crate::rewrite::schema_read::SchemaForm;
use crate::rewrite::schema_reads::{HiddenFromClients, schema_read};
use crate::session::node_answer::NodeAnswer;
use crate::stats::add;

impl Engine {
    /// The form in which a request goes on by itself.
    #[inline]
    pub(crate) fn rewrite(
        &mut self,
        request: &Arrived<'_>,
        slot: &mut Slot,
    ) -> Result<Rewritten, Box<Refusal>> {
        let mut rewritten = Rewritten::default();
        if request.arrival.opcode == Opcode::Prepare {
            return Ok(rewritten);
        }
        if features::hides(&self.cx.shared.config) {
            rewritten.schema = schema_read(request).map(Box::new);
        }
        if rewritten.schema.is_none() {
            features::on_alone(self, request, slot, &mut rewritten)?;
        }
        Ok(rewritten)
    }

    /// Tells a client why its request is not carried out.
    pub(crate) fn refuse_rewriting(&mut self, arrival: &Arrival<'_>, refusal: &Refusal) {
        let Refusal { code, text, fields } = refusal;
        let global = &self.cx.shared.stats.global;
        match *code {
            code::OVERLOADED if text == NO_MEMORY => add(&global.requests_overloaded, 1),
            code::OVERLOADED => add(&global.layout_writes_fenced, 1),
            code::INVALID => add(&global.layout_writes_refused, 1),
            _ => {}
        }
        self.refuse_with_fields(arrival, None, *code, text, fields);
    }

    /// Turns the answer to a rewritten request into the answer to its client's. If it cannot be used, the node
    /// request has ended, and there is another.
    ///
    /// # Errors
    /// It cannot be understood.
    pub(crate) fn as_asked(
        &mut self,
        client: ClientRequestKey,
        opcode: Opcode,
        header_flags: u8,
        version: Version,
        body: &[u8],
    ) -> Result<AsAsked, Malformed> {
        let answer = NodeAnswer {
            opcode,
            header_flags,
            body,
            version,
        };
        let request = self.requests.clients.get(client);
        let Some(read) = request.and_then(|request| request.schema_read()) else {
            return features::as_asked(self, client, &answer);
        };
        let (prelude, content) = strip_prelude(header_flags, body)?;
        if opcode != Opcode::Result || result_kind(content)? != ResultKind::Rows {
            return Ok(AsAsked::PassThrough);
        }
        Ok(match read.answer(content, &HiddenFromClients(&self.cx))? {
            Some(shown) => AsAsked::Body([prelude, &shown].concat()),
            None => AsAsked::PassThrough,
        })
    }
}

impl ClientRequest {
    /// Makes it the request that is carried out, at the latest by then.
    #[inline]
    pub(crate) fn adopt(&mut self, rewritten: Rewritten, until: Option<Instant>) {
        self.query.send_before = rewritten.send_before;
        features::on_made(self);
        if let Some(form) = rewritten.schema {
            self.read_schema(*form);
        }
        let until = [self.query.send_before, until].into_iter().flatten();
        self.query.send_before = until.min();
    }

    fn read_schema(&mut self, SchemaForm { read, instead }: SchemaForm) {
        if let Some(body) = instead {
            self.query.opcode = Opcode::Query;
            self.query.body = body;
            self.query.prepared = None;
        }
        self.set_schema_read(read);
    }
}
