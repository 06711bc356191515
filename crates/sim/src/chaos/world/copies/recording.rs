//! Write intents on their way to the catalogue, and writes that were given up.

use std::sync::Arc;

use helenus_engine::copies::Member;
use helenus_engine::shared::WorkerMessage;
use helenus_layout::insync::BitChange;

use super::super::World;
use super::lists::{OfLists, Outcome};
use crate::chaos::coverage;

impl World {
    pub(in crate::chaos::world) fn want_bit(
        &mut self,
        proxy: usize,
        member: &Arc<Member>,
        change: BitChange,
    ) {
        let control = self.proxies[proxy].control.as_mut();
        if let Some(control) = control.filter(|control| control.is_member(member)) {
            control.bits.push(change);
        }
        self.record_bits(proxy);
    }

    pub(in crate::chaos::world) fn record_bits(&mut self, proxy: usize) {
        let Some(control) = &mut self.proxies[proxy].control else {
            return;
        };
        let Some(member) = control.member.clone() else {
            return;
        };
        if control.is_recording || control.bits.is_empty() {
            return;
        }
        control.is_recording = true;
        let bits = std::mem::take(&mut control.bits);
        self.plan_lists(proxy, OfLists::Record(member, bits));
    }

    pub(in crate::chaos::world) fn on_recorded(
        &mut self,
        proxy: usize,
        member: &Arc<Member>,
        bits: Vec<BitChange>,
        outcome: Outcome,
    ) {
        let control = self.proxies[proxy].control.as_mut();
        let Some(control) = control.filter(|control| control.is_member(member)) else {
            return;
        };
        control.is_recording = false;
        let mut intents = member.intents();
        for bit in bits {
            match outcome {
                Outcome::Done => intents.on_changed(bit),
                Outcome::Unknown => control.bits.extend(intents.on_failed(bit)),
            }
        }
        drop(intents);
        self.tell_all(proxy, &WorkerMessage::InSync);
        self.record_bits(proxy);
    }

    pub(in crate::chaos::world) fn note_given_up(
        &mut self,
        proxy: usize,
        member: &Arc<Member>,
        bucket: usize,
    ) {
        self.count(coverage::GIVEN_UP);
        let now_us = self.copies_us(proxy);
        let control = self.proxies[proxy].control.as_mut();
        if let Some(control) = control.filter(|control| control.is_member(member)) {
            control.on_given_up(bucket, now_us);
        }
    }
}
