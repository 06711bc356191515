//! The proxy's counters as read once a second, as one row of numbers that only grow. A step is the difference
//! between two of them, and several steps are the sum of these.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use helenus_engine::stats::{BUCKETS, Histogram, NodeStats, PackedStats, Stats};
use helenus_policy::schedule::Class;
use helenus_wire::PACKED_BUCKETS;

/// Where the numbers are.
const CPU_US: usize = 0;
const LINK_CALLS: usize = 1;
const SENT: usize = 2;
/// Queries, and frames by the queries they carried.
const PACKED_LEN: usize = 1 + PACKED_BUCKETS;
const RECEIVED: usize = SENT + PACKED_LEN;
const CLASSES: usize = RECEIVED + PACKED_LEN;
const CLASS_LEN: usize = WAITS + HISTOGRAM_LEN;
const TOTALS: usize = CLASSES + Class::COUNT * CLASS_LEN;
/// Within those of a class: sent, aged, refused.
const SCHEDULED: usize = 0;
const LATENCY: usize = 3;
const WAITS: usize = LATENCY + HISTOGRAM_LEN;
/// The sum, then the buckets.
pub(super) const HISTOGRAM_LEN: usize = 1 + BUCKETS;

/// Values of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gauges {
    pub clients: u64,
    pub links: u64,
    pub nodes: u64,
    pub nodes_up: u64,
    /// Without a link that they should have.
    pub nodes_down: u64,
    pub nodes_ejected: u64,
    /// Down or ejected.
    pub nodes_out: u64,
    pub in_flight: u64,
    pub queued: [u64; Class::COUNT],
    pub resident_bytes: u64,
    pub window_us: u64,
}

impl Gauges {
    /// Of a longer step, after one more second of it: the worst of what comes and goes, else the latest.
    pub(super) fn note(&mut self, next: &Gauges) {
        let mut queued = self.queued;
        for (most, now) in queued.iter_mut().zip(next.queued) {
            *most = now.max(*most);
        }
        *self = Gauges {
            nodes_up: self.nodes_up.min(next.nodes_up),
            nodes_down: self.nodes_down.max(next.nodes_down),
            nodes_ejected: self.nodes_ejected.max(next.nodes_ejected),
            nodes_out: self.nodes_out.max(next.nodes_out),
            in_flight: self.in_flight.max(next.in_flight),
            queued,
            ..next.clone()
        };
    }

    /// All of them, in the order in which they are kept.
    fn places(&mut self) -> impl Iterator<Item = &mut u64> {
        let Gauges {
            clients,
            links,
            nodes,
            nodes_up,
            nodes_down,
            nodes_ejected,
            nodes_out,
            in_flight,
            queued,
            resident_bytes,
            window_us,
        } = self;
        let single = [
            clients,
            links,
            nodes,
            nodes_up,
            nodes_down,
            nodes_ejected,
            nodes_out,
            in_flight,
            resident_bytes,
            window_us,
        ];
        single.into_iter().chain(queued)
    }

    pub(super) fn numbers(&self) -> [u64; GAUGES] {
        let mut numbers = [0; GAUGES];
        let mut of = self.clone();
        for (number, place) in numbers.iter_mut().zip(of.places()) {
            *number = *place;
        }
        numbers
    }

    pub(super) fn of(numbers: &[u64; GAUGES]) -> Gauges {
        let mut gauges = Gauges::default();
        for (place, number) in gauges.places().zip(numbers) {
            *place = *number;
        }
        gauges
    }
}

pub(super) const GAUGES: usize = 10 + Class::COUNT;

/// Everything that has been counted so far.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub numbers: Vec<u64>,
    /// Of all nodes, by class: if it is the same, nothing has waited since.
    waited_us: [u64; Class::COUNT],
}

impl Sample {
    /// The processor time that was read last.
    pub(super) fn cpu_us(&self) -> u64 {
        self.numbers.get(CPU_US).copied().unwrap_or(0)
    }

    /// Reads the counters again. Histograms that have not changed are not read bucket by bucket.
    pub(super) fn read(&mut self, stats: &Stats, nodes: &[Arc<NodeStats>], cpu_us: u64) {
        let totals = stats.global.list();
        self.numbers.resize(TOTALS + totals.len(), 0);
        let numbers = &mut self.numbers;
        numbers[CPU_US] = cpu_us;
        numbers[LINK_CALLS..CLASSES].fill(0);
        for node in nodes {
            let calls = load(&node.counters.reads) + load(&node.counters.writes);
            numbers[LINK_CALLS] += calls;
            add_packed(&mut numbers[SENT..RECEIVED], &node.packed_out);
            add_packed(&mut numbers[RECEIVED..CLASSES], &node.packed_in);
        }
        for (at, latency) in stats.latency.iter().enumerate() {
            let begin = CLASSES + at * CLASS_LEN;
            let of_class = &mut numbers[begin..begin + CLASS_LEN];
            of_class[SCHEDULED..LATENCY].fill(0);
            let mut waited_us = 0;
            for node in nodes {
                let counters = &node.schedule[at];
                of_class[SCHEDULED] += load(&counters.dispatched);
                of_class[SCHEDULED + 1] += load(&counters.aged);
                of_class[SCHEDULED + 2] +=
                    load(&counters.refused) + load(&counters.expired) + load(&counters.shed);
                waited_us += node.waits[at].sum_us();
            }
            read_histogram(&mut of_class[LATENCY..WAITS], latency);
            if waited_us != self.waited_us[at] {
                self.waited_us[at] = waited_us;
                let waits = &mut of_class[WAITS..];
                waits.fill(0);
                for node in nodes.iter().filter(|node| node.waits[at].sum_us() > 0) {
                    add_histogram(waits, &node.waits[at]);
                }
            }
        }
        for (to, (_, total)) in numbers[TOTALS..].iter_mut().zip(totals) {
            *to = total;
        }
    }
}

fn add_packed(to: &mut [u64], packed: &PackedStats) {
    let counts = packed.units.iter().map(load);
    let all = std::iter::once(load(&packed.queries)).chain(counts);
    for (to, count) in to.iter_mut().zip(all) {
        *to += count;
    }
}

fn add_histogram(to: &mut [u64], histogram: &Histogram) {
    if let Some((sum_us, counts)) = to.split_first_mut() {
        // First: what is counted meanwhile is news to the next look.
        *sum_us += histogram.sum_us();
        histogram.add_counts(counts);
    }
}

/// Takes over a histogram, if it has changed.
pub(super) fn read_histogram(to: &mut [u64], histogram: &Histogram) {
    if to.first().copied() != Some(histogram.sum_us()) {
        to.fill(0);
        add_histogram(to, histogram);
    }
}

/// Counts of some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a>(pub(super) &'a [u64]);

/// Requests of one class in some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedClass<'a>(&'a [u64]);

/// The values of a histogram in some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedValues<'a>(pub(super) &'a [u64]);

/// Queries that travelled together in some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedFrames<'a> {
    pub queries: u64,
    /// By bucket.
    pub frames: &'a [u64],
}

impl<'a> Counted<'a> {
    pub(crate) fn cpu_us(self) -> u64 {
        self.0[CPU_US]
    }

    pub(crate) fn link_calls(self) -> u64 {
        self.0[LINK_CALLS]
    }

    pub(crate) fn sent(self) -> CountedFrames<'a> {
        CountedFrames::of(&self.0[SENT..RECEIVED])
    }

    pub(crate) fn received(self) -> CountedFrames<'a> {
        CountedFrames::of(&self.0[RECEIVED..CLASSES])
    }

    pub(crate) fn class(self, class: Class) -> CountedClass<'a> {
        let begin = CLASSES + class as usize * CLASS_LEN;
        CountedClass(&self.0[begin..begin + CLASS_LEN])
    }

    /// In the order of [`helenus_engine::stats::Global::list`].
    pub(crate) fn totals(self) -> &'a [u64] {
        &self.0[TOTALS..]
    }
}

impl<'a> CountedClass<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    pub(crate) fn dispatched(self) -> u64 {
        self.0[SCHEDULED]
    }

    pub(crate) fn aged(self) -> u64 {
        self.0[SCHEDULED + 1]
    }

    pub(crate) fn refused(self) -> u64 {
        self.0[SCHEDULED + 2]
    }

    pub(crate) fn latency(self) -> CountedValues<'a> {
        CountedValues(&self.0[LATENCY..WAITS])
    }

    pub(crate) fn waits(self) -> CountedValues<'a> {
        CountedValues(&self.0[WAITS..])
    }
}

impl<'a> CountedFrames<'a> {
    fn of(numbers: &'a [u64]) -> CountedFrames<'a> {
        CountedFrames {
            queries: numbers[0],
            frames: &numbers[1..],
        }
    }
}

impl<'a> CountedValues<'a> {
    pub(crate) fn sum_us(self) -> u64 {
        self.0[0]
    }

    pub(crate) fn buckets(self) -> &'a [u64] {
        &self.0[1..]
    }
}

pub(super) fn load(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}
