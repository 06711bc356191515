//! Conditional writes of one partition one after another, over all workers of the proxy.

use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use helenus_policy::turns::{Entered, Left, TurnLimits, Turns};
use helenus_wire::RowsView;
use rustc_hash::FxHasher;

use crate::config::Aggregation;
use crate::engine::{ClientRequestKey, Engine, SessionKey};
use crate::output::{Alarm, Output};
use crate::shared::WorkerMessage;
use crate::stats::add;

const WAITING_MAX: usize = 4_096;
const KEYS_MAX: usize = 65_536;

/// A client connection: its worker and its session.
type Owner = (usize, SessionKey);

/// A conditional write that wants its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub worker: usize,
    pub request: ClientRequestKey,
    pub partition: u64,
}

/// A request's part in taking turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It waits for its turn on this partition.
    Waits(u64),
    Has(u64),
}

/// Who may write conditionally, for all workers. Its lock is taken only for conditional writes, each
/// of which costs four round trips between nodes.
pub struct SharedTurns {
    turns: Mutex<Turns<u64, Owner, Write>>,
    origin: Instant,
}

impl SharedTurns {
    pub(crate) fn new(settings: &Aggregation, now: Instant) -> SharedTurns {
        SharedTurns {
            turns: Mutex::new(Turns::new(limits(settings))),
            origin: now,
        }
    }

    /// Puts other bounds in force, also for who waits already.
    pub fn adopt(&self, settings: &Aggregation) {
        self.with(self.origin, |turns, _| turns.set_limits(limits(settings)));
    }

    fn with<R>(
        &self,
        now: Instant,
        act: impl FnOnce(&mut Turns<u64, Owner, Write>, u64) -> R,
    ) -> R {
        let now_us = now.saturating_duration_since(self.origin).as_micros() as u64;
        match self.turns.lock() {
            Ok(mut turns) => act(&mut turns, now_us),
            Err(poisoned) => act(&mut poisoned.into_inner(), now_us),
        }
    }

    /// Conditional writes that wait.
    pub fn waiting(&self) -> usize {
        self.with(self.origin, |turns, _| turns.waiting())
    }

    /// Partitions that some conditional write has, or is kept for.
    pub fn partitions(&self) -> usize {
        self.with(self.origin, |turns, _| turns.keys())
    }
}

fn limits(settings: &Aggregation) -> TurnLimits {
    TurnLimits {
        wait_max_us: settings.lwt_wait_max_ms * 1_000,
        grace_us: settings.lwt_grace_ms * 1_000,
        waiting_max: WAITING_MAX,
        keys_max: KEYS_MAX,
    }
}

/// Names a partition; two that share a name would only wait for each other.
pub(crate) fn partition_name(keyspace: &str, table: &str, key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    (keyspace, table, key).hash(&mut hasher);
    hasher.finish()
}

/// Whether the answer to a conditional write says that its condition did not hold.
pub(crate) fn is_not_applied(content: &[u8]) -> bool {
    let Ok(view) = RowsView::parse(content) else {
        return false;
    };
    let first_is_applied = view.columns.first().is_some_and(|c| c.name == "[applied]");
    first_is_applied
        && matches!(view.rows().next(), Some(Ok(row)) if row.first() == Some(&Some(&[0][..])))
}

impl Engine {
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
    pub(crate) fn leave_turn(&mut self, partition: u64, condition_failed: bool) {
        let now = self.cx.now;
        let mut condition_failed = condition_failed;
        loop {
            let left =
                |t: &mut Turns<u64, Owner, Write>, us| t.leave(partition, condition_failed, us);
            match self.cx.shared.turns.with(now, left) {
                Left::Idle => return,
                Left::Next(write) if self.grant(write, true) => return,
                // Its worker has ended: the turn is left in its place.
                Left::Next(_) => condition_failed = false,
                Left::Grace { .. } => return self.begin_grace(partition),
            }
        }
    }

    fn begin_grace(&mut self, partition: u64) {
        add(&self.cx.shared.stats.global.lwt_graces, 1);
        let grace = Duration::from_millis(self.cx.shared.config.aggregation.lwt_grace_ms);
        let alarm = Output::Alarm(grace, Alarm::Grace(partition));
        self.cx.ask(alarm);
    }

    pub(crate) fn end_grace(&mut self, partition: u64) {
        if let Some(write) = self
            .cx
            .shared
            .turns
            .with(self.cx.now, |t, now| t.end_grace(partition, now))
            && !self.grant(write, true)
        {
            self.leave_turn(partition, false);
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
            self.let_go_on(write, with_turn);
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
            _ if with_turn => self.leave_turn(write.partition, false),
            _ => {}
        }
    }
}
