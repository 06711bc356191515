//! Statements that nodes describe otherwise than their clients know them: since they were prepared a table was
//! made again, or a type has changed. Whoever executes one must prepare it again, or it would bind values of the
//! old types; and who knows it by older columns must be sent those of the rows.

use std::sync::Arc;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{BatchChild, BatchView, ExecuteView, Opcode, Version, code};

use crate::keys::NodeRequestKey;
use crate::pipeline::arrival::Arrival;
use crate::pipeline::engine::Engine;
use crate::statement::analysis::Analysis;
use crate::statement::prepared::Prepared;
use crate::statement::prepared::told::Known;
use crate::statement::prepared::unprepared::unprepared;

impl Engine {
    /// Refuses a request with a statement that its client knows otherwise; false if there is none.
    #[inline]
    pub(crate) fn refuse_outdated(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
    ) -> bool {
        !analysis.unsettled.is_empty() && self.refuse_one_outdated(arrival, analysis)
    }

    #[inline(never)]
    fn refuse_one_outdated(&mut self, arrival: &Arrival<'_>, analysis: &Analysis<'_>) -> bool {
        let session = arrival.session;
        let mut unsettled = analysis.unsettled.iter();
        let outdated = unsettled.find(|of| self.statements.is_outdated(session, of));
        let Some(outdated) = outdated else {
            return false;
        };
        let (text, fields) = unprepared(&outdated.id);
        let statement = Some(&*outdated.statement);
        self.refuse_with_fields(arrival, statement, code::UNPREPARED, &text, &fields);
        true
    }

    /// A request of a client that wants no columns with its rows although it may know others than these have: as it
    /// came, but with columns. `None` if it may have what it wants. In v5 it says itself which columns it knows.
    #[inline]
    pub(crate) fn with_unknown_columns(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
    ) -> Option<Vec<u8>> {
        if arrival.version == Version::V5 || !analysis.skips_metadata {
            return None;
        }
        if let Some(known) = analysis.prepared.as_deref() {
            let facts = &known.statement.facts;
            let has_rows = known.statement.is_read() || facts.lwt;
            if !has_rows || self.statements.knows(arrival.session, known) == Known::AsItIs {
                return None;
            }
        }
        let options = ExecuteView::parse(arrival.content, arrival.version)
            .ok()?
            .options;
        let mut body = arrival.payload().to_vec();
        let head = options.begins_at();
        body.extend_from_slice(arrival.content.get(..head)?);
        let version = arrival.version;
        options.write_with_state_and_columns(arrival.content, version, None, &mut body);
        Some(body)
    }

    /// Puts a request on a link to a node, if its prepared statements are still what their client knows; false if the node has
    /// no link with room.
    pub(crate) fn send_as_known(&mut self, key: NodeRequestKey, node: NodeIndex) -> bool {
        match self.edition(key) {
            Edition::Fits => {}
            Edition::Doubted(prepared) => {
                if self.reprepare(key, node, &prepared.id) {
                    self.leave_queue(key, None);
                    return true;
                }
            }
            Edition::Outdated(prepared) => {
                self.leave_queue(key, None);
                self.fail_unprepared(key, &prepared.id);
                return true;
            }
        }
        self.dispatch(key, node)
    }

    /// Fit of a node request's prepared statements with what nodes say of them by now.
    #[inline]
    fn edition(&mut self, key: NodeRequestKey) -> Edition {
        let Some(query) = self.requests.query(key) else {
            return Edition::Fits;
        };
        match (query.opcode, &query.prepared) {
            (Opcode::Execute, Some(prepared)) if !prepared.standing.is_plain() => {
                let prepared = prepared.clone();
                self.edition_of(&prepared)
            }
            (Opcode::Batch, _) if query.settled_at != Some(self.cx.shared.descriptions()) => {
                self.edition_of_batch(key)
            }
            _ => Edition::Fits,
        }
    }

    #[inline(never)]
    fn edition_of(&mut self, prepared: &Arc<Prepared>) -> Edition {
        let newest = self.statements.newest(&self.cx.shared, prepared);
        if newest.description != prepared.description {
            return Edition::Outdated(newest);
        }
        match newest.standing.is_doubted() {
            true => Edition::Doubted(newest),
            false => Edition::Fits,
        }
    }

    #[inline(never)]
    fn edition_of_batch(&mut self, key: NodeRequestKey) -> Edition {
        let Some(query) = self.requests.query(key) else {
            return Edition::Fits;
        };
        let view = query
            .content()
            .map(|of| BatchView::parse(of, query.version));
        let Some(Ok(view)) = view else {
            return Edition::Fits;
        };
        let client = self.requests.nodes.get(key).and_then(|of| of.client());
        let client = client.and_then(|client| self.requests.clients.get(client));
        let session = client.map(|client| client.caller().session);
        let mut doubted = None;
        for child in &view.children {
            let BatchChild::Prepared(id, _) = child else {
                continue;
            };
            let Some(known) = self.statements.prepared(&self.cx.shared, id) else {
                continue;
            };
            if session.is_some_and(|session| self.statements.is_outdated(session, &known)) {
                return Edition::Outdated(known);
            }
            if doubted.is_none() && known.standing.is_doubted() {
                doubted = Some(known);
            }
        }
        doubted.map_or(Edition::Fits, Edition::Doubted)
    }
}

/// How a node request's prepared statements fit to what nodes say of them.
enum Edition {
    Fits,
    /// The schema has changed: its node is to be asked again first.
    Doubted(Arc<Prepared>),
    /// Its client must prepare this one again.
    Outdated(Arc<Prepared>),
}

#[cfg(test)]
mod tests;
