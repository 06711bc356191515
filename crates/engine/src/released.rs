//! Requests that have waited for the end of a pause begin their way anew.

use helenus_wire::code;

use crate::client::clients::Terms;
use crate::engine::Engine;
use crate::gates::holding::HeldRequest;

impl Engine {
    /// Carries out a request that has waited, unless its client has left.
    pub(crate) fn on_released(&mut self, held: &HeldRequest) {
        let session = held.session;
        self.clients.in_flight_ended(session);
        let Some(Terms { version, pool, .. }) = self.clients.terms_of(session) else {
            return;
        };
        let arrival = held.arrival(version, pool);
        let (content, of) = (arrival.content, held.keyspace.as_deref());
        let cx = &mut self.cx;
        // It was counted when it came.
        let analysis = self
            .statements
            .analyze_again(cx, held.opcode, content, version, of);
        match analysis {
            Ok(analysis) => self.take_in(arrival, analysis, true),
            Err(e) => {
                let text = e.to_string();
                let stream = held.header.stream;
                self.answer_error(session, stream, code::PROTOCOL, &text);
            }
        }
    }
}
