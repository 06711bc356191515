//! Requests at the gates: reads that join others, conditional writes that take turns.

use helenus_policy::turns::{Condition, Entered, Left, Turns};

use crate::backlog::Work;
use crate::engine::Engine;
use crate::features;
use crate::features::coalesce::{Found, Read, Ticket};
use crate::features::lwt_turns::queue::{Owner, Turn, Write};
use crate::keys::{ClientRequestKey, NodeRequestKey};
use crate::pipeline::node_request::Stage;
use crate::pipeline::request::Caller;
use crate::shared::WorkerMessage;
use crate::statement::prepared::Statement;
use crate::stats::add;

/// How a read goes on.
pub(crate) enum Sharing {
    /// It has joined this one.
    Joined(ClientRequestKey),
    /// As a request of its own.
    Alone(Option<Ticket>),
}

impl Engine {
    /// Lets a read join an identical one that has not left yet.
    pub(crate) fn share(&mut self, statement: Option<&Statement>, read: &Read<'_>) -> Sharing {
        let (at, candidates) = match self.coalescing.find(statement, read) {
            Found::Nothing => return Sharing::Alone(None),
            Found::Bucket(at, candidates) => (at, candidates),
        };
        for candidate in candidates.into_iter().flatten() {
            if self.can_join(candidate) && self.join(candidate, read) {
                return Sharing::Joined(candidate);
            }
        }
        Sharing::Alone(Some(self.coalescing.ticket(at)))
    }

    /// Notes a request that goes on alone; true if it must wait for an identical one to come back.
    pub(crate) fn note_shared(&mut self, request: ClientRequestKey, ticket: Ticket) -> bool {
        let parked = self.coalescing.enter(self.cx.now, request, ticket);
        add(&self.cx.shared.stats.global.reads_parked, u64::from(parked));
        parked
    }

    /// Whether a request is still in the proxy.
    fn can_join(&self, key: ClientRequestKey) -> bool {
        let Some(request) = self.requests.clients.get(key) else {
            return false;
        };
        if request.execution.has_rows() {
            return false;
        }
        if matches!(request.ticket, Some(Ticket::Parked(_))) {
            return true;
        }
        // Any attempt may be the one whose answer counts.
        let (whole, hedge) = (request.execution.whole(), request.execution.hedge());
        let is_here = |attempt| self.is_here(attempt);
        whole.is_some_and(is_here) && hedge.is_none_or(is_here)
    }

    /// Whether a node request is known not to have left the proxy.
    fn is_here(&self, key: NodeRequestKey) -> bool {
        match self.requests.nodes.get(key).map(|request| &request.stage) {
            Some(Stage::Queued(_)) => true,
            Some(Stage::InFlight(_, flight)) => !self.links.has_left(flight),
            Some(Stage::Unplaced | Stage::Admitted(_)) | None => false,
        }
    }

    fn join(&mut self, key: ClientRequestKey, read: &Read<'_>) -> bool {
        let started = self.cx.now;
        let request = self.requests.clients.get_mut(key);
        let request = request.filter(|request| {
            read.same_as(request.asked()) && features::may_join(&self.cx, &request.features)
        });
        let Some(request) = request else {
            return false;
        };
        request.followers.push(Caller {
            session: read.session,
            stream: read.header.stream,
            started,
        });
        self.clients.in_flight_began(read.session);
        add(&self.cx.shared.stats.global.reads_shared, 1);
        true
    }

    /// A request with a ticket has ended: who waits for it may go.
    pub(crate) fn leave_share(&mut self, request: ClientRequestKey, ticket: Ticket) {
        if let Some(parked) = self.coalescing.leave(request, ticket) {
            self.unpark(parked);
        }
    }

    /// Sends the reads that have waited for too long.
    pub(crate) fn unpark_late(&mut self) {
        let requests = &self.requests.clients;
        let is_parked = |key: ClientRequestKey| {
            let ticket = requests.get(key).map(|request| request.ticket);
            matches!(ticket, Some(Some(Ticket::Parked(_))))
        };
        for key in self.coalescing.take_late(self.cx.now, is_parked) {
            self.unpark(key);
        }
    }

    fn unpark(&mut self, key: ClientRequestKey) {
        let Some(request) = self.requests.clients.get_mut(key) else {
            return;
        };
        let Some(Ticket::Parked(at)) = request.ticket else {
            return;
        };
        request.ticket = Some(self.coalescing.unpark(key, at));
        self.start(key);
    }

    /// A conditional write comes to its partition; false if it must wait for its turn.
    pub(crate) fn take_turn(&mut self, key: ClientRequestKey, partition: u64) -> bool {
        let worker = self.cx.index;
        let Some(request) = self.requests.clients.get(key) else {
            return true;
        };
        let owner = (worker, request.caller.session);
        let write = Write {
            worker,
            request: key,
            partition,
        };
        let entered = self
            .cx
            .shared
            .turns
            .with(self.cx.now, |t, now| t.enter(partition, owner, write, now));
        let Some(request) = self.requests.clients.get_mut(key) else {
            return true;
        };
        match entered {
            Entered::Run(_) => request.turn = Some(Turn::Has(partition)),
            Entered::NoTurn(_) => {}
            Entered::Waits => {
                request.turn = Some(Turn::Waits(partition));
                add(&self.cx.shared.stats.global.lwt_waited, 1);
                return false;
            }
        }
        true
    }

    /// A request that had its turn has ended.
    pub(crate) fn leave_turn(&mut self, partition: u64, mut condition: Condition) {
        let now = self.cx.now;
        loop {
            let left = |t: &mut Turns<u64, Owner, Write>, us| t.leave(partition, condition, us);
            match self.cx.shared.turns.with(now, left) {
                Left::Idle => return,
                Left::Next(write) if self.grant(write, true) => return,
                // Its worker has ended: the turn is left in its place.
                Left::Next(_) => condition = Condition::Unknown,
                Left::Grace { until_us } => return self.begin_grace(partition, until_us),
                Left::Aside(writes) => return self.stand_aside(writes),
            }
        }
    }

    /// Turns have proved of no use on a partition.
    fn stand_aside(&mut self, writes: Vec<Write>) {
        add(&self.cx.shared.stats.global.lwt_stood_aside, 1);
        for write in writes {
            self.grant(write, false);
        }
    }

    fn begin_grace(&mut self, partition: u64, until_us: u64) {
        add(&self.cx.shared.stats.global.lwt_graces, 1);
        let end = self.cx.shared.turns.instant(until_us);
        self.graces.begin(end, partition);
    }

    /// Ends the graces that are over.
    pub(crate) fn end_graces(&mut self) {
        while let Some(partition) = self.graces.take_over(self.cx.now) {
            self.end_grace(partition);
        }
    }

    fn end_grace(&mut self, partition: u64) {
        if let Some(write) = self
            .cx
            .shared
            .turns
            .with(self.cx.now, |t, now| t.end_grace(partition, now))
            && !self.grant(write, true)
        {
            self.leave_turn(partition, Condition::Unknown);
        }
    }

    /// Lets go who has waited for too long.
    pub(crate) fn end_late_turns(&mut self) {
        for write in self.cx.shared.turns.with(self.cx.now, Turns::give_up) {
            add(&self.cx.shared.stats.global.lwt_gave_up, 1);
            self.grant(write, false);
        }
    }

    /// Tells a request's worker that it may go on, with its turn or without; false if that has ended.
    fn grant(&mut self, write: Write, with_turn: bool) -> bool {
        if write.worker == self.cx.index {
            self.backlog.push(Work::Granted { write, with_turn });
            return true;
        }
        let message = WorkerMessage::Turn { write, with_turn };
        self.cx.tell(write.worker, message)
    }

    pub(crate) fn on_granted(&mut self, write: Write, with_turn: bool) {
        let waits = Some(Turn::Waits(write.partition));
        match self.requests.clients.get_mut(write.request) {
            Some(request) if request.turn == waits => {
                request.turn = with_turn.then_some(Turn::Has(write.partition));
                self.start(write.request);
            }
            // It has been given up meanwhile.
            _ if with_turn => self.leave_turn(write.partition, Condition::Unknown),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
