//! Connections that are being set up, as far as others are concerned: links that node requests wait
//! for, and logins that nodes judge.

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::features;
use crate::keys::{LinkKey, NodeRequestKey, PoolKey};
use crate::output::{Dialed, NotDialed};
use crate::pipeline::engine::Engine;
use crate::pipeline::node_request::Target;
use crate::upstream::connect::connection::{Opening, Purpose};
use crate::upstream::connect::greeting::Milestone;
use crate::upstream::connect::kind::{LinkKind, OpenError, OpenedLink};
use crate::upstream::link::Closing;
use crate::upstream::pool::opening::{Next, Opened};

impl Engine {
    /// A connection that was wanted has been made, or cannot be. False if it is to be closed, because
    /// nobody wants it any more.
    pub fn on_dialed(
        &mut self,
        now: Instant,
        key: LinkKey,
        result: Result<Dialed, NotDialed>,
    ) -> bool {
        self.set_now(now);
        let is_wanted = match result {
            Ok(dialed) => self.links.greet(&self.cx, key, &dialed),
            Err(why) => {
                let why = match why {
                    NotDialed::Lost(why) => OpenError::Lost(why),
                    NotDialed::NoMeans(why) => OpenError::NoMeans(why),
                };
                self.fail_greeting(key, why);
                false
            }
        };
        self.settle();
        is_wanted
    }

    /// Bytes have come over a connection that is being set up, if it is.
    pub(crate) fn on_greeting_bytes(&mut self, key: LinkKey, bytes: &[u8]) {
        let mut scratch = self.take_scratch();
        let reached = self
            .links
            .hear_greeting(self.cx.now, key, bytes, &mut scratch);
        self.give_back_scratch(scratch);
        match reached {
            None | Some(Ok(None)) => {}
            Some(Ok(Some(Milestone::Ready))) => self.on_ready(key),
            Some(Ok(Some(Milestone::Asked))) => self.on_token_asked(key),
            Some(Ok(Some(Milestone::Judged(message)))) => {
                if let Some(Purpose::Login(session)) = self.end_connecting(key) {
                    self.on_login_judged(session, message);
                }
            }
            Some(Err(why)) => self.fail_greeting(key, why),
        }
        self.settle();
    }

    /// A connection that was being set up is lost. `advice`: what may be wrong if the node has not said
    /// anything.
    pub(crate) fn on_greeting_lost(&mut self, key: LinkKey, why: &str, advice: Option<&str>) {
        let why = match advice.filter(|_| self.links.is_unheard(key)) {
            Some(advice) => format!("{why}, before its first answer: {advice}"),
            None => why.to_owned(),
        };
        self.fail_greeting(key, OpenError::Lost(why));
    }

    /// Gives up the connections that are not set up in time.
    pub(crate) fn expire_connecting(&mut self) {
        for (key, why) in self.links.overdue(&self.cx) {
            self.fail_greeting(key, why);
        }
    }

    fn on_ready(&mut self, key: LinkKey) {
        let Some((Purpose::Link(opening), greeting)) = self.links.end_greeting(key) else {
            return self.links.forget(&mut self.cx, key);
        };
        let (link, behind) = greeting.into_link();
        self.end_opening(key, &opening, Ok(link));
        for message in behind {
            self.settle();
            self.on_node_envelope(key, message.header, &message.body);
        }
    }

    fn on_token_asked(&mut self, key: LinkKey) {
        if let Some(session) = self.links.login_over(key)
            && let Some(token) = self.clients.token_of(session)
        {
            self.links.respond(&self.cx, key, &token);
        }
    }

    fn fail_greeting(&mut self, key: LinkKey, why: OpenError) {
        let Some((purpose, _)) = self.links.end_greeting(key) else {
            return;
        };
        match purpose {
            Purpose::Link(opening) => self.end_opening(key, &opening, Err(why)),
            Purpose::Login(session) => {
                self.links.forget(&mut self.cx, key);
                self.on_login_failed(session, &why);
            }
        }
    }

    /// A connection has served its purpose.
    fn end_connecting(&mut self, key: LinkKey) -> Option<Purpose> {
        let (purpose, _) = self.links.end_greeting(key)?;
        self.links.forget(&mut self.cx, key);
        Some(purpose)
    }

    /// A connection that was wanted is ready, or cannot be had.
    fn end_opening(
        &mut self,
        key: LinkKey,
        opening: &Opening,
        result: Result<OpenedLink, OpenError>,
    ) {
        let failed = result.as_ref().err();
        if self.links.note_judgement(&mut self.cx, opening, failed) {
            self.check_credentials();
        }
        self.note_return(opening.node, result.is_ok());
        let opened = self.links.take_opened(&mut self.cx, key, opening, result);
        match (self.links.is_up(key), &opening.kind) {
            (true, LinkKind::Shared(_)) => {
                features::on_link_up(self, opening.node, opening.pool);
            }
            (true, _) => {}
            (false, _) => self.links.forget(&mut self.cx, key),
        }
        if let Some(opened) = opened {
            self.end_waiting(opening.pool, opened);
        }
        self.links.refill(&mut self.cx, opening.node);
    }

    /// A node that was lost may be there again: it begins with little if it was away for long, and not only the
    /// way to all nodes.
    fn note_return(&mut self, node: NodeIndex, is_there: bool) {
        let now = self.cx.now;
        let was_lost = !self.links.is_reachable(node, now) && !self.links.is_linked(node);
        if was_lost && is_there {
            let away = self.links.away_by_itself(node, now);
            self.queues.note_return(&self.cx, node, away);
        }
    }

    /// Goes on with the node requests that have waited for a link.
    fn end_waiting(&mut self, pool: PoolKey, opened: Opened) {
        let Opened { waiting, next } = opened;
        for key in waiting {
            match &next {
                Next::Route => self.route(key),
                Next::AnyLink => self.resume(pool, key),
                Next::AnyNode => self.try_any_node(key),
                Next::NoLink => self.fail_unavailable(key),
                Next::Fail { code, message } => self.fail_untried(key, *code, message, &[]),
            }
        }
    }

    /// Goes on with a node request that has waited for a link, now that one is up or has failed. It
    /// waits on for those that are still being opened if none that is up may serve it.
    fn resume(&mut self, pool: PoolKey, key: NodeRequestKey) {
        let patience = Duration::from_millis(self.cx.shared.config.links.connect_timeout_ms);
        let now = self.cx.now;
        let Some(request) = self.requests.nodes.get_mut(key) else {
            return;
        };
        request.set_target(Target::ANY);
        let patient = now.saturating_duration_since(request.time_runs_since()) < patience
            || self.links.is_postponed(pool);
        let plan = self.plan(key);
        if plan.is_none_or(|plan| plan.is_empty()) && patient && self.links.wait_for_link(pool, key)
        {
            return;
        }
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.end_wait_for_link();
        }
        self.route(key);
    }

    /// Opens what is missing, closes what nobody needs.
    pub(crate) fn maintain_links(&mut self) {
        let nodes = &self.requests.nodes;
        self.links.forget_waiting(|key| nodes.get(key).is_none());
        self.links.maintain(&mut self.cx);
        for (pool, waiting) in self.links.take_stranded() {
            for key in waiting {
                self.resume(pool, key);
            }
        }
    }

    fn try_any_node(&mut self, key: NodeRequestKey) {
        if let Some(request) = self.requests.nodes.get_mut(key) {
            request.set_target(Target::ANY);
            // Or none of them will ever be.
            request.begin_attempt();
        }
        self.route(key);
    }

    /// Has credentials checked again that are in use, and closes what was opened with those that no
    /// longer stand.
    pub(crate) fn check_credentials(&mut self) {
        for pool in self.links.check_credentials(&mut self.cx) {
            self.clients.finish_all_of(&mut self.cx, pool);
            self.links
                .kill_all_of(&mut self.cx, pool, Closing::Credentials);
        }
    }
}

#[cfg(test)]
mod tests;
