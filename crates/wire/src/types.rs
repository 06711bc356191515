//! Column types in metadata.

use crate::envelope::Version;
use crate::reader::{Malformed, Reader};
use crate::write;

const CUSTOM: u16 = 0x0000;
const LIST: u16 = 0x0020;
const MAP: u16 = 0x0021;
const SET: u16 = 0x0022;
const UDT: u16 = 0x0030;
const TUPLE: u16 = 0x0031;

/// Deeper nesting is rejected: no real schema has it, and a hostile peer must not exhaust the
/// stack.
const DEPTH_MAX: u32 = 64;

/// A column's type: the id of its outermost option, and its encoded description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType<'a> {
    /// Option id, for instance 0x0009 for `int`.
    pub id: u16,
    /// The whole option, in wire encoding.
    pub raw: &'a [u8],
}

/// Name and type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec<'a> {
    pub keyspace: &'a str,
    pub table: &'a str,
    pub name: &'a str,
    pub column_type: ColumnType<'a>,
}

impl<'a> ColumnType<'a> {
    /// `text`.
    pub const VARCHAR: ColumnType<'static> = ColumnType {
        id: 0x0d,
        raw: &[0, 0x0d],
    };

    pub fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let whole = reader.rest();
        let start = reader.position();
        let id = skip_type(reader, DEPTH_MAX)?;
        Ok(ColumnType {
            id,
            raw: &whole[..reader.position() - start],
        })
    }
}

fn skip_type(reader: &mut Reader<'_>, depth: u32) -> Result<u16, Malformed> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Malformed("a type is nested too deeply"));
    };
    let id = reader.u16()?;
    match id {
        CUSTOM => {
            reader.string()?;
        }
        LIST | SET => {
            skip_type(reader, depth)?;
        }
        MAP => {
            skip_type(reader, depth)?;
            skip_type(reader, depth)?;
        }
        UDT => {
            reader.string()?;
            reader.string()?;
            for _ in 0..reader.u16()? {
                reader.string()?;
                skip_type(reader, depth)?;
            }
        }
        TUPLE => {
            for _ in 0..reader.u16()? {
                skip_type(reader, depth)?;
            }
        }
        _ => {}
    }
    Ok(id)
}

/// The Java class with which Cassandra describes a type to a client whose version has no id for it.
fn class_for_older(id: u16, version: Version) -> Option<&'static str> {
    let (since, class) = match id {
        0x11 => (
            Version::V4,
            "org.apache.cassandra.db.marshal.SimpleDateType",
        ),
        0x12 => (Version::V4, "org.apache.cassandra.db.marshal.TimeType"),
        0x13 => (Version::V4, "org.apache.cassandra.db.marshal.ShortType"),
        0x14 => (Version::V4, "org.apache.cassandra.db.marshal.ByteType"),
        0x15 => (Version::V5, "org.apache.cassandra.db.marshal.DurationType"),
        _ => return None,
    };
    (version < since).then_some(class)
}

/// Copies one type option to `out` in the encoding of `version`. Returns whether anything changed.
pub(crate) fn copy_type(
    reader: &mut Reader<'_>,
    version: Version,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    copy_type_at(reader, version, out, DEPTH_MAX)
}

fn copy_type_at(
    reader: &mut Reader<'_>,
    version: Version,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<bool, Malformed> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Malformed("a type is nested too deeply"));
    };
    let id = reader.u16()?;
    if let Some(class) = class_for_older(id, version) {
        write::u16(out, CUSTOM);
        write::string(out, class);
        return Ok(true);
    }
    write::u16(out, id);
    let mut changed = false;
    match id {
        CUSTOM => write::string(out, reader.string()?),
        LIST | SET => changed |= copy_type_at(reader, version, out, depth)?,
        MAP => {
            changed |= copy_type_at(reader, version, out, depth)?;
            changed |= copy_type_at(reader, version, out, depth)?;
        }
        UDT => {
            write::string(out, reader.string()?);
            write::string(out, reader.string()?);
            let n = reader.u16()?;
            write::u16(out, n);
            for _ in 0..n {
                write::string(out, reader.string()?);
                changed |= copy_type_at(reader, version, out, depth)?;
            }
        }
        TUPLE => {
            let n = reader.u16()?;
            write::u16(out, n);
            for _ in 0..n {
                changed |= copy_type_at(reader, version, out, depth)?;
            }
        }
        _ => {}
    }
    Ok(changed)
}
