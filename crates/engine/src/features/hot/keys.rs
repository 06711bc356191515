//! The partitions that one worker is asked for most ([`helenus_policy::hot`]).
//!
//! Bounded: [`PLACES`] partitions of about 200 bytes, 100 KiB for each worker.

use std::sync::Arc;

use helenus_policy::hot::{HotSet, Partition, Sampler, Sketch, Use};
use helenus_policy::schedule::Class;
use helenus_wire::Opcode;

use crate::context::Context;
use crate::features::hot::published::{Key, Label, OfWorker, PUBLISHED_MAX};
use crate::session::login::identity::Identity;
use crate::statement::prepared::Statement;
use crate::stats::TableStats;

/// A partition that has more than a 512th of all work is among them for certain.
const PLACES: usize = 512;
/// After this time a request counts half.
const HALF_LIFE_US: u64 = 10_000_000;
/// They are published every so many ticks, about once a second.
const PUBLISHED_TICKS: u32 = 10;

/// A request as it is counted.
pub(crate) struct Asked<'a> {
    pub opcode: Opcode,
    pub bytes: usize,
    /// None of a batch.
    pub statement: Option<&'a Statement>,
    pub identity: &'a Identity,
    /// It shares the answer of another.
    pub is_shared: bool,
}

pub(crate) struct HotKeys {
    sampler: Sampler,
    sketch: Sketch<Label>,
    set: HotSet,
    ticks: u32,
    /// It may keep keys.
    keeps_keys: bool,
}

impl HotKeys {
    pub(crate) fn new(seed: u64) -> HotKeys {
        HotKeys {
            sampler: Sampler::new(seed),
            sketch: Sketch::new(PLACES, HALF_LIFE_US, 0),
            set: HotSet::default(),
            ticks: 0,
            keeps_keys: false,
        }
    }

    /// True if the next request is looked at.
    #[inline]
    pub(crate) fn is_next(&mut self) -> bool {
        self.sampler.takes()
    }

    #[inline]
    pub(crate) fn is_hot(&self, token: i64) -> bool {
        self.set.contains(token)
    }

    /// Counts a request for the partition of this token. `key`: its key, if that may be kept.
    pub(crate) fn note(
        &mut self,
        asked: &Asked<'_>,
        is_lwt: bool,
        table: &Arc<TableStats>,
        token: i64,
        key: Option<&[u8]>,
    ) {
        if asked.opcode == Opcode::Prepare {
            return;
        }
        let is_write = !asked.statement.is_some_and(Statement::is_read);
        let class = match is_write {
            true if is_lwt => Class::Lwt,
            true => Class::Write,
            false => Class::Point,
        };
        let learned = asked.statement.map(|statement| &statement.learned);
        let answer_bytes = learned.map_or(0, |learned| learned.answer_bytes());
        let of = Use {
            is_write,
            work_us: learned.map_or(1_000, |learned| learned.service_us(class)),
            bytes: answer_bytes.saturating_add(asked.bytes as u32),
            is_shared: asked.is_shared,
        };
        let partition = Partition {
            table: table.number,
            role: asked.identity.number(),
            token,
        };
        self.sketch.note(partition, of, || Label {
            table: table.clone(),
            role: asked.identity.role().cloned(),
            key: key.filter(|_| self.keeps_keys).map(Key::new),
        });
    }

    pub(crate) fn on_tick(&mut self, cx: &Context) {
        let keeps_keys = cx.shared.config.admin.show_keys;
        if keeps_keys != self.keeps_keys {
            // It begins anew: with keys, or without those that may be kept no longer.
            self.sketch = Sketch::new(PLACES, HALF_LIFE_US, cx.now_us());
            self.keeps_keys = keeps_keys;
        }
        self.sketch.advance(cx.now_us());
        let nodes = cx.snapshot.nodes().places().local().len();
        match cx.shared.config.assignment.spread_hot {
            true => self.set.renew(&self.sketch, nodes),
            false => self.set.clear(),
        }
        self.ticks += 1;
        if self.ticks < PUBLISHED_TICKS {
            return;
        }
        self.ticks = 0;
        let of = OfWorker {
            summary: self.sketch.summary(PUBLISHED_MAX),
            spread: self.set.tokens().to_vec(),
        };
        cx.shared.features.hot.publish(cx.index, of);
    }
}
