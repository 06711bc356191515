//! What becomes of a part that has failed.
//!
//! Parts are reads, so they may be sent again: to another owner, and those of an aggregate that have timed
//! out in halves, together with the unsent ones of their size. Parts that have come are kept. If a part
//! still fails, an aggregate fails with its error, as the whole would have; a page is read piece by piece.
//!
//! A part that a node finds invalid may be the fault of the request (a null among its values) or of the
//! parts (a guardrail on token ranges). So the request is sent as it is. Only if the nodes answer that
//! are its parts to blame, and the statement is not read in parts for a while.

use helenus_policy::route::Plan;
use helenus_wire::{ErrorBody, Opcode, code};

use crate::engine::{Engine, RequestKey};
use crate::execution::in_range::table_of;
use crate::execution::scatter_gather::Part;
use crate::execution::token_splits::{AGGREGATE_PARTS_MAX, Stretch};
use crate::stats::add;

/// How often a part is sent again, halving aside.
const RETRIES_MAX: u8 = 2;
/// How often a stretch is halved: what then still takes too long is one partition, most likely.
const HALVED_MAX: u8 = 10;

/// Why a part has no rows.
pub(crate) struct PartFailure<'a> {
    by: FailedBy,
    error: ErrorBody<'a>,
    /// Where it could have gone next.
    untried: Option<Plan>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailedBy {
    Node,
    Proxy,
}

impl<'a> PartFailure<'a> {
    /// A node answered with an error.
    pub(crate) fn of_node(error: ErrorBody<'a>, untried: Option<Plan>) -> Self {
        let by = FailedBy::Node;
        PartFailure { by, error, untried }
    }

    /// Nothing else is to be asked then.
    pub(crate) fn is_of_overload(&self) -> bool {
        self.error.code == code::OVERLOADED
    }

    pub(crate) fn is_unprepared(&self) -> bool {
        self.error.code == code::UNPREPARED
    }

    /// No node answered.
    pub(crate) fn of_proxy(error: ErrorBody<'a>, untried: Option<Plan>) -> Self {
        let by = FailedBy::Proxy;
        PartFailure { by, error, untried }
    }
}

/// What to do about a failed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// Send it to another node.
    Again,
    /// Send its halves.
    Halves,
    /// Send the client's own request, which shows what is to blame.
    AsItIs,
    Nothing,
}

/// `halves`: whether what times out can be halved.
fn remedy(code: i32, retries: u8, halves: bool) -> Remedy {
    match code {
        code::READ_TIMEOUT if halves => Remedy::Halves,
        code::READ_TIMEOUT
        | code::READ_FAILURE
        | code::UNAVAILABLE
        | code::SERVER
        | code::TRUNCATE
        | code::IS_BOOTSTRAPPING
            if retries < RETRIES_MAX =>
        {
            Remedy::Again
        }
        code::INVALID | code::SYNTAX | code::UNPREPARED | code::UNAUTHORIZED | code::CONFIG => {
            Remedy::AsItIs
        }
        // OVERLOADED is never retried.
        _ => Remedy::Nothing,
    }
}

impl Engine {
    /// A part has failed.
    pub(crate) fn on_part_failed(
        &mut self,
        parent: RequestKey,
        index: u16,
        failure: PartFailure<'_>,
    ) {
        let Some((scan, _)) = self.scan_and_learned(parent) else {
            return;
        };
        let folded = scan.is_folded();
        let Some(fan) = scan.fan.as_mut() else { return };
        let room = (fan.parts.len() as u64) < AGGREGATE_PARTS_MAX;
        let Some(part) = fan.parts.get_mut(usize::from(index)) else {
            return;
        };
        let halves = part.stretch().and_then(Stretch::halves);
        let halves = halves.filter(|_| part.halved < HALVED_MAX);
        let code = failure.error.code;
        match remedy(code, part.retries, folded && room && halves.is_some()) {
            Remedy::Again => {
                part.retries += 1;
                self.send_part(parent, usize::from(index), failure.untried);
            }
            Remedy::Halves => self.halve_parts(parent, index.into(), failure.untried),
            Remedy::AsItIs => {
                scan.parts_refused = code != code::UNPREPARED;
                self.note_refused(parent, &failure);
                self.abandon_fan(parent);
            }
            Remedy::Nothing if folded || failure.is_of_overload() => {
                self.fail_parts(parent, &failure)
            }
            Remedy::Nothing => self.abandon_fan(parent),
        }
    }

    /// Sends a part again. `untried`: to these nodes, if there are any.
    fn send_part(&mut self, parent: RequestKey, at: usize, untried: Option<Plan>) {
        let Some(child) = self.insert_part(parent, at, untried) else {
            return self.abandon_fan(parent);
        };
        add(&self.cx.shared.stats.global.scan_parts_retried, 1);
        self.route(child);
    }

    /// A part was too much for a node: its halves are sent instead, and those of all other parts as
    /// large that no node has yet.
    fn halve_parts(&mut self, parent: RequestKey, index: usize, untried: Option<Plan>) {
        let Some(fan) = self.fan(parent) else { return };
        let tokens = |part: &Part| part.stretch().map_or(0, Stretch::tokens);
        let least = fan.parts.get(index).map_or(u64::MAX, tokens);
        let sent = (0..).zip(&fan.parts).take(fan.sent);
        let as_large = sent.filter(|(at, part)| *at != index && tokens(part) >= least);
        let as_large: Vec<(usize, RequestKey)> =
            as_large.map(|(at, part)| (at, part.child())).collect();
        let mut halved = vec![index];
        for (at, child) in as_large {
            if self.request(child).is_some_and(|r| r.waiting.is_some()) {
                self.drop_request(child);
                halved.push(at);
            }
        }
        let Some(fan) = self.fan(parent) else { return };
        let (sent, parts) = (fan.sent, fan.parts.len());
        let unsent = (sent..parts).filter(|at| tokens(&fan.parts[*at]) >= least);
        halved.extend(unsent.collect::<Vec<usize>>());
        for at in &halved {
            let room = (fan.parts.len() as u64) < AGGREGATE_PARTS_MAX;
            let halves = fan.parts[*at].stretch().and_then(Stretch::halves);
            if let Some([first, second]) = halves.filter(|_| room) {
                let halved = fan.parts[*at].halved + 1;
                fan.parts[*at] = Part::half(first, halved);
                fan.push(Part::half(second, halved));
            }
        }
        for at in halved.into_iter().filter(|at| *at < sent) {
            self.send_part(parent, at, untried.filter(|_| at == index));
        }
        self.send_unsent(parent);
    }

    /// A node has refused a part.
    fn note_refused(&mut self, parent: RequestKey, failure: &PartFailure<'_>) {
        let Some(request) = self.request(parent) else {
            return;
        };
        if failure.error.code == code::UNPREPARED
            && let Some(statement) = &request.statement
        {
            statement.forget_range();
        }
        let (keyspace, table) = table_of(request).unwrap_or_default();
        tracing::debug!(
            keyspace,
            table,
            "a node refuses a part of a scan: {}",
            failure.error.message
        );
    }

    /// Tells a client why it gets nothing.
    pub(crate) fn fail_parts(&mut self, key: RequestKey, failure: &PartFailure<'_>) {
        let ErrorBody {
            code,
            message,
            fields,
        } = failure.error;
        let scan = self.scan_and_learned(key).map(|(scan, _)| scan);
        if let Some(fan) = scan.and_then(|scan| scan.fan.take()) {
            self.discard(&fan, 0);
        }
        if failure.by == FailedBy::Proxy {
            return self.fail(key, code, message, fields);
        }
        let mut body = Vec::with_capacity(message.len() + fields.len() + 8);
        failure.error.write(&mut body);
        let version = self.cx.snapshot.version;
        self.answer_clients(key, Opcode::Error, 0, &body[..], version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALVES: bool = true;

    #[test]
    fn what_times_out_is_halved_while_it_can_be() {
        assert_eq!(remedy(code::READ_TIMEOUT, 0, HALVES), Remedy::Halves);
        assert_eq!(remedy(code::READ_TIMEOUT, 9, HALVES), Remedy::Halves);
        assert_eq!(remedy(code::READ_TIMEOUT, 0, !HALVES), Remedy::Again);
    }

    #[test]
    fn what_fails_is_sent_again_a_few_times() {
        for code in [
            code::READ_TIMEOUT,
            code::READ_FAILURE,
            code::UNAVAILABLE,
            code::SERVER,
        ] {
            assert_eq!(remedy(code, RETRIES_MAX - 1, !HALVES), Remedy::Again);
            assert_eq!(remedy(code, RETRIES_MAX, !HALVES), Remedy::Nothing);
        }
    }

    #[test]
    fn what_is_overloaded_is_left_alone_and_what_is_invalid_is_sent_as_it_is() {
        assert_eq!(remedy(code::OVERLOADED, 0, HALVES), Remedy::Nothing);
        for code in [code::INVALID, code::SYNTAX, code::UNAUTHORIZED] {
            assert_eq!(remedy(code, 0, HALVES), Remedy::AsItIs);
        }
    }
}
