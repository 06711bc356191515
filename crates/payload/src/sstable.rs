//! Size of values on disk: Cassandra cuts the data of an SSTable into chunks and compresses each.
//!
//! As Cassandra 4 and 5 do by default: chunks of 16 KiB with LZ4, each with the length before it and a
//! checksum after it, and its place in the file of offsets. Every value is preceded by what a row in a
//! partition has beside it: flags, a clustering key of four bytes, the time of writing, and its length.

use crate::bytes::put_number;

const CHUNK_BYTES: usize = 16 * 1024;
/// The length, the checksum, and the offset.
const CHUNK_OVERHEAD_BYTES: u64 = 4 + 4 + 8;

/// Counts what values take.
#[derive(Debug, Default)]
pub struct SsTable {
    chunk: Vec<u8>,
    /// For what differs from row to row and cannot be compressed.
    row: u64,
    estimate: Estimate,
    compressed: Vec<u8>,
}

/// Sizes of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    pub values: u64,
    /// Of the values alone.
    pub value_bytes: u64,
    /// Of compressed chunks, with everything.
    pub disk_bytes: u64,
}

impl SsTable {
    pub fn add(&mut self, value: &[u8]) {
        self.estimate.values += 1;
        self.estimate.value_bytes += value.len() as u64;
        self.row += 1;
        let differs = mixed(self.row).to_le_bytes();
        // Flags of the row; clustering key; size of the row and of the one before; time of writing;
        // flags of the cell.
        self.chunk.push(0x24);
        self.chunk.extend(&differs[..4]);
        put_number(&mut self.chunk, value.len() as u64 + 8);
        self.chunk.extend(&differs[4..7]);
        self.chunk.push(0x08);
        put_number(&mut self.chunk, value.len() as u64);
        let mut rest = value;
        while self.chunk.len() + rest.len() >= CHUNK_BYTES {
            let now = CHUNK_BYTES.saturating_sub(self.chunk.len()).min(rest.len());
            let (first, after) = rest.split_at(now);
            self.chunk.extend_from_slice(first);
            rest = after;
            self.compress();
        }
        self.chunk.extend_from_slice(rest);
    }

    /// With the last chunk, which is shorter.
    pub fn finish(mut self) -> Estimate {
        if !self.chunk.is_empty() {
            self.compress();
        }
        self.estimate
    }

    /// A row's beginning may reach a few bytes into the next chunk; they are compressed with this one.
    fn compress(&mut self) {
        let length_max = lz4_flex::block::get_maximum_output_size(self.chunk.len());
        self.compressed.resize(length_max, 0);
        // There is room for whatever comes out.
        let length = lz4_flex::block::compress_into(&self.chunk, &mut self.compressed);
        let length = length.unwrap_or(self.chunk.len());
        self.estimate.disk_bytes += length as u64 + CHUNK_OVERHEAD_BYTES;
        self.chunk.clear();
    }
}

/// The bits of a number, spread (Steele, Lea and Flood, 2014).
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_shrink_and_different_ones_do_not() {
        let equal = vec![b'x'; 500];
        let (mut alike, mut unlike) = (SsTable::default(), SsTable::default());
        for value in 0..1_000u64 {
            alike.add(&equal);
            let bytes = (0..63).flat_map(|n| mixed(value * 64 + n).to_le_bytes());
            unlike.add(&bytes.collect::<Vec<u8>>());
        }
        let (alike, unlike) = (alike.finish(), unlike.finish());
        assert_eq!((alike.values, alike.value_bytes), (1_000, 500_000));
        assert!(alike.disk_bytes < 30_000, "{alike:?}");
        assert!(unlike.disk_bytes > unlike.value_bytes, "{unlike:?}");
        assert!(
            unlike.disk_bytes < unlike.value_bytes * 104 / 100,
            "{unlike:?}"
        );
    }

    #[test]
    fn a_long_value_is_cut_into_chunks() {
        let mut table = SsTable::default();
        table.add(&vec![0; 1 << 20]);
        let estimate = table.finish();
        assert!(
            (64 * 16..64 * 200).contains(&estimate.disk_bytes),
            "{estimate:?}"
        );
    }
}
