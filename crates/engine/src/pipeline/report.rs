//! Answers what somebody wants to know of this worker.

use crate::engine::Engine;
use crate::output::Output;
use crate::worker_status::{Report, Wanted};

#[cfg(test)]
mod tests;

impl Engine {
    pub(crate) fn report(&mut self, ticket: u64, wanted: &Wanted) {
        let report = match *wanted {
            Wanted::Clients { by, max } => {
                let (rows, all) = self.clients.list(&self.cx, by, max);
                Report::Clients(rows, all)
            }
            Wanted::Kill(key) => {
                let is_there = self.clients.is_there(key);
                self.clients.kill(&mut self.cx, key);
                Report::Killed(is_there)
            }
            Wanted::CloseIdle(idle) => {
                Report::IdleClosed(self.clients.close_idle(&mut self.cx, idle))
            }
            Wanted::Slow { max } => {
                let (slow, left_out) = self.records.slow(max);
                Report::Slow(slow, left_out)
            }
            Wanted::Errors { max } => {
                let (recent, last) = self.records.errors(max);
                Report::Errors(recent, last)
            }
            Wanted::Statements { max } => Report::Statements(self.records.statements(max)),
            Wanted::Pools { max } => Report::Pools(self.links.list_pools(self.cx.index, max)),
        };
        self.cx.ask(Output::Report(ticket, Box::new(report)));
    }
}
