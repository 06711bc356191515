//! The order of CQL values, of the types where it is simple: that of MIN and MAX, of the keys of an `IN`,
//! and of the rows of a partition.

use std::cmp::Ordering;

/// The bytes of a type's values and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Two's complement, so many bytes.
    Signed(usize),
    Float,
    Double,
    Bytes,
    /// Bytes of this number.
    Fixed(usize),
    /// By version, of version 1 by time, then by bytes.
    Uuid,
    /// By time, then by signed bytes.
    TimeUuid,
}

impl Order {
    /// Of a type as the protocol describes it; `None` if it is not known here.
    pub(crate) fn of_type(raw: &[u8]) -> Option<Order> {
        // Collections and others have more than the number.
        match u16::from_be_bytes(raw.try_into().ok()?) {
            0x01 | 0x03 | 0x0D => Some(Order::Bytes),
            0x02 | 0x0B => Some(Order::Signed(8)),
            0x07 => Some(Order::Double),
            0x08 => Some(Order::Float),
            0x09 => Some(Order::Signed(4)),
            0x0C => Some(Order::Uuid),
            0x0F => Some(Order::TimeUuid),
            // A date's days count from −2³¹.
            0x11 => Some(Order::Fixed(4)),
            0x12 => Some(Order::Fixed(8)),
            0x13 => Some(Order::Signed(2)),
            0x14 => Some(Order::Signed(1)),
            _ => None,
        }
    }

    /// Of a type by its CQL name.
    pub(crate) fn of_name(name: &str) -> Option<Order> {
        let number: u16 = match name {
            "ascii" => 0x01,
            "bigint" => 0x02,
            "blob" => 0x03,
            "timestamp" => 0x0B,
            "int" => 0x09,
            "uuid" => 0x0C,
            "text" | "varchar" => 0x0D,
            "timeuuid" => 0x0F,
            "date" => 0x11,
            "time" => 0x12,
            "smallint" => 0x13,
            "tinyint" => 0x14,
            _ => return None,
        };
        Order::of_type(&number.to_be_bytes())
    }

    /// Of a type by its CQL name, where the values are clustering keys that nodes have given.
    pub(crate) fn of_clustering(name: &str) -> Option<Order> {
        match name {
            "double" => Some(Order::Double),
            "float" => Some(Order::Float),
            _ => Order::of_name(name),
        }
    }

    /// `None` if one of them is no value of the type, such as an empty one.
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        Some(match self {
            Order::Bytes => a.cmp(b),
            Order::Fixed(width) => match a.len() == width && b.len() == width {
                true => a.cmp(b),
                false => return None,
            },
            Order::Signed(width) => number(a, width)?.cmp(&number(b, width)?),
            Order::Double => double(a)?.total_cmp(&double(b)?),
            Order::Float => float(a)?.total_cmp(&float(b)?),
            Order::Uuid => uuid(a)?.cmp(&uuid(b)?),
            Order::TimeUuid => time_uuid(a)?.cmp(&time_uuid(b)?),
        })
    }
}

/// A whole number of so many bytes.
pub(crate) fn number(cell: &[u8], width: usize) -> Option<i64> {
    if cell.len() != width || !(1..=8).contains(&width) {
        return None;
    }
    let mut bytes = match cell[0] & 0x80 {
        0 => [0; 8],
        _ => [0xFF; 8],
    };
    bytes[8 - width..].copy_from_slice(cell);
    Some(i64::from_be_bytes(bytes))
}

/// As Java compares: all NaN are alike and above all else, and −0 is below 0.
fn double(cell: &[u8]) -> Option<f64> {
    let number = f64::from_be_bytes(cell.try_into().ok()?);
    Some(if number.is_nan() { f64::NAN } else { number })
}

fn float(cell: &[u8]) -> Option<f32> {
    let number = f32::from_be_bytes(cell.try_into().ok()?);
    Some(if number.is_nan() { f32::NAN } else { number })
}

fn halves(cell: &[u8]) -> Option<(u64, u64)> {
    let bits = u128::from_be_bytes(cell.try_into().ok()?);
    Some(((bits >> 64) as u64, bits as u64))
}

fn uuid(cell: &[u8]) -> Option<(u64, u64, u64)> {
    let (high, low) = halves(cell)?;
    let version = high >> 12 & 0xF;
    let first = if version == 1 { time(high) } else { high };
    Some((version, first, low))
}

fn time_uuid(cell: &[u8]) -> Option<(u64, u64)> {
    let (high, low) = halves(cell)?;
    // Each of its bytes is signed.
    (high >> 12 & 0xF == 1).then_some((time(high), low ^ 0x8080_8080_8080_8080))
}

/// The time in the first half of a UUID of version 1, which begins with its lowest bits.
fn time(high: u64) -> u64 {
    (high & 0xFFF) << 48 | (high >> 16 & 0xFFFF) << 32 | high >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_in_the_nodes_order() {
        let cell = |text: &str| {
            let hex: String = text.chars().filter(|c| *c != '-').collect();
            u128::from_str_radix(&hex, 16).unwrap().to_be_bytes()
        };
        // Each is above the one before, as UUIDs; the first three also as time-based ones.
        let sorted = [
            "ffffffff-0000-1000-8000-000000000000",
            "00000000-0001-1000-8000-000000000000",
            "00000000-0001-1000-7f00-000000000000",
            "00000000-0000-1001-8000-000000000000",
            "00000000-0000-4000-8000-000000000000",
            "7fffffff-0000-4000-8000-000000000000",
            "80000000-0000-4000-8000-000000000000",
        ]
        .map(cell);
        let above = |order: Order, a: usize, b: usize| order.compare(&sorted[a], &sorted[b]);
        for (a, b) in [(1, 0), (3, 2), (4, 3), (5, 4), (6, 5)] {
            assert_eq!(above(Order::Uuid, a, b), Some(Ordering::Greater), "{a} {b}");
        }
        assert_eq!(
            above(Order::Uuid, 1, 2),
            Some(Ordering::Greater),
            "unsigned"
        );
        for (a, b) in [(1, 0), (2, 1), (3, 2)] {
            assert_eq!(
                above(Order::TimeUuid, a, b),
                Some(Ordering::Greater),
                "{a} {b}"
            );
        }
        assert_eq!(above(Order::TimeUuid, 4, 3), None, "not of version 1");
        assert_eq!(Order::Uuid.compare(&[], &sorted[0]), None);
    }
}
