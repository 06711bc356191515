//! Predicts what reading a table takes, from its size, while nothing has been read of it.
//!
//! Formula: a stretch of the ring that holds p partitions and b bytes takes p · [`PARTITION_US`] +
//! b · [`BYTE_US`]. It has at most b ÷ [`ROW_BYTES_MIN`] rows.
//!
//! It is a prior only: it orders what is not known and decides how much is asked for at first. The first
//! answer replaces it. An estimate may be far too low (a node counts what it has written to files, some
//! minutes ago), so it never makes a read larger than a small share of the ring, and no scan passes for
//! short because of it.
//!
//! Evidence: tables of 10,000 rows of 1 KiB take a node 154 ms of CPU time (docs/scheduling.md), and this
//! says 150 ms; of small rows, `crates/sim/calibration.toml`.
//!
//! Limits: rows that a filter drops early or a tombstone hides cost something else; what a table has in
//! memory only is not counted.

use super::pace::RING;

/// Reading a partition, in microseconds, on top of its bytes.
const PARTITION_US: f64 = 5.0;
const BYTE_US: f64 = 0.01;
/// No row is smaller than this, its share of the partition included.
const ROW_BYTES_MIN: u64 = 16;
/// The table may have grown since.
const GROWTH: u64 = 2;
/// Rows that any table may have that no file shows.
const ROWS_UNSEEN: u64 = 100;
const SAMPLE_PARTITIONS: u64 = 16;
/// A first stretch is at most the ring divided by this, however small the table is said to be.
const FIRST_SHARE_MIN: u64 = 128;

/// The content of a table, over the whole ring, each row counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    pub partitions: u64,
    pub bytes: u64,
}

impl TableSize {
    /// From a sample of the ring of so many tokens; `None` if nothing was found there.
    pub fn of_sample(partitions: u64, bytes: u64, tokens: u64) -> Option<TableSize> {
        if partitions == 0 || bytes == 0 || tokens == 0 {
            return None;
        }
        let whole = |sampled: u64| (sampled as f64 * (RING as f64 / tokens as f64)) as u64;
        Some(TableSize {
            partitions: whole(partitions),
            bytes: whole(bytes),
        })
    }

    /// The predicted time to read so many tokens, in microseconds; at least 1.
    pub fn us_of(&self, tokens: u64) -> u32 {
        (self.ring_us() * share_of(tokens)).max(1.0) as u32
    }

    /// The length of a first stretch that takes about so long; at least 1.
    pub fn tokens_in(&self, us: u32) -> u64 {
        let tokens = f64::from(us) / self.ring_us().max(1.0) * RING as f64;
        (tokens as u64).clamp(1, RING / FIRST_SHARE_MIN)
    }

    /// The length of a sample that takes about so long and has a few partitions in it, whatever their size.
    pub fn sample_in(&self, us: u32) -> u64 {
        let few = RING / self.partitions.max(1);
        self.tokens_in(us)
            .max(few.saturating_mul(SAMPLE_PARTITIONS))
    }

    /// Rows that take no longer than that, and no more bytes, wherever they are; at least 1. `us` 0: any.
    pub fn rows_in(&self, us: u32, bytes: usize) -> u64 {
        let row_bytes = self.partition_bytes();
        let by_bytes = bytes as u64 / row_bytes;
        let row_us = PARTITION_US + row_bytes as f64 * BYTE_US;
        let by_time = match us {
            0 => u64::MAX,
            us => (f64::from(us) / row_us) as u64,
        };
        by_bytes.min(by_time).max(1)
    }

    /// Rows on so many tokens, at most.
    pub fn rows_max(&self, tokens: u64) -> u64 {
        let bytes = (self.bytes as f64 * share_of(tokens)) as u64;
        (bytes / ROW_BYTES_MIN)
            .saturating_mul(GROWTH)
            .saturating_add(ROWS_UNSEEN)
    }

    /// Bytes of a partition on average; no row is larger than its partition. At least 1.
    fn partition_bytes(&self) -> u64 {
        (self.bytes / self.partitions.max(1)).max(1)
    }

    fn ring_us(&self) -> f64 {
        self.partitions as f64 * PARTITION_US + self.bytes as f64 * BYTE_US
    }
}

fn share_of(tokens: u64) -> f64 {
    tokens as f64 / RING as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: TableSize = TableSize {
        partitions: 10_000,
        bytes: 10_000 * 1_024,
    };

    #[test]
    fn a_table_of_the_benchmark_takes_about_what_was_measured() {
        let us = KIB.us_of(RING);
        assert!((100_000..200_000).contains(&us), "{us}");
        assert_eq!(KIB.us_of(RING / 2), us / 2);
    }

    #[test]
    fn a_sample_stands_for_the_ring() {
        let sampled = TableSize::of_sample(100, 1 << 20, RING / 8).expect("something");
        assert_eq!((sampled.partitions, sampled.bytes), (800, 8 << 20));
        assert_eq!(TableSize::of_sample(0, 0, RING), None, "not in a file yet");
        assert_eq!(TableSize::of_sample(3, 40, 0), None);
        let whole = TableSize::of_sample(u64::MAX, u64::MAX, 1).expect("something");
        assert_eq!(whole.us_of(RING), u32::MAX, "nonsense does no harm");
        assert_eq!(whole.tokens_in(1), 1);
        assert!(whole.rows_max(RING) > 1 << 60);
    }

    #[test]
    fn first_stretches_of_large_tables_are_short_and_those_of_small_ones_not_long() {
        let terabyte = TableSize {
            partitions: 1 << 30,
            bytes: 1 << 40,
        };
        let tokens = terabyte.tokens_in(10_000);
        assert!(tokens < RING / (1 << 19), "{}", RING / tokens);
        assert!((8_000..12_000).contains(&terabyte.us_of(tokens)));
        let tiny = TableSize {
            partitions: 1,
            bytes: 50,
        };
        assert_eq!(tiny.tokens_in(10_000), RING / FIRST_SHARE_MIN);
    }

    #[test]
    fn a_small_table_has_few_rows_and_never_none() {
        let small = TableSize {
            partitions: 10,
            bytes: 1_600,
        };
        assert_eq!(small.rows_max(RING), 300);
        assert_eq!(small.rows_max(0), 100);
        assert_eq!(small.partition_bytes(), 160);
    }

    #[test]
    fn rows_are_no_larger_than_their_partitions() {
        let rows = KIB.rows_in(10_000, 8 << 20);
        assert!((600..700).contains(&rows), "{rows}");
        assert_eq!(KIB.rows_in(0, 8 << 20), 8_192, "any time");
        let blobs = TableSize {
            partitions: 1_000,
            bytes: 1_000 << 20,
        };
        assert_eq!(blobs.rows_in(0, 8 << 20), 8);
        assert_eq!(blobs.rows_in(10_000, 1), 1);
    }

    #[test]
    fn a_sample_has_partitions_in_it() {
        let wide = TableSize {
            partitions: 32_000,
            bytes: 1 << 40,
        };
        assert!(wide.tokens_in(100_000) < RING / 100_000);
        assert_eq!(wide.sample_in(100_000), RING / 32_000 * 16);
        assert_eq!(KIB.sample_in(100_000), RING / FIRST_SHARE_MIN);
    }
}
