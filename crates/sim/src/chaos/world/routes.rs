//! Whether requests go to the owners of their partitions, once a ring has changed and everything works.

use helenus_wire::Header;

use super::World;
use super::recovery::CONNECTED_AFTER_US;
use crate::chaos::cassandra::{Health, asked_of};
use crate::chaos::client::TEXTS;
use crate::chaos::coverage::Check;
use crate::chaos::cql::Asked;

impl World {
    /// A proxy that has heard of the ring as it is asks an owner, as all of them can be reached and have room.
    pub(super) fn judge_route(&mut self, number: usize, node: usize, header: &Header, body: &[u8]) {
        let is_connected = self.now_us() >= self.trouble_us + CONNECTED_AFTER_US;
        if !is_connected || self.grows.is_none() || self.growth.is_some() {
            return;
        }
        let Some(Asked::Read(key) | Asked::Write(key, _)) = asked_of(header, body) else {
            return;
        };
        let now_us = self.now_us();
        let proxy = &self.proxies[self.connections[number].at.proxy];
        let members = &self.cluster.owners().members;
        let is_up = |member: &usize| {
            let of = &self.cluster.nodes[*member];
            of.health == Health::Up && !of.closed
        };
        let is_wide = proxy.terms.during(now_us, now_us).link_room_least >= TEXTS.len();
        // What is slow to answer a probe is tried last.
        if self.is_silent() || proxy.members != *members || !members.iter().all(is_up) || !is_wide {
            return;
        }
        let owners = self.cluster.replicas_of(key);
        let could_fail = owners.len() < members.len();
        self.checked(Check::Routed, could_fail);
        if !owners.contains(&node) {
            self.violate(format!(
                "key {key} is asked of node {node}, and belongs to {owners:?}"
            ));
        }
    }
}
