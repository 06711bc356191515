//! The failure detector: steps for a node that has fallen silent, and for one that is back.
//!
//! Being wrong about a silent node must cost little, as it may only collect garbage. So the steps
//! are: a probe, which is nothing; with it the node is tried last until it answers; then what can be
//! repeated is sent to another node as well; and only after `links.probe_timeout_ms` is the link
//! closed, which costs clients what cannot be repeated.
//!
//! A link that answers may still have streams that nobody waits for. As long as its node may be at work on them they say
//! nothing: a read that was sent twice leaves one, and answers come late. Once they are more than half of
//! `links.in_flight_max`
//!
//! - the link is replaced, and closed when it has answered what it carries, if their nodes may still answer most of them;
//! - it is closed if their time is over;
//! - it is closed if they are all that it has: nothing can be sent there, and nothing is lost.
//!
//! The next one at that node has to wait for that, and keeps its place until then ([`crate::upstream::pool::renewals`]).

use std::time::{Duration, Instant};

use helenus_policy::ring::NodeIndex;

use crate::context::Context;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::upstream::link::{Link, RESERVED, Stream, Tenure};
use crate::upstream::links::Links;
use crate::upstream::pool::renewals::Renewals;

#[cfg(test)]
mod tests;

/// A link without anything in flight is probed when it has been silent for so long.
const IDLE_PROBE: Duration = Duration::from_secs(30);

/// Links that have gone silent, by what is to be done about them.
#[derive(Default)]
pub(crate) struct Silent {
    /// Their node requests may be sent to other nodes as well.
    pub(crate) stuck: Vec<LinkKey>,
    /// Nothing will come any more, and why.
    pub(crate) lost: Vec<(LinkKey, &'static str)>,
}

/// A link whose node requests may be sent to other nodes as well.
pub(crate) struct Stuck {
    pub(crate) node: NodeIndex,
    pub(crate) node_requests: Vec<NodeRequestKey>,
    /// How many of them: with more orphans the link would have to be replaced, should the node come back.
    pub(crate) rescues_max: usize,
}

/// The meaning of a link's silence.
enum Silence {
    None,
    Probe,
    Stuck,
    /// It has few streams left.
    Crowded,
    /// It is of no more use, as too many answers are missing.
    Exhausted(&'static str),
    Lost(&'static str),
}

impl Link {
    fn silence(&self, cx: &Context) -> Silence {
        let settings = &cx.shared.config.links;
        let silence = Duration::from_millis(settings.silence_ms);
        let patience = Duration::from_millis(settings.probe_timeout_ms);
        let since = |at: Instant| cx.now.saturating_duration_since(at);
        let limit = match self.in_flight() {
            0 => IDLE_PROBE,
            _ => silence,
        };
        match self.probed {
            Some(probed) if since(probed) > patience => {
                Silence::Lost("no sign of life from the node")
            }
            Some(probed) if since(probed) > silence => Silence::Stuck,
            None if since(self.last_heard) > limit => Silence::Probe,
            _ if self.orphans > settings.in_flight_max / 2 => {
                self.crowding(cx.now, settings.in_flight_max)
            }
            _ => Silence::None,
        }
    }

    /// Judges a link more than half of whose streams wait for answers that nobody wants.
    fn crowding(&self, now: Instant, in_flight_max: usize) -> Silence {
        let is_overdue = |stream: &&Stream| match stream {
            Stream::Dropped => true,
            Stream::Orphan(done_by) => *done_by <= now,
            Stream::Free | Stream::Busy(_) | Stream::Probe => false,
        };
        let used = self.streams.iter().skip(RESERVED);
        if used.filter(is_overdue).count() > in_flight_max / 2 {
            return Silence::Exhausted("too many answers never came");
        }
        match self.in_flight() == 0 && !self.has_room(in_flight_max) {
            true => Silence::Exhausted("no stream is left"),
            false => Silence::Crowded,
        }
    }

    /// Another one is to have its place; true if it may have it now.
    fn end_tenure(&mut self, renewals: Option<&mut Renewals>, now: Instant) -> bool {
        // Nobody wants one in its place.
        let Some(renewals) = renewals else {
            return true;
        };
        if self.tenure == Tenure::Stays {
            let from = renewals.claim(self.node, now);
            self.tenure = Tenure::Ends { from };
        }
        self.tenure == Tenure::Over || renewals.are_due(self.node, now)
    }
}

impl Links {
    /// Probes links that have gone silent, and returns those that stay so.
    pub(crate) fn check(&mut self, cx: &Context) -> Silent {
        let mut found = Silent::default();
        let mut silent = Vec::new();
        for (key, link) in &mut self.open {
            let pool = self.pools.get_mut(link.pool);
            let renewals = pool.map(|pool| &mut pool.renewals);
            let lost = match link.silence(cx) {
                Silence::None => None,
                Silence::Probe => {
                    silent.push(key);
                    None
                }
                Silence::Stuck => {
                    found.stuck.push(key);
                    None
                }
                Silence::Crowded => {
                    link.end_tenure(renewals, cx.now);
                    None
                }
                Silence::Exhausted(why) => link.end_tenure(renewals, cx.now).then_some(why),
                Silence::Lost(why) => Some(why),
            };
            if let Some(why) = lost {
                let address = cx.snapshot.nodes().address_of(link.node);
                tracing::warn!(node = %address, "closing a link: {why}");
                found.lost.push((key, why));
            }
        }
        for key in silent {
            self.probe(cx, key);
        }
        found
    }

    /// Asks for a sign of life; until it comes the node is tried last.
    fn probe(&mut self, cx: &Context, key: LinkKey) {
        let Some(link) = self.open.get_mut(key) else {
            return;
        };
        link.probe(cx.now);
        if link.mark(cx.now) {
            self.dirty.push(key);
        }
        let patience = Duration::from_millis(cx.shared.config.links.probe_timeout_ms);
        self.health[link.node.as_usize()].suspect_at_least(cx.now + patience);
    }

    /// The node requests that wait on a link that has been silent for long.
    pub(crate) fn stuck(&self, cx: &Context, key: LinkKey) -> Option<Stuck> {
        let link = self.open.get(key)?;
        let rescues_max = match link.tenure {
            Tenure::Stays => {
                let orphans_max = cx.shared.config.links.in_flight_max / 2;
                orphans_max.saturating_sub(link.orphans)
            }
            // It has to be replaced, or has been.
            _ => usize::MAX,
        };
        Some(Stuck {
            node: link.node,
            node_requests: link.node_requests().collect(),
            rescues_max,
        })
    }
}
