//! Answers what somebody wants to know of this worker.

use crate::features;
use crate::output::Output;
use crate::pipeline::engine::Engine;
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
            Wanted::Pools { max } => Report::Pools(self.links.list_pools(self.cx.index, max)),
            Wanted::Feature(wanted) => Report::Feature(features::report(self, wanted)),
        };
        self.cx.ask(Output::Report(ticket, Box::new(report)));
    }
}
