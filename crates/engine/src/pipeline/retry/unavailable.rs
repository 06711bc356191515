//! Retries after UNAVAILABLE: the coordinator does not see enough replicas that are alive, and has done nothing.
//!
//! - **Another coordinator** is asked, once, as drivers do when they are connected to nodes: it may see more
//!   replicas than this one, and clients of the proxy have no other to go to.
//! - **While the ring moves**, the request then waits, and is planned anew with what is known by then: from
//!   50 ms to 500 ms each time, for five seconds in all. A node that joins is starved of CPU again and again
//!   and taken for dead for seconds, by some nodes and not by others; as long as it is pending, a write needs
//!   its answer on top of those which its level asks for. That the ring moves is known from the snapshot, and
//!   from an answer that asks for more replicas than the level does.
//!
//! Only what may be sent again after it may have been executed (`pipeline/retry/resendable.rs`): of a batch over several
//! partitions a part may have been written, and of a conditional write all. Parts of reads have further retries (`exec/retry.rs`); a read with a second
//! attempt under way, and one that asks for something else than its client, go on as they would with any error.

use helenus_wire::{Consistency, Reader};

use crate::features;
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Target;
use crate::pipeline::retry::resendable::Loss;
use crate::stats::add;

/// Replicas that a level asks for, whatever the replication is; `None`: that depends on it.
fn required(level: Consistency) -> Option<i32> {
    match level {
        Consistency::ANY | Consistency::ONE | Consistency::LOCAL_ONE => Some(1),
        Consistency(0x0002) => Some(2),
        Consistency(0x0003) => Some(3),
        _ => None,
    }
}

/// True if an UNAVAILABLE asks for more replicas than its level does: some are pending.
fn tells_of_pending(fields: &[u8], owners: usize) -> bool {
    let mut reader = Reader::new(fields);
    let (Ok(level), Ok(asked)) = (reader.u16(), reader.i32()) else {
        return false;
    };
    let level = Consistency(level);
    let majority = i32::try_from(owners / 2 + 1).unwrap_or(i32::MAX);
    let least = match (required(level), level) {
        (Some(least), _) => least,
        // Of the owners that are known, in all data centres: at least as many as of the local ones.
        (None, Consistency::QUORUM | Consistency::LOCAL_QUORUM) if owners > 0 => majority,
        _ => return false,
    };
    asked > least
}

impl Engine {
    /// A coordinator misses replicas for a node request; true if it is sent again, now or later.
    pub(crate) fn try_unavailable_again(&mut self, key: NodeRequestKey, fields: &[u8]) -> bool {
        let Some(client) = self.retried_if_unavailable(key) else {
            return false;
        };
        let now = self.cx.now;
        let Some(of_client) = self.requests.clients.get(client) else {
            return false;
        };
        let owners = of_client.target().owners().len();
        let moves =
            self.pauses.is_ring_moving(now, &self.cx.snapshot) || tells_of_pending(fields, owners);
        // Where a part was to go is not known any more; any node can coordinate it.
        let target = match of_client.execution.whole() == Some(key) {
            true => of_client.target().clone(),
            false => Target::ANY,
        };
        let jitter = self.cx.random();
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return false;
        };
        let is_first = !request.has_missed();
        let has_next = request.untried().is_some_and(|plan| !plan.is_empty());
        let missed = request.miss(now);
        if is_first && has_next {
            let stats = &self.cx.shared.stats.global;
            match request.part() {
                Some(_) => add(&stats.scan_parts_retried, 1),
                None => add(&stats.requests_retried, 1),
            }
            self.route(key);
            return true;
        }
        let Some(pause) = missed.next_pause(now, jitter).filter(|_| moves) else {
            return false;
        };
        missed.begin_pause(now);
        request.set_target(target);
        request.forget_attempts();
        add(&self.cx.shared.stats.global.requests_paused, 1);
        self.pauses.begin(now + pause, key);
        true
    }

    /// Sends node requests again whose pause is over.
    pub(crate) fn end_pauses(&mut self) {
        while let Some(key) = self.pauses.take_over(self.cx.now) {
            if let Some(request) = self.requests.nodes.get_mut(key) {
                request.end_pause(self.cx.now);
            }
            let Some(request) = self.requests.nodes.get(key) else {
                continue;
            };
            match request.whole() {
                Some(client) if self.is_abandoned(key) => self.end_request(client),
                // A part that nobody waits for is dropped on its way.
                _ => self.route(key),
            }
        }
    }

    /// The client request of a node request that may be sent again.
    fn retried_if_unavailable(&self, key: NodeRequestKey) -> Option<ClientRequestKey> {
        let request = self.requests.nodes.get(key)?;
        let client_key = request.client()?;
        let client = self.requests.clients.get(client_key)?;
        let query = self.requests.query_of(request)?;
        let is_repeatable =
            self.requests.may_be_sent_again(key, Loss::Over) && !query.consistency.is_serial();
        let is_as_asked = features::asked(&client.features).is_none();
        let is_alone = !client.execution.is_hedged();
        (is_repeatable && is_alone && is_as_asked).then_some(client_key)
    }
}

#[cfg(test)]
mod tests;
