//! Refuses requests that do not become one: beyond a bound, against a rule, or malformed.

use helenus_wire::code;

use crate::features;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::statement::prepared::Statement;
use crate::statement::unread::Unread;
use crate::stats::add;

impl Engine {
    /// A bound is reached.
    pub(crate) fn refuse(
        &mut self,
        arrival: &Arrival<'_>,
        statement: Option<&Statement>,
        why: &str,
    ) {
        add(&self.cx.shared.stats.global.requests_overloaded, 1);
        self.refuse_with(arrival, statement, code::OVERLOADED, why);
    }

    /// A request could not be read: its client gets an error.
    #[cold]
    pub(crate) fn refuse_unread(&mut self, arrival: &Arrival<'_>, why: &Unread) {
        let global = &self.cx.shared.stats.global;
        let counter = match why {
            Unread::Malformed(_) => Some(&global.clients_protocol_errors),
            Unread::NoMemory => Some(&global.requests_overloaded),
            Unread::TooLong => None,
        };
        if let Some(counter) = counter {
            add(counter, 1);
        }
        self.refuse_with(arrival, None, why.code(), &why.to_string());
    }

    /// Answers a request that does not become one with an error.
    pub(crate) fn refuse_with(
        &mut self,
        arrival: &Arrival<'_>,
        statement: Option<&Statement>,
        code: i32,
        text: &str,
    ) {
        self.refuse_with_fields(arrival, statement, code, text, &[]);
    }

    /// As `refuse_with`, with the fields that such errors have beside their text.
    pub(crate) fn refuse_with_fields(
        &mut self,
        arrival: &Arrival<'_>,
        statement: Option<&Statement>,
        code: i32,
        text: &str,
        fields: &[u8],
    ) {
        // Drivers prepare the statement again and ask anew.
        if code != code::UNPREPARED {
            add(&self.cx.shared.stats.global.requests_refused, 1);
        }
        features::on_refused(self, arrival, statement, code, text);
        let (session, stream) = (arrival.session, arrival.header.stream);
        let (clients, cx) = (&mut self.clients, &mut self.cx);
        clients.answer_error(cx, session, stream, code, text, fields);
    }
}

#[cfg(test)]
mod tests;
