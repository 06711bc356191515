//! Values that are made up: the same for the same partition key and column, so that hot keys stay hot.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use helenus_wire::{ColumnType, Reader, write};

/// Bytes of texts and blobs whose size nobody knows.
const SIZE: u32 = 16;
/// Longer ones are cut to this.
const SIZE_MAX: u32 = 16 << 20;
/// Numbers of markers that stand for no column.
const LIMIT: i32 = 1_000;
const TTL_S: i32 = 86_400;

/// The source of a value that is made up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made<'a> {
    /// Hash of the partition's key.
    pub key: u64,
    /// The column's name.
    pub name: &'a str,
    /// Bytes, where the type leaves a choice.
    pub size: Option<u32>,
}

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_micros() as i64
}

impl Made<'_> {
    fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.key, self.name).hash(&mut hasher);
        hasher.finish()
    }

    /// A value of a type; None if none can be made up.
    pub(super) fn of(&self, column_type: ColumnType<'_>) -> Option<Vec<u8>> {
        match self.name {
            "[limit]" | "[per_partition_limit]" => return Some(LIMIT.to_be_bytes().into()),
            "[ttl]" => return Some(TTL_S.to_be_bytes().into()),
            // Later writes must not be hidden by it.
            "[timestamp]" => return Some(now_us().to_be_bytes().into()),
            // A document with the table's columns.
            "[json]" => return None,
            _ => {}
        }
        let number = self.number();
        let long = number.to_be_bytes();
        let size = self.size.unwrap_or(SIZE).min(SIZE_MAX) as usize;
        Some(match column_type.id {
            // ascii, text, varchar
            0x01 | 0x0A | 0x0D => {
                let digits = format!("{number:016x}");
                digits.bytes().cycle().take(size).collect()
            }
            // blob
            0x03 => long.into_iter().cycle().take(size).collect(),
            // bigint, counter
            0x02 | 0x05 => long.into(),
            0x04 => vec![(number & 1) as u8],
            // decimal: scale 2
            0x06 => [&[0, 0, 0, 2], &long[4..]].concat(),
            0x07 => ((number >> 11) as f64).to_be_bytes().into(),
            0x08 => ((number >> 40) as f32).to_be_bytes().into(),
            0x09 => long[..4].into(),
            // timestamp: of the years before now
            0x0B => (1_700_000_000_000 - (number >> 26) as i64)
                .to_be_bytes()
                .into(),
            0x0C => uuid(number, 4),
            // varint
            0x0E => long.into(),
            0x0F => uuid(number, 1),
            // inet
            0x10 => long[..4].into(),
            // date: days around 1970
            0x11 => ((1 << 31) + (number % 20_000) as u32).to_be_bytes().into(),
            // time of a day
            0x12 => (number % 86_400_000_000_000).to_be_bytes().into(),
            0x13 => long[..2].into(),
            0x14 => long[..1].into(),
            // duration
            0x15 => vec![0, 0, 0],
            // list and set, of one element; map, of one pair
            0x20 | 0x22 => self.collection(column_type, 1)?,
            0x21 => self.collection(column_type, 2)?,
            _ => return None,
        })
    }

    fn collection(&self, column_type: ColumnType<'_>, each: usize) -> Option<Vec<u8>> {
        let mut reader = Reader::new(column_type.raw.get(2..)?);
        let mut out = Vec::new();
        write::i32(&mut out, 1);
        for _ in 0..each {
            let inner = ColumnType::parse(&mut reader).ok()?;
            write::bytes(&mut out, Some(&self.of(inner)?));
        }
        Some(out)
    }
}

fn uuid(number: u64, version: u8) -> Vec<u8> {
    let mut bytes = [number, number.rotate_left(32)]
        .map(u64::to_be_bytes)
        .concat();
    bytes[6] = bytes[6] & 0x0F | version << 4;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}
