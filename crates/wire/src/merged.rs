//! Several EXECUTEs as one unlogged BATCH.

use crate::envelope::Version;
use crate::reader::Reader;
use crate::request::{Consistency, Values, query_flags};
use crate::write;

/// The type of a batch without a batch log.
const UNLOGGED: u8 = 1;

/// Appends the beginning of an unlogged BATCH of so many prepared statements.
pub fn begin_unlogged_batch(children: u16, out: &mut Vec<u8>) {
    out.push(UNLOGGED);
    write::u16(out, children);
}

/// Appends a statement of a BATCH: its id and its values, which have no names. `timestamp`: one more value,
/// in microseconds, and the number of the value that it goes before; behind the last one if there are
/// fewer.
pub fn push_batch_child(
    id: &[u8],
    values: &Values<'_>,
    timestamp: Option<(u16, i64)>,
    out: &mut Vec<u8>,
) {
    debug_assert!(!values.named, "a batch has no names of values");
    let raw = values.raw();
    out.push(1);
    write::short_bytes(out, id);
    let Some((before, timestamp)) = timestamp else {
        write::u16(out, values.count);
        return out.extend_from_slice(raw);
    };
    let (front, behind) = raw.split_at(offset_of(raw, before));
    write::u16(out, values.count.saturating_add(1));
    out.extend_from_slice(front);
    write::bytes(out, Some(&timestamp.to_be_bytes()));
    out.extend_from_slice(behind);
}

/// Appends the end of a BATCH with nothing but consistency levels.
pub fn end_batch(
    consistency: Consistency,
    serial: Option<Consistency>,
    version: Version,
    out: &mut Vec<u8>,
) {
    write::u16(out, consistency.0);
    let flags = match serial {
        Some(_) => query_flags::SERIAL_CONSISTENCY,
        None => 0,
    };
    match version {
        Version::V5 => write::u32(out, flags),
        _ => out.push(flags as u8),
    }
    if let Some(serial) = serial {
        write::u16(out, serial.0);
    }
}

/// Where the value with that number begins, or the values end.
fn offset_of(raw: &[u8], number: u16) -> usize {
    let mut reader = Reader::new(raw);
    for _ in 0..number {
        let skipped = reader.i32().and_then(|len| match usize::try_from(len) {
            Ok(len) => reader.take(len).map(|_| ()),
            Err(_) => Ok(()),
        });
        if skipped.is_err() {
            break;
        }
    }
    reader.position()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{BatchChild, BatchView, ExecuteView, ValueRef};

    fn execute(version: Version, values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = Vec::new();
        write::short_bytes(&mut body, b"own");
        if version == Version::V5 {
            write::short_bytes(&mut body, b"result");
        }
        write::u16(&mut body, Consistency::QUORUM.0);
        match version {
            Version::V5 => body.extend_from_slice(&[0, 0, 0, 1]),
            _ => body.push(1),
        }
        write::u16(&mut body, values.len() as u16);
        for value in values {
            write::bytes(&mut body, *value);
        }
        body
    }

    #[test]
    fn a_batch_holds_the_values_of_each_and_its_timestamp() {
        for version in [Version::V4, Version::V5] {
            let body = execute(version, &[Some(b"one"), None, Some(b"")]);
            let view = ExecuteView::parse(&body, version).expect("an EXECUTE");
            let mut batch = Vec::new();
            begin_unlogged_batch(3, &mut batch);
            let values = &view.options.values;
            push_batch_child(b"first", values, Some((0, 7)), &mut batch);
            push_batch_child(b"last", values, Some((3, -8)), &mut batch);
            push_batch_child(b"own", values, None, &mut batch);
            let serial = Some(Consistency(9));
            end_batch(Consistency::QUORUM, serial, version, &mut batch);
            let batch = BatchView::parse(&batch, version).expect("a BATCH");
            assert_eq!(batch.batch_type, 1);
            assert_eq!(batch.options.consistency, Consistency::QUORUM);
            assert_eq!(batch.options.serial_consistency, serial);
            assert_eq!(batch.options.timestamp, None);
            let own = [ValueRef::Set(b"one"), ValueRef::Null, ValueRef::Set(b"")];
            let (seven, eight) = (7_i64.to_be_bytes(), (-8_i64).to_be_bytes());
            let first = [&[ValueRef::Set(&seven)], &own[..]].concat();
            let last = [&own[..], &[ValueRef::Set(&eight)]].concat();
            let expected: [(&[u8], &[ValueRef<'_>]); 3] =
                [(b"first", &first), (b"last", &last), (b"own", &own)];
            for (child, (id, values)) in batch.children.iter().zip(expected) {
                let BatchChild::Prepared(its, of) = child else {
                    panic!("a text");
                };
                assert_eq!(*its, id);
                let of: Vec<ValueRef<'_>> = of.iter().map(|(_, value)| value).collect();
                assert_eq!(of, values);
            }
        }
    }
}
