//! Starts everything and measures the back ends in turns, so that whatever else the machine does
//! meets all of them alike.

use std::net::SocketAddr;

use anyhow::Result;
use serde::Serialize;

use crate::Plan;
use crate::back_end::Kind;
use crate::client::{Load, Slice};
use crate::counts::Calls;
use crate::process::{Process, softirq_cpu_us};
use crate::relay::LINKS;
use crate::report;

const WARM_MS: u64 = 300;

/// What a back end did in one slice.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub slice: Slice,
    pub cpu_us: Cpu,
    pub calls: Calls,
}

/// CPU time in microseconds, by who used it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cpu {
    pub relay: u64,
    pub client: u64,
    pub nodes: u64,
    /// The kernel's own threads for packets: work of the trial that counts for none of the above.
    pub softirq: u64,
}

impl Cpu {
    fn now(relay: &Process, client: &Process, nodes: &[Process]) -> Result<Cpu> {
        Ok(Cpu {
            relay: relay.cpu_us()?,
            client: client.cpu_us()?,
            nodes: nodes.iter().map(Process::cpu_us).sum::<Result<u64>>()?,
            softirq: softirq_cpu_us(),
        })
    }

    fn since(&self, earlier: &Cpu) -> Cpu {
        Cpu {
            relay: self.relay - earlier.relay,
            client: self.client - earlier.client,
            nodes: self.nodes - earlier.nodes,
            softirq: self.softirq - earlier.softirq,
        }
    }

    pub fn total(&self) -> u64 {
        self.relay + self.client + self.nodes + self.softirq
    }
}

/// All slices of one back end under one load, in the order of the rounds.
#[derive(Debug, Serialize)]
pub struct Cell {
    pub load: Load,
    pub back_end: Kind,
    pub slices: Vec<Measured>,
}

struct Arm {
    kind: Kind,
    relay: Process,
    address: String,
}

pub fn run(plan: Plan) -> Result<()> {
    let mut nodes = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..LINKS {
        let mut node = Process::start(&["node"])?;
        addresses.push(node.hear::<SocketAddr>()?.to_string());
        nodes.push(node);
    }
    let addresses = addresses.join(",");
    let mut arms = Vec::new();
    for kind in &plan.back_ends {
        let args = ["relay", "--back-end", &kind.name(), "--nodes", &addresses];
        let mut relay = Process::start(&args)?;
        let address = relay.hear::<SocketAddr>()?.to_string();
        arms.push(Arm {
            kind: *kind,
            relay,
            address,
        });
    }
    let mut cells = Vec::new();
    for load in &plan.loads {
        eprintln!("{load} ...");
        cells.extend(measure(&plan, &nodes, &mut arms, *load)?);
    }
    report::print(&plan, &cells);
    if let Some(path) = &plan.json {
        report::write_json(path, &plan, &cells)?;
    }
    Ok(())
}

fn measure(plan: &Plan, nodes: &[Process], arms: &mut [Arm], load: Load) -> Result<Vec<Cell>> {
    let text = load.to_string();
    let mut clients = Vec::new();
    let mut cells = Vec::new();
    for arm in arms.iter() {
        let args = ["client", "--relay", &arm.address, "--load", &text];
        let mut client = Process::start(&args)?;
        client.ask::<Slice>(&WARM_MS.to_string())?;
        clients.push(client);
        cells.push(Cell {
            load,
            back_end: arm.kind,
            slices: Vec::new(),
        });
    }
    for round in 0..plan.slices {
        let mut order: Vec<usize> = (0..arms.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let relay = &mut arms[at].relay;
            let client = &mut clients[at];
            let calls = relay.ask::<Calls>("")?;
            let cpu = Cpu::now(relay, client, nodes)?;
            let slice = client.ask(&plan.slice_ms.to_string())?;
            let cpu_us = Cpu::now(relay, client, nodes)?.since(&cpu);
            let calls = relay.ask::<Calls>("")?.since(&calls);
            cells[at].slices.push(Measured {
                slice,
                cpu_us,
                calls,
            });
        }
    }
    Ok(cells)
}
