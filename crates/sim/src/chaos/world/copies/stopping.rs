//! Proxies that stand still or are killed.
//!
//! Whatever comes to a proxy that stands still waits until it goes on. It may have read its clock just before.

use std::time::Instant;

use super::super::network::{End, Peer};
use super::super::{Event, World};
use super::OfLists;
use crate::chaos::bounds::Cause;
use crate::chaos::proxy::At;

impl World {
    /// Something that goes wrong more often, or only, where there are copies.
    pub(in crate::chaos::world) fn cause_of_copies(&mut self) -> Cause {
        const CAUSES: [Cause; 7] = [
            Cause::Catalogue,
            Cause::Catalogue,
            Cause::Kill,
            Cause::Stop,
            Cause::Stop,
            Cause::Crash,
            Cause::Partition,
        ];
        CAUSES[self.dice.below(CAUSES.len() as u64) as usize]
    }

    /// A proxy is gone at once, and another takes its place.
    pub(in crate::chaos::world) fn kill_proxy(&mut self) -> &'static str {
        let Some(proxy) = self.any_proxy().filter(|_| self.lists.is_some()) else {
            return "nothing";
        };
        for worker in 0..self.proxies[proxy].workers.len() {
            let at = At { proxy, worker };
            if !self.worker(at).ended {
                self.end_worker(at);
            }
        }
        "proxy killed"
    }

    /// A proxy stands still for a while.
    pub(in crate::chaos::world) fn stop_proxy(&mut self) -> &'static str {
        match self.any_proxy().filter(|_| self.lists.is_some()) {
            Some(proxy) => self.pause_proxy(proxy),
            None => return "nothing",
        }
        "proxy stands still"
    }

    pub(in crate::chaos::world) fn pause_proxy(&mut self, proxy: usize) {
        let for_us = match self.dice.below(3) {
            0 => self.dice.below(300_000),
            1 => 300_000 + self.dice.below(2_000_000),
            _ => 1_000_000 + self.dice.below(4_000_000),
        };
        let (now, now_us) = (self.now(), self.now_us());
        let of = &mut self.proxies[proxy];
        match of.pauses.last_mut() {
            Some((_, until_us)) if *until_us >= now_us => {
                *until_us = (now_us + for_us).max(*until_us);
            }
            _ => of.pauses.push((now_us, now_us + for_us)),
        }
        of.stale = Some(now);
        self.note(|| format!("proxy {proxy} stands still for {for_us} us"));
    }

    pub(in crate::chaos::world) fn is_paused(&self, proxy: usize) -> bool {
        let until_us = self.proxies[proxy].paused_until_us();
        until_us.is_some_and(|until_us| until_us > self.now_us())
    }

    /// An event, unless it has to wait until its proxy goes on.
    pub(in crate::chaos::world) fn unless_paused(&mut self, event: Event) -> Option<Event> {
        let Some(proxy) = self.proxy_of(&event) else {
            return Some(event);
        };
        let until_us = self.proxies[proxy].paused_until_us().unwrap_or(0);
        let wait_us = until_us.saturating_sub(self.now_us());
        if wait_us > 0 {
            self.events.plan(wait_us, event);
            return None;
        }
        let is_of_link = matches!(&event, Event::Piece(number, End::Proxy)
            if matches!(self.connections[*number].peer, Peer::Node(_)));
        if !is_of_link {
            self.proxies[proxy].stale = None;
        }
        Some(event)
    }

    pub(in crate::chaos::world) fn proxy_of(&self, event: &Event) -> Option<usize> {
        self.lists.as_ref()?;
        match event {
            Event::Piece(number, End::Proxy) | Event::Closed(number, End::Proxy) => {
                Some(self.connections[*number].at.proxy)
            }
            Event::Flush(at)
            | Event::Due(at)
            | Event::Message(at, _)
            | Event::Dialed(at, ..)
            | Event::Judge(at)
            | Event::Agree(at, ..)
            | Event::DrainTick(at) => Some(at.proxy),
            Event::ReadCatalogue(proxy) | Event::TakeCatalogue(proxy, ..) => Some(*proxy),
            // The rest is on the side of the catalogue.
            Event::Lists(
                proxy,
                OfLists::Renew(_)
                | OfLists::Take(..)
                | OfLists::Changed(..)
                | OfLists::Recorded(..),
            ) => Some(*proxy),
            _ => None,
        }
    }

    /// The clock by which a proxy hears a node. If it has stood still, it has read the clock before that.
    pub(in crate::chaos::world) fn clock_of(&mut self, at: At) -> Instant {
        let now = self.now();
        self.proxies[at.proxy].stale.take().unwrap_or(now)
    }
}
