//! When a node is ready: it answers clients, knows every node, and reaches every node.
//!
//! Checked over the native protocol, because that is what clients use; logs are only for humans.

use std::thread;
use std::time::{Duration, Instant};

use super::handle::Cluster;
use crate::cql::{Connection, Consistency};
use crate::error::{Error, Result};
use crate::node::{log_tail, transient_failure};
use crate::process::RunState;
use crate::state::NodeState;

const ASK_PATIENCE: Duration = Duration::from_secs(10);
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause before restarting a node that failed for a transient reason.
const CHANCE_PAUSE: Duration = Duration::from_secs(3);

/// Number of other nodes a node knows, with their tokens.
pub(super) fn peers(connection: &mut Connection) -> Result<usize> {
    let rows = connection.query("SELECT tokens FROM system.peers_v2", Consistency::One)?;
    Ok(rows
        .iter()
        .filter(|row| matches!(row.first(), Some(Some(_))))
        .count())
}

impl Cluster {
    /// Waits until all of `numbers` are ready, or one of them fails, or time is up.
    pub(super) fn wait_ready(&mut self, numbers: &[u16]) -> Result<()> {
        for &number in numbers {
            self.wait_for(number, numbers, |cluster| cluster.ask(number))?;
            self.note_joined(number)?;
        }
        Ok(())
    }

    /// Waits until node `number` accepts clients, which is enough for others to join through it. If
    /// passwords are enabled, no client can log in yet, because creating the first role needs a
    /// majority.
    pub(super) fn wait_listening(&mut self, number: u16) -> Result<()> {
        let address = self.address(number)?;
        self.wait_for(number, &[number], |cluster| {
            Connection::greet(address, &cluster.access, ASK_PATIENCE).map(drop)
        })?;
        self.note_joined(number)
    }

    /// Repeats `question` about node `number` until it succeeds, time is up, or any of `numbers`
    /// exits.
    fn wait_for(
        &mut self,
        number: u16,
        numbers: &[u16],
        question: impl Fn(&Self) -> Result<()>,
    ) -> Result<()> {
        let patience_s = self.state.spec.ready_timeout_s;
        let patience = Duration::from_secs(patience_s);
        let mut end = Instant::now() + patience;
        loop {
            // A node may die while another one is being waited for.
            if self.check_alive(numbers)? {
                end = Instant::now() + patience;
            }
            let Err(error) = question(self) else {
                return Ok(());
            };
            if Instant::now() >= end {
                let what = format!("was not ready after {patience_s} s ({error})");
                return Err(self.failed(number, what));
            }
            thread::sleep(ASK_INTERVAL);
        }
    }

    fn note_joined(&mut self, number: u16) -> Result<()> {
        let node = self.state.node_mut(number)?;
        if !node.joined {
            node.joined = true;
            self.state.save(&self.dir)?;
        }
        Ok(())
    }

    /// Restarts a node that failed, once, if the cause was transient; true if it did.
    fn check_alive(&mut self, numbers: &[u16]) -> Result<bool> {
        let mut restarted = false;
        for &number in numbers {
            // A failed node may take minutes to exit while its peers do not respond.
            if !self.second_tries.contains(&number)
                && let Some(why) = transient_failure(&self.dir, number)
            {
                self.second_tries.insert(number);
                self.say(format!(
                    "node {number} failed to start ({why}); starting it again"
                ));
                self.kill(number)?;
                thread::sleep(CHANCE_PAUSE);
                self.spawn(number)?;
                restarted = true;
            } else if self.run_state(number)? == RunState::Gone {
                return Err(self.failed(number, "exited instead of getting ready".into()));
            }
        }
        Ok(restarted)
    }

    fn failed(&self, node: u16, what: String) -> Error {
        Error::NodeFailed {
            node,
            what,
            log: log_tail(&self.dir, node),
        }
    }

    /// One round of queries to node `number`. Nodes never started, or stopped on purpose, are not
    /// expected to be seen as alive.
    fn ask(&self, number: u16) -> Result<()> {
        let address = self.address(number)?;
        let mut connection = Connection::open(address, &self.access, ASK_PATIENCE)?;
        let running = self.running().len();
        let started = |node: &&NodeState| node.process.is_some();
        let expected = self.state.present().filter(started).count();
        let known = peers(&mut connection)? + 1;
        if known != expected {
            return Err(Error::Cql(format!("it knows {known} of {expected} nodes")));
        }
        // Reading from all replicas over the whole ring succeeds only if this node considers all
        // others alive and reaches them.
        let replicas = usize::from(self.state.spec.nodes.min(3));
        if running == self.state.present().count() && running >= replicas {
            connection.query("SELECT role FROM system_auth.roles", Consistency::All)?;
        }
        Ok(())
    }
}
