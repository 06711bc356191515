//! Starting nodes and waiting until they are ready.

use std::time::Instant;

use super::handle::Cluster;
use crate::error::Result;
use crate::process::RunState;

impl Cluster {
    /// Starts node `number` again and waits until it is ready.
    pub fn start(&mut self, number: u16) -> Result<()> {
        self.start_many(&[number])
    }

    /// Starts several nodes in parallel and waits until they are ready. Frozen ones are resumed.
    pub fn start_many(&mut self, numbers: &[u16]) -> Result<()> {
        let begin = Instant::now();
        let mut to_start = Vec::new();
        for &number in numbers {
            self.second_tries.remove(&number);
            match self.run_state(number)? {
                RunState::Gone => to_start.push(number),
                RunState::Paused => self.resume(number)?,
                RunState::Running => {}
            }
        }
        // An empty ring begins with one node; the others then start in parallel, since their tokens
        // are known and there is nothing to stream.
        if let Some((first, rest)) = to_start.split_first()
            && !self.state.nodes.iter().any(|node| node.joined)
        {
            self.say_starting(&[*first])?;
            self.spawn(*first)?;
            self.wait_listening(*first)?;
            to_start = rest.to_vec();
        }
        self.say_starting(&to_start)?;
        for number in to_start {
            self.spawn(number)?;
        }
        self.wait_ready(numbers)?;
        self.say_ready(numbers.len(), begin);
        Ok(())
    }

    fn say_starting(&self, numbers: &[u16]) -> Result<()> {
        for &number in numbers {
            let node = self.state.node(number)?;
            let address = self.state.native_address(node);
            self.say(format!("starting node {number} at {address}"));
        }
        Ok(())
    }

    pub(super) fn say_ready(&self, nodes: usize, begin: Instant) {
        let noun = if nodes == 1 { "node" } else { "nodes" };
        let seconds = begin.elapsed().as_secs_f64();
        self.say(format!("{nodes} {noun} ready after {seconds:.1} s"));
    }
}
