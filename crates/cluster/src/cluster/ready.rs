//! When a node is ready: it answers clients, knows every node, and reaches every node.
//!
//! Asked over the native protocol, because that is what clients will do; logs are only for people.

use std::thread;
use std::time::{Duration, Instant};

use super::handle::Cluster;
use crate::cql::{Connection, Consistency};
use crate::error::{Error, Result};
use crate::node::{ended_by_chance, log_tail};
use crate::process::RunState;

const ASK_PATIENCE: Duration = Duration::from_secs(10);
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Pause before a node that ended by chance is started again.
const CHANCE_PAUSE: Duration = Duration::from_secs(3);

/// How many other nodes a node knows with their tokens.
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

    /// Waits until node `number` listens to clients: enough for others to join by it. With
    /// passwords on nobody can log in yet, because the first role waits for a majority.
    pub(super) fn wait_listening(&mut self, number: u16) -> Result<()> {
        let address = self.address(number)?;
        self.wait_for(number, &[number], |cluster| {
            Connection::greet(address, &cluster.access, ASK_PATIENCE).map(drop)
        })?;
        self.note_joined(number)
    }

    /// Tries `question` about node `number` until it succeeds, time is up, or any of `numbers` ends.
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
            // A node may die while another one is waited for.
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

    /// A node that gave up is started once more if only chance was against it; true if one was.
    fn check_alive(&mut self, numbers: &[u16]) -> Result<bool> {
        let mut restarted = false;
        for &number in numbers {
            // A node that has given up may take minutes to end while its peers do not answer.
            if !self.second_tries.contains(&number)
                && let Some(why) = ended_by_chance(&self.dir, number)
            {
                self.second_tries.insert(number);
                self.say(format!(
                    "node {number} gave up ({why}); starting it once more"
                ));
                self.kill(number)?;
                thread::sleep(CHANCE_PAUSE);
                self.spawn(number)?;
                restarted = true;
            } else if self.run_state(number)? == RunState::Gone {
                return Err(self.failed(number, "ended instead of getting ready".into()));
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

    /// One round of questions to node `number`. Nodes that were never started, or are stopped on
    /// purpose, are not expected to be known as alive.
    fn ask(&self, number: u16) -> Result<()> {
        let address = self.address(number)?;
        let mut connection = Connection::open(address, &self.access, ASK_PATIENCE)?;
        let running = self.running().len();
        let expected = self
            .state
            .nodes
            .iter()
            .filter(|node| node.process.is_some())
            .count();
        let known = peers(&mut connection)? + 1;
        if known != expected {
            return Err(Error::Cql(format!("it knows {known} of {expected} nodes")));
        }
        // Reading a table of all replicas over the whole ring succeeds only if this node holds all
        // others for alive and reaches them.
        let replicas = usize::from(self.state.spec.nodes.min(3));
        if running == self.state.nodes.len() && running >= replicas {
            connection.query("SELECT role FROM system_auth.roles", Consistency::All)?;
        }
        Ok(())
    }
}
