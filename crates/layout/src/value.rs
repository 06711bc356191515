//! A column's value, as far as it can be compared and counted.

use std::cmp::Ordering;

use crate::rng::mix;

/// Values of one column are all of one kind; they sort as Cassandra sorts them if the caller has
/// chosen the kind accordingly.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value; sorts first. Key columns have none of these.
    Null,
    /// Whole numbers, booleans, dates and times.
    Int(i128),
    Float(f64),
    Text(Box<str>),
    /// Values of types that sort by their bytes.
    Bytes(Box<[u8]>),
}

impl Value {
    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Int(_) => 1,
            Value::Float(_) => 2,
            Value::Text(_) => 3,
            Value::Bytes(_) => 4,
        }
    }

    /// Equal values have equal hashes, in every run.
    pub(crate) fn hash64(&self) -> u64 {
        match self {
            Value::Null => mix(1),
            Value::Int(number) => hash_bytes(2, &number.to_le_bytes()),
            Value::Float(number) => hash_bytes(3, &number.to_bits().to_le_bytes()),
            Value::Text(text) => hash_bytes(4, text.as_bytes()),
            Value::Bytes(bytes) => hash_bytes(5, bytes),
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

/// The hash of a row's values in several columns, from theirs, in the order of the columns.
pub(crate) fn combine(hash: u64, next: u64) -> u64 {
    mix(hash.rotate_left(5) ^ next).wrapping_add(next)
}

/// FNV-1a with the bits spread afterwards.
fn hash_bytes(kind: u64, bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ kind;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    mix(bytes.iter().fold(start, step))
}
