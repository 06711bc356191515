//! When a node is ready: it answers clients, knows every node, and reaches every node.
//!
//! Checked over the native protocol, because that is what clients use; logs are only for humans.

use std::net::Ipv4Addr;
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
/// How long a node may take to forget others that are gone. It may never do so: one that starts again just
/// after another was replaced can take the dead one for a member, from the gossip of those that have not
/// forgotten it, until it starts once more.
const GHOST_PATIENCE: Duration = Duration::from_secs(45);
/// Pause before restarting a node that failed for a transient reason.
const CHANCE_PAUSE: Duration = Duration::from_secs(3);

/// Addresses of the other nodes that a node knows, with their tokens.
pub(super) fn peers(connection: &mut Connection) -> Result<Vec<Ipv4Addr>> {
    let rows = connection.query("SELECT peer, tokens FROM system.peers_v2", Consistency::One)?;
    let address = |row: &Vec<Option<Vec<u8>>>| match row.as_slice() {
        [Some(peer), Some(_)] => <[u8; 4]>::try_from(peer.as_slice()).ok(),
        _ => None,
    };
    Ok(rows
        .iter()
        .filter_map(address)
        .map(Ipv4Addr::from)
        .collect())
}

impl Cluster {
    /// Waits until all of `numbers` are ready, or one of them fails, or time is up.
    pub(super) fn wait_ready(&mut self, numbers: &[u16]) -> Result<()> {
        for &number in numbers {
            let began = Instant::now();
            self.wait_for(number, numbers, |cluster| cluster.ask(number, began))?;
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
                // It answers, and others do not for it: after a pause while all started, nodes may never mark each
                // other up.
                if matches!(error, Error::Cql(_)) && self.second_tries.insert(number) {
                    self.start_again(number, &error.to_string())?;
                    end = Instant::now() + patience;
                    continue;
                }
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
                self.start_again(number, why)?;
                restarted = true;
            } else if self.run_state(number)? == RunState::Gone {
                return Err(self.failed(number, "exited instead of getting ready".into()));
            }
        }
        Ok(restarted)
    }

    fn start_again(&mut self, number: u16, why: &str) -> Result<()> {
        self.say(format!(
            "node {number} failed to start ({why}); starting it again"
        ));
        self.kill(number)?;
        thread::sleep(CHANCE_PAUSE);
        self.spawn(number)
    }

    fn failed(&self, node: u16, what: String) -> Error {
        Error::NodeFailed {
            node,
            what,
            log: log_tail(&self.dir, node),
        }
    }

    /// One round of queries to node `number`, which has been waited for since `began`. Nodes never started, or
    /// stopped on purpose, are not expected to be seen as alive.
    fn ask(&self, number: u16, began: Instant) -> Result<()> {
        let address = self.address(number)?;
        let mut connection = Connection::open(address, &self.access, ASK_PATIENCE)?;
        let running = self.running().len();
        let started = |node: &&NodeState| node.process.is_some();
        let known = peers(&mut connection)?;
        let is_known = |node: &NodeState| node.number == number || known.contains(&node.address);
        let mut started = self.state.present().filter(started);
        if let Some(node) = started.find(|node| !is_known(node)) {
            let what = format!("it does not know node {} yet", node.number);
            return Err(Error::Cql(what));
        }
        let is_ours = |peer: &&Ipv4Addr| self.state.present().any(|node| node.address == **peer);
        if let Some(gone) = known.iter().find(|peer| !is_ours(peer))
            && began.elapsed() < GHOST_PATIENCE
        {
            return Err(Error::Cql(format!("it still knows {gone}, which is gone")));
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
