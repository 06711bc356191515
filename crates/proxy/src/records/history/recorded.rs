//! Records steps, and adds them up.

use std::sync::Arc;

use helenus_engine::stats::{NodeStats, Stats};

use super::codec;
use super::detail::{Counters, Detail, Standing};
use super::sample::{Counted, GAUGES, Gauges, Sample};
use super::series::{COARSE, FINE, Kept, Series};
use super::summary::Summary;

/// A long step ends with a short one, even if that comes a little early.
const EARLY_MS: u64 = COARSE.step_ms / 20;

/// Which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    Fine,
    Coarse,
}

/// The values of one moment, to be recorded.
pub(crate) struct Seen<'a> {
    pub stats: &'a Stats,
    pub nodes: &'a [Arc<NodeStats>],
    /// How each of them stands.
    pub standing: &'a [Standing],
    pub gauges: Gauges,
    /// Processor time of the process so far.
    pub cpu_us: u64,
}

/// One step, as it was.
#[derive(Clone, Debug)]
pub(crate) struct Step<'a> {
    pub number: u64,
    /// In milliseconds since recording began.
    pub end_ms: u64,
    pub lasted_ms: u64,
    pub counted: Counted<'a>,
    pub gauges: Gauges,
}

#[derive(Debug)]
pub(super) struct Recorded {
    fine: Series,
    coarse: Series,
    /// When the last step of each ended.
    fine_ms: u64,
    coarse_ms: u64,
    now: Sample,
    /// Counters at that time.
    fine_before: Vec<u64>,
    coarse_before: Vec<u64>,
    /// Of the long step that is under way.
    gauges: Option<Gauges>,
    detail: Detail,
    packed: Vec<u8>,
}

impl Default for Recorded {
    fn default() -> Recorded {
        Recorded {
            fine: Series::new(FINE),
            coarse: Series::new(COARSE),
            fine_ms: 0,
            coarse_ms: 0,
            now: Sample::default(),
            fine_before: Vec::new(),
            coarse_before: Vec::new(),
            gauges: None,
            detail: Detail::default(),
            packed: Vec::new(),
        }
    }
}

impl Recorded {
    fn series(&self, resolution: Resolution) -> &Series {
        match resolution {
            Resolution::Fine => &self.fine,
            Resolution::Coarse => &self.coarse,
        }
    }

    pub(super) fn next(&self, resolution: Resolution) -> u64 {
        self.series(resolution).next()
    }

    #[cfg(test)]
    pub(super) fn byte_len(&self) -> usize {
        self.fine.byte_len() + self.coarse.byte_len()
    }

    pub(super) fn steps<T>(
        &self,
        resolution: Resolution,
        from: u64,
        mut each: impl FnMut(Step<'_>) -> T,
    ) -> Vec<T> {
        let mut counted = vec![0; self.now.numbers.len()];
        let steps = self.series(resolution).from(from);
        let mut made = Vec::with_capacity(steps.size_hint().0);
        for (number, kept) in steps {
            counted.fill(0);
            codec::add(&kept.counted, &mut counted);
            let mut gauges = [0; GAUGES];
            codec::add(&kept.gauges, &mut gauges);
            made.push(each(Step {
                number,
                end_ms: kept.end_ms,
                lasted_ms: kept.lasted_ms,
                counted: Counted(&counted),
                gauges: Gauges::of(&gauges),
            }));
        }
        made
    }

    pub(super) fn record(&mut self, now_ms: u64, seen: &Seen<'_>) {
        let lasted_ms = now_ms.saturating_sub(self.fine_ms);
        self.now.read(seen.stats, seen.nodes, seen.cpu_us);
        self.detail.note(seen.standing, lasted_ms);
        match &mut self.gauges {
            Some(gauges) => gauges.note(&seen.gauges),
            none => *none = Some(seen.gauges.clone()),
        }
        let counted = packed(&mut self.packed, |out| {
            pack_differences(&self.now.numbers, &mut self.fine_before, out);
        });
        self.fine.push(Kept {
            end_ms: now_ms,
            lasted_ms,
            counted,
            gauges: packed(&mut self.packed, |out| {
                codec::pack(seen.gauges.numbers(), out);
            }),
            detail: Box::default(),
        });
        self.fine_ms = now_ms;
        if now_ms.saturating_sub(self.coarse_ms) + EARLY_MS >= COARSE.step_ms {
            self.end_coarse(now_ms, seen);
        }
    }

    fn end_coarse(&mut self, now_ms: u64, seen: &Seen<'_>) {
        let gauges = self.gauges.take().unwrap_or_default();
        let (tables, layouts) = (seen.stats.tables(), seen.stats.features.layouts.list());
        let counters = Counters {
            nodes: seen.nodes,
            tables: &tables,
            layouts: &layouts,
        };
        let counted = packed(&mut self.packed, |out| {
            pack_differences(&self.now.numbers, &mut self.coarse_before, out);
        });
        self.coarse.push(Kept {
            end_ms: now_ms,
            lasted_ms: now_ms.saturating_sub(self.coarse_ms),
            counted,
            gauges: packed(&mut self.packed, |out| codec::pack(gauges.numbers(), out)),
            detail: packed(&mut self.packed, |out| {
                self.detail.pack(counters, true, out);
            }),
        });
        self.coarse_ms = now_ms;
    }

    pub(super) fn summary(
        &mut self,
        now_ms: u64,
        from_ms: u64,
        to_ms: u64,
        points: usize,
        stats: &Stats,
        nodes: &[Arc<NodeStats>],
    ) -> Summary {
        self.now.read(stats, nodes, self.now.cpu_us());
        let mut sum = Summary::of(from_ms, to_ms, points, self.now.numbers.len());
        for (_, step) in self.coarse.from(0) {
            let begin_ms = step.end_ms.saturating_sub(step.lasted_ms);
            if step.end_ms > from_ms && begin_ms < to_ms {
                sum.add(step);
            }
        }
        // Counts since the last of them.
        if to_ms > self.coarse_ms && from_ms < now_ms && now_ms > self.coarse_ms {
            let (tables, layouts) = (stats.tables(), stats.features.layouts.list());
            let counters = Counters {
                nodes,
                tables: &tables,
                layouts: &layouts,
            };
            self.coarse_before.resize(self.now.numbers.len(), 0);
            let step = Kept {
                end_ms: now_ms,
                lasted_ms: now_ms - self.coarse_ms,
                counted: packed(&mut self.packed, |out| {
                    codec::pack(differences(&self.now.numbers, &self.coarse_before), out);
                }),
                gauges: Box::default(),
                detail: packed(&mut self.packed, |out| {
                    self.detail.pack(counters, false, out);
                }),
            };
            sum.add(&step);
        }
        sum
    }
}

/// The bytes that `pack` writes, in no more memory than they take.
fn packed(buffer: &mut Vec<u8>, pack: impl FnOnce(&mut Vec<u8>)) -> Box<[u8]> {
    buffer.clear();
    pack(buffer);
    buffer.as_slice().into()
}

/// How much numbers have grown.
fn differences(now: &[u64], before: &[u64]) -> impl Iterator<Item = u64> {
    let both = now.iter().zip(before);
    both.map(|(now, before)| now.saturating_sub(*before))
}

/// Packs how much numbers have grown, which then are those before.
fn pack_differences(now: &[u64], before: &mut Vec<u64>, out: &mut Vec<u8>) {
    before.resize(now.len(), 0);
    codec::pack(differences(now, before), out);
    before.copy_from_slice(now);
}
