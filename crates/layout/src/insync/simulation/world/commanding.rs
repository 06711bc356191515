//! The table itself, and the command that lets it and its copies change hands.

use super::super::super::list::{State, TABLE};
use super::super::super::members::Members;
use super::super::handover::{Deed, Level, Seen, Stage, Switch, Table, Task};
use super::super::proxy::{Ask, Proxy};
use super::super::{Bug, SECOND};
use super::{Event, Host, LAST_REQUEST, World};

impl World {
    /// As much as the command is to do is done.
    pub(super) fn has_ended(&self) -> bool {
        let stage = self.catalogue.standing().stage;
        match self.setup.task {
            None => true,
            Some(Task::Create) => stage == Stage::InUse,
            Some(Task::Drop | Task::CreateAndDrop) => stage == Stage::Dropped,
        }
    }

    /// All has become quiet.
    pub(super) fn is_over(&self) -> bool {
        let quiet = |host: &Host| host.proxy.as_ref().is_some_and(Proxy::is_quiet);
        let in_sync = self.catalogue.copies().in_sync().len();
        let is_dropped = self.catalogue.standing().stage == Stage::Dropped;
        let present = match is_dropped {
            true => 1,
            false => self.setup.copies - usize::from(self.lost.is_some()),
        };
        // What was sent late has arrived by then.
        let last_asked = self.last_asked.max(self.calm + LAST_REQUEST);
        self.now > last_asked + self.setup.timing.late_us
            && self.has_ended()
            && in_sync == present
            && self.hosts.iter().all(quiet)
            // Where there are no lists any more nobody looks at what proxies have left.
            && (is_dropped || !self.catalogue.has_bits())
    }

    /// It looks at what there is, and goes on.
    pub(super) fn command(&mut self) {
        let delay = self.between(20_000, 100_000);
        self.plan(delay, Event::Command);
        let unanswered = |at: u64| self.now < at + SECOND;
        let Some(task) = self
            .setup
            .task
            .filter(|_| self.command.down_until <= self.now)
        else {
            return;
        };
        if self.command.asked_at.is_some_and(unanswered) {
            return;
        }
        let list = *self.catalogue.copies();
        let in_sync = list.in_sync().minus(Members::of(TABLE));
        let is_up = |copy: &usize| self.nodes[*copy].up && self.frozen_until[*copy] <= self.now;
        let up: Members = in_sync.iter().filter(is_up).collect();
        let is_restarted = |copy: &usize| self.nodes[*copy].boot != list.boot(*copy);
        let restarted: Members = up.iter().filter(is_restarted).collect();
        let seen = Seen {
            standing: self.catalogue.standing(),
            list,
            restarted,
            away: in_sync.minus(up),
            copies: self.nodes.len(),
            has_leftovers: self.catalogue.has_leftovers(),
        };
        let bug = self.setup.bug;
        let left_out = |wait| bug == Some(Bug::LeftOut(wait));
        let is_hasty = bug == Some(Bug::TableTakenOutBeforeCopiesAreInSync);
        let timing = self.setup.timing;
        let now = self.now;
        let deed = self
            .command
            .next(task, &seen, &timing, left_out, is_hasty, now);
        let Some(deed) = deed else {
            return;
        };
        let switch = match deed {
            Deed::Switch(switch) => switch,
            Deed::Empty(switch) => {
                self.table.empty();
                switch
            }
            Deed::Fill(switch) => {
                self.table.empty();
                let sound = up.minus(restarted).iter().next();
                if let Some(copy) = sound {
                    self.table.fill(self.nodes[copy].cells());
                }
                switch
            }
            Deed::DropCopies(switch) => {
                self.nodes.iter_mut().for_each(|node| node.empty());
                switch
            }
        };
        self.command.asked_at = Some(self.now);
        if let Some((delay, answered)) = self.way_to_catalogue() {
            self.plan(delay, Event::AtCatalogueOfCommand { switch, answered });
        }
    }

    pub(super) fn switch(&mut self, switch: &Switch, answered: bool) {
        let (before, list) = (self.catalogue.standing(), *self.catalogue.copies());
        self.catalogue.switch(switch);
        let after = self.catalogue.standing();
        if before != after {
            self.note(|| format!("the command is at {:?}: {:?}", after.stage, switch.list));
            let left = list.in_sync().minus(switch.list.in_sync());
            let counts = &mut self.checks.counts;
            counts.table_left += u64::from(left.contains(TABLE));
            counts.copies_left += u64::from(after.stage == Stage::Alone);
            self.keep_from_somebody();
        }
        if answered {
            self.command.asked_at = None;
        }
    }

    /// Some proxy does not hear what the command has changed: for longer than its leases, or than all that follows takes.
    /// Also when nothing else fails any more, because by then many commands have not come to their last steps.
    fn keep_from_somebody(&mut self) {
        if self.chance(2) {
            return;
        }
        let host = self.rng.below(self.hosts.len());
        let until = self.now
            + match self.is_faulty() && self.chance(2) {
                true => self.between(5 * SECOND, 15 * SECOND),
                false => self.between(300_000, 5 * SECOND),
            };
        self.hosts[host].hears_nothing_until = until;
        self.note(|| format!("host {host} does not hear of it until {until}"));
    }

    pub(super) fn at_table(&mut self, from: (usize, usize), token: u64, ask: Ask, sent: u64) {
        let age = self.now - sent;
        if age > self.setup.timing.late_us {
            return;
        }
        let answer = match ask {
            Ask::Read(key) => self.table.read(key, Level::Quorum, self.now, &mut self.rng),
            Ask::ReadAll(key) => self.table.read(key, Level::All, self.now, &mut self.rng),
            Ask::Write(key, cell) | Ask::WriteAll(key, cell) => {
                let level = match ask {
                    Ask::WriteAll(..) => Level::All,
                    _ => Level::Quorum,
                };
                let (takers, is_enough) = self.table.takers(level, self.now, &mut self.rng);
                for replica in &takers {
                    self.table.write(*replica, key, cell);
                }
                for replica in Table::others(&takers) {
                    // A hint, or one that is lost.
                    if self.chance(2) {
                        let delay = self.between(0, self.setup.timing.late_us - age);
                        self.plan(delay, Event::AtReplica { replica, key, cell });
                    }
                }
                is_enough.then_some(cell)
            }
        };
        self.note(|| format!("the table for {}: {ask:?} {answer:?}", from.1));
        if let Some(cell) = answer
            && let Some(delay) = self.delay_to_copy(from.0, TABLE)
        {
            let event = Event::FromCopy {
                to: from,
                token,
                boot: 0,
                cell,
            };
            self.plan(delay, event);
        }
    }

    /// While the table is in sync, or there are no copies, it has all that was acknowledged.
    pub(super) fn look_at_table(&self) -> Result<(), String> {
        let is_in_sync = self.catalogue.copies().state(TABLE) == State::InSync;
        match self.setup.task.filter(|_| is_in_sync) {
            Some(_) => self.checks.of_table(&self.table.certain()),
            None => Ok(()),
        }
    }
}
