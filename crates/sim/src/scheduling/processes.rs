//! Nodes, proxies and clients as processes, and the machines that they run on.

use super::agenda::{Job, ProcessId};
use super::machine::Machine;
use super::setup::Setup;

#[derive(Clone, Debug)]
pub(super) struct Processes {
    pub nodes: Vec<ProcessId>,
    pub proxies: Vec<ProcessId>,
    pub clients: ProcessId,
}

/// Who shares processors with whom.
pub(super) fn machines(setup: &Setup, proxies: usize) -> (Vec<Machine<Job>>, Processes) {
    let nodes = setup.nodes as usize;
    let all = nodes + proxies + 1;
    let place = |at: usize| match setup.one_machine {
        true => ProcessId {
            machine: 0,
            process: at,
        },
        false => ProcessId {
            machine: at,
            process: 0,
        },
    };
    let machines = match setup.one_machine {
        true => vec![Machine::new(setup.cores, all)],
        false => (0..all)
            .map(|at| match at + 1 == all {
                true => Machine::new(u32::MAX, 1),
                false if at >= nodes => Machine::new(setup.workers, 1),
                false => Machine::new(setup.cores, 1),
            })
            .collect(),
    };
    let processes = Processes {
        nodes: (0..nodes).map(place).collect(),
        proxies: (nodes..nodes + proxies).map(place).collect(),
        clients: place(all - 1),
    };
    (machines, processes)
}
