//! Does what events leave to be done.

use crate::backlog::Work;
use crate::features;
use crate::keys::NodeRequestKey;
use crate::pipeline::engine::Engine;

impl Engine {
    /// Does what is left to be done, and what that leaves. Called once behind every event, and by
    /// nothing that it calls itself. Whatever waits for a node goes before what is routed anew, or new
    /// requests would take the places that others have waited for.
    pub(crate) fn settle(&mut self) {
        loop {
            if let Some((node, may_scan)) = self.queues.poll_noted() {
                self.pump(node, may_scan);
                continue;
            }
            if let Some((key, ended)) = self.next_failure() {
                self.on_failed(key, &ended);
                continue;
            }
            match self.next_work() {
                None => return,
                Some(Work::Start(key)) => self.start_now(key),
                Some(Work::Route(key)) if self.is_orphaned(key) => self.drop_node_request(key),
                Some(Work::Route(key)) => self.route_now(key),
                Some(Work::LogIn {
                    session,
                    is_granted,
                }) => self.on_login_turn(session, is_granted),
                Some(Work::Resume(key)) => self.on_range_settled(key),
                Some(Work::Feature(work)) => features::on_work(self, work),
            }
        }
    }

    /// True if a node request is for a part that nobody waits for any more.
    fn is_orphaned(&self, key: NodeRequestKey) -> bool {
        let request = self.requests.nodes.get(key);
        let Some((client, part)) = request.and_then(|request| request.part()) else {
            return false;
        };
        let client = self.requests.clients.get(client);
        !client.is_some_and(|client| client.execution.awaits(part, key))
    }
}
