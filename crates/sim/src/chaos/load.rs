//! How busy nodes are: threads with a queue before them, and work that costs what it costs in
//! [`crate::scheduling`], times a factor, so that the few clients of a run are enough to make a node slow.
//!
//! A thread has a processor to itself here, and a coordinator reads all that it is asked for.

use std::sync::LazyLock;

use helenus_wire::Header;

use super::coverage::Kind;
use crate::dice::Dice;
use crate::scheduling::Calibration;
use crate::threads::Threads;

static COSTS: LazyLock<Calibration> = LazyLock::new(Calibration::committed);

/// A message that a node has got.
#[derive(Debug)]
pub(super) struct Job {
    pub connection: usize,
    pub header: Header,
    pub body: Vec<u8>,
}

/// The threads of a node.
#[derive(Debug)]
pub(super) struct Load {
    threads: Threads<Box<Job>>,
    number: u32,
    slower: f64,
    /// Grows when the node begins anew: what it was at work on is lost.
    pub life: u32,
}

impl Load {
    /// `slower`: how many times what a real node takes for anything.
    pub(super) fn new(number: u32, slower: f64) -> Load {
        Load {
            threads: Threads::new(number),
            number,
            slower,
            life: 0,
        }
    }

    /// A message has come: it is returned if a thread takes it at once.
    pub(super) fn enter(&mut self, job: Box<Job>) -> Option<Box<Job>> {
        self.threads.enter(job)
    }

    /// A thread is done: what it takes next.
    pub(super) fn leave(&mut self) -> Option<Box<Job>> {
        self.threads.leave()
    }

    pub(super) fn restart(&mut self) {
        self.threads = Threads::new(self.number);
        self.life += 1;
    }

    /// How long a thread takes for a message of this kind, which has to do with so many rows.
    pub(super) fn work_us(&self, kind: Option<Kind>, rows: usize, dice: &mut Dice) -> u64 {
        let costs = &*COSTS;
        let range_us = costs.range_us + rows as f64 * (costs.row_us + costs.answer_row_us);
        let read_us = match kind {
            None | Some(Kind::Use | Kind::Alter) => 0.0,
            Some(Kind::Prepare) => costs.prepare_us,
            Some(kind) if is_range(kind) => range_us,
            Some(_) => costs.point_us,
        };
        let spread = dice.log_normal(costs.sigma);
        ((costs.coordinate_us + read_us) * self.slower * spread) as u64
    }
}

fn is_range(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Page | Kind::PagePart | Kind::Stretch | Kind::Count | Kind::CountPart
    )
}

#[cfg(test)]
mod tests {
    use helenus_wire::Opcode;

    use super::*;

    #[test]
    fn a_node_that_begins_anew_has_nothing_to_do() {
        let job = || {
            let header = Header {
                version: 5,
                response: false,
                flags: 0,
                stream: 1,
                opcode: Opcode::Options as u8,
                body_len: 0,
            };
            Box::new(Job {
                connection: 1,
                header,
                body: Vec::new(),
            })
        };
        let mut load = Load::new(1, 50.0);
        assert!(load.enter(job()).is_some());
        assert!(load.enter(job()).is_none(), "it waits");
        let least_us = COSTS.coordinate_us as u64;
        assert!(load.work_us(None, 0, &mut Dice::new(1)) * 2 > least_us);
        load.restart();
        assert!(load.enter(job()).is_some());
        assert!(load.leave().is_none());
    }
}
