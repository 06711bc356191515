//! Requests: borrowed views of the bodies of QUERY, PREPARE, EXECUTE and BATCH.

use crate::envelope::{Version, flags};
use crate::reader::{Malformed, Reader};
use crate::write;

/// A consistency level's number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Consistency(pub u16);

impl Consistency {
    pub const ANY: Consistency = Consistency(0);
    pub const ONE: Consistency = Consistency(1);
    pub const QUORUM: Consistency = Consistency(4);
    pub const ALL: Consistency = Consistency(5);
    pub const LOCAL_QUORUM: Consistency = Consistency(6);
    pub const EACH_QUORUM: Consistency = Consistency(7);
    pub const SERIAL: Consistency = Consistency(8);
    pub const LOCAL_SERIAL: Consistency = Consistency(9);
    pub const LOCAL_ONE: Consistency = Consistency(10);

    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::SERIAL | Consistency::LOCAL_SERIAL)
    }

    /// True if only replicas in the coordinator's data centre count.
    pub fn is_dc_local(self) -> bool {
        matches!(
            self,
            Consistency::LOCAL_ONE | Consistency::LOCAL_QUORUM | Consistency::LOCAL_SERIAL
        )
    }

    /// Its name in CQL.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::ANY => "ANY",
            Consistency::ONE => "ONE",
            Consistency(2) => "TWO",
            Consistency(3) => "THREE",
            Consistency::QUORUM => "QUORUM",
            Consistency::ALL => "ALL",
            Consistency::LOCAL_QUORUM => "LOCAL_QUORUM",
            Consistency::EACH_QUORUM => "EACH_QUORUM",
            Consistency::SERIAL => "SERIAL",
            Consistency::LOCAL_SERIAL => "LOCAL_SERIAL",
            Consistency::LOCAL_ONE => "LOCAL_ONE",
            Consistency(_) => "UNKNOWN",
        }
    }
}

/// Bits of the flags of QUERY, EXECUTE and BATCH.
pub mod query_flags {
    pub const VALUES: u32 = 0x001;
    pub const SKIP_METADATA: u32 = 0x002;
    pub const PAGE_SIZE: u32 = 0x004;
    pub const PAGING_STATE: u32 = 0x008;
    pub const SERIAL_CONSISTENCY: u32 = 0x010;
    pub const TIMESTAMP: u32 = 0x020;
    pub const NAMES: u32 = 0x040;
    pub const KEYSPACE: u32 = 0x080;
    pub const NOW_IN_SECONDS: u32 = 0x100;
}

/// One bound value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueRef<'a> {
    Set(&'a [u8]),
    Null,
    Unset,
}

/// Bound values of a statement, still in their body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    pub count: u16,
    pub named: bool,
    version: Option<Version>,
    raw: &'a [u8],
    /// Offset of `raw` in the body.
    raw_at: usize,
}

impl<'a> Values<'a> {
    fn parse(reader: &mut Reader<'a>, named: bool, version: Version) -> Result<Self, Malformed> {
        let count = reader.u16()?;
        let rest = reader.rest();
        let start = reader.position();
        for _ in 0..count {
            if named {
                reader.string()?;
            }
            read_value(reader, Some(version))?;
        }
        Ok(Values {
            count,
            named,
            version: Some(version),
            raw_at: start,
            raw: &rest[..reader.position() - start],
        })
    }

    /// Their bytes in the body, lengths included.
    pub(crate) fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Bytes that they have in the body.
    pub fn byte_len(&self) -> usize {
        self.raw.len()
    }

    /// Name (of named values) and value, in the order of the body.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&'a str>, ValueRef<'a>)> + use<'a> {
        let mut reader = Reader::new(self.raw);
        let (named, version) = (self.named, self.version);
        (0..self.count).map_while(move |_| {
            let name = if named {
                Some(reader.string().ok()?)
            } else {
                None
            };
            Some((name, read_value(&mut reader, version).ok()?))
        })
    }

    /// Offsets in the body of lengths that mean null only in v3.
    pub(crate) fn odd_nulls(&self) -> Vec<usize> {
        let mut reader = Reader::new(self.raw);
        let mut odd = Vec::new();
        for _ in 0..self.count {
            if self.named && reader.string().is_err() {
                break;
            }
            let at = reader.position();
            match reader.i32() {
                Ok(len) if len >= 0 => {
                    if reader.take(len as usize).is_err() {
                        break;
                    }
                }
                Ok(-1) => {}
                Ok(_) => odd.push(self.raw_at + at),
                Err(_) => break,
            }
        }
        odd
    }

    /// The value at a position.
    pub fn get(&self, index: usize) -> Option<ValueRef<'a>> {
        self.iter().nth(index).map(|(_, value)| value)
    }

    /// The value of a name.
    pub fn named(&self, name: &str) -> Option<ValueRef<'a>> {
        self.iter()
            .find(|(n, _)| *n == Some(name))
            .map(|(_, value)| value)
    }
}

fn read_value<'a>(
    reader: &mut Reader<'a>,
    version: Option<Version>,
) -> Result<ValueRef<'a>, Malformed> {
    let len = reader.i32()?;
    match len {
        0.. => Ok(ValueRef::Set(reader.take(len as usize)?)),
        // Up to v3 every negative length is null.
        _ if version == Some(Version::V3) => Ok(ValueRef::Null),
        -1 => Ok(ValueRef::Null),
        -2 => Ok(ValueRef::Unset),
        _ => Err(Malformed("a value has an invalid length")),
    }
}

const KEYSPACE_BEFORE_V5: Malformed = Malformed(
    "flag 0x80 (a keyspace of the request) is not part of this protocol version: use v5, or name the keyspace \
     in the statement",
);

/// The part behind the statement in QUERY and EXECUTE, and behind the statements in BATCH: a node reads the values
/// and the page of a BATCH, too, before it goes on without them.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub consistency: Consistency,
    /// See [`query_flags`].
    pub flags: u32,
    pub values: Values<'a>,
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<Consistency>,
    pub timestamp: Option<i64>,
    pub keyspace: Option<&'a str>,
    pub now_in_seconds: Option<i32>,
    /// Offset of the flags in the body.
    pub(crate) flags_at: usize,
    /// Offsets of the start and end of page size and paging state; if absent, of where they belong.
    pub(crate) page_at: usize,
    pub(crate) behind_page_at: usize,
    /// Offset of the keyspace; if absent, of where it belongs.
    pub(crate) keyspace_at: usize,
}

/// A part of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Maximum number of rows.
    pub size: i32,
    /// Paging state where it starts; `None`: at the beginning.
    pub state: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Where they begin in the body, with the consistency level.
    pub fn begins_at(&self) -> usize {
        self.flags_at.saturating_sub(2)
    }

    /// Position of the timestamp in the body, if there is one.
    pub fn timestamp_at(&self) -> Option<usize> {
        self.timestamp.map(|_| self.keyspace_at - 8)
    }

    fn parse(reader: &mut Reader<'a>, version: Version) -> Result<Self, Malformed> {
        use query_flags::*;
        let consistency = Consistency(reader.u16()?);
        let flags_at = reader.position();
        let v5 = version == Version::V5;
        let flags = match v5 {
            true => reader.u32()?,
            false => u32::from(reader.u8()?),
        };
        // A node obeys this flag in every version. It ignores those that v5 does not have either.
        if !v5 && flags & KEYSPACE != 0 {
            return Err(KEYSPACE_BEFORE_V5);
        }
        let has = |bit: u32| flags & bit != 0;
        let values = if has(VALUES) {
            Values::parse(reader, has(NAMES), version)?
        } else {
            Values::default()
        };
        let page_at = reader.position();
        let page_size = has(PAGE_SIZE).then(|| reader.i32()).transpose()?;
        let paging_state = if has(PAGING_STATE) {
            reader.bytes()?
        } else {
            None
        };
        let behind_page_at = reader.position();
        let serial_consistency = has(SERIAL_CONSISTENCY)
            .then(|| reader.u16().map(Consistency))
            .transpose()?;
        let timestamp = has(TIMESTAMP).then(|| reader.i64()).transpose()?;
        let keyspace_at = reader.position();
        let keyspace = has(KEYSPACE).then(|| reader.string()).transpose()?;
        let now_in_seconds = (v5 && has(NOW_IN_SECONDS))
            .then(|| reader.i32())
            .transpose()?;
        Ok(Options {
            consistency,
            flags,
            values,
            page_size,
            paging_state,
            serial_consistency,
            timestamp,
            keyspace,
            now_in_seconds,
            flags_at,
            page_at,
            behind_page_at,
            keyspace_at,
        })
    }
}

/// Body of QUERY.
#[derive(Clone, Copy, Debug)]
pub struct QueryView<'a> {
    pub text: &'a str,
    pub options: Options<'a>,
}

impl<'a> QueryView<'a> {
    pub fn parse(body: &'a [u8], version: Version) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let text = reader.long_string()?;
        Ok(QueryView {
            text,
            options: Options::parse(&mut reader, version)?,
        })
    }
}

/// Appends the body of a QUERY of version `to` with another request's options: its values except
/// those at `without`, another page, and a keyspace if the version supports one. Named values are
/// not supported: returns false, with nothing written.
pub fn write_query(
    text: &str,
    options: &Options<'_>,
    without: &[u16],
    page: Page<'_>,
    to: Version,
    keyspace: Option<&str>,
    out: &mut Vec<u8>,
) -> bool {
    let all = usize::from(options.values.count);
    let Some(count) = all.checked_sub(without.len()) else {
        return false;
    };
    if options.values.named {
        return false;
    }
    let kept = |at: &usize| !without.iter().any(|w| usize::from(*w) == *at);
    let values = options.values.iter().enumerate();
    let values = values.filter(|(at, _)| kept(at)).map(|(_, (_, v))| v);
    write::long_string(out, text);
    let keyspace = options.keyspace.or(keyspace);
    write_options(options, count, values, page, to, keyspace, out);
    true
}

/// As `write_query`, with `values`, by position, in place of those of `options`.
pub fn write_query_of<'a>(
    text: &str,
    options: &Options<'_>,
    values: &[ValueRef<'a>],
    page: Page<'_>,
    to: Version,
    out: &mut Vec<u8>,
) {
    write::long_string(out, text);
    let count = values.len();
    let values = values.iter().copied();
    write_options(options, count, values, page, to, options.keyspace, out);
}

/// The ids that nodes have given to a prepared statement and, from v5 on, to the columns of its result.
#[derive(Clone, Copy, Debug)]
pub struct PreparedIds<'a> {
    pub statement: &'a [u8],
    pub result_metadata: Option<&'a [u8]>,
}

/// Appends the body of an EXECUTE of version `to` with another request's options, but other values,
/// another page, and metadata with the rows.
pub fn write_execute<'a>(
    ids: PreparedIds<'_>,
    options: &Options<'_>,
    values: &[ValueRef<'a>],
    page: Page<'_>,
    to: Version,
    out: &mut Vec<u8>,
) {
    write::short_bytes(out, ids.statement);
    if to == Version::V5 {
        write::short_bytes(out, ids.result_metadata.unwrap_or(&[]));
    }
    let options = Options {
        flags: options.flags & !query_flags::SKIP_METADATA,
        ..*options
    };
    let count = values.len();
    let values = values.iter().copied();
    write_options(&options, count, values, page, to, None, out);
}

fn write_options<'a>(
    options: &Options<'_>,
    count: usize,
    values: impl Iterator<Item = ValueRef<'a>>,
    page: Page<'_>,
    to: Version,
    keyspace: Option<&str>,
    out: &mut Vec<u8>,
) {
    use query_flags::*;
    let keyspace = keyspace.filter(|_| to == Version::V5);
    let now_in_seconds = options.now_in_seconds.filter(|_| to == Version::V5);
    let mut flags = options.flags & SKIP_METADATA | PAGE_SIZE;
    let set = |on: bool, bit: u32| if on { bit } else { 0 };
    flags |= set(options.serial_consistency.is_some(), SERIAL_CONSISTENCY);
    flags |= set(options.timestamp.is_some(), TIMESTAMP);
    flags |= set(count > 0, VALUES);
    flags |= set(page.state.is_some(), PAGING_STATE);
    flags |= set(keyspace.is_some(), KEYSPACE);
    flags |= set(now_in_seconds.is_some(), NOW_IN_SECONDS);
    write::u16(out, options.consistency.0);
    match to {
        Version::V5 => write::u32(out, flags),
        _ => out.push(flags as u8),
    }
    if count > 0 {
        write::u16(out, count as u16);
        for value in values {
            match value {
                ValueRef::Set(bytes) => write::bytes(out, Some(bytes)),
                ValueRef::Null => write::i32(out, -1),
                ValueRef::Unset => write::i32(out, -2),
            }
        }
    }
    write::i32(out, page.size);
    if let Some(state) = page.state {
        write::bytes(out, Some(state));
    }
    if let Some(serial) = options.serial_consistency {
        write::u16(out, serial.0);
    }
    if let Some(timestamp) = options.timestamp {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
    if let Some(keyspace) = keyspace {
        write::string(out, keyspace);
    }
    if let Some(now) = now_in_seconds {
        write::i32(out, now);
    }
}

/// Body of PREPARE.
#[derive(Clone, Copy, Debug)]
pub struct PrepareView<'a> {
    pub text: &'a str,
    pub keyspace: Option<&'a str>,
}

impl<'a> PrepareView<'a> {
    pub fn parse(body: &'a [u8], version: Version) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let text = reader.long_string()?;
        let mut keyspace = None;
        if version == Version::V5 && reader.u32()? & 1 != 0 {
            keyspace = Some(reader.string()?);
        }
        Ok(PrepareView { text, keyspace })
    }
}

/// Body of EXECUTE.
#[derive(Clone, Copy, Debug)]
pub struct ExecuteView<'a> {
    pub id: &'a [u8],
    /// v5 only.
    pub result_metadata_id: Option<&'a [u8]>,
    pub options: Options<'a>,
}

impl<'a> ExecuteView<'a> {
    pub fn parse(body: &'a [u8], version: Version) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let id = reader.short_bytes()?;
        let result_metadata_id = match version {
            Version::V5 => Some(reader.short_bytes()?),
            _ => None,
        };
        let options = Options::parse(&mut reader, version)?;
        Ok(ExecuteView {
            id,
            result_metadata_id,
            options,
        })
    }
}

/// One statement of a BATCH.
#[derive(Clone, Copy, Debug)]
pub enum BatchChild<'a> {
    Text(&'a str, Values<'a>),
    Prepared(&'a [u8], Values<'a>),
}

/// Body of BATCH.
#[derive(Clone, Debug)]
pub struct BatchView<'a> {
    /// 0 logged, 1 unlogged, 2 counter.
    pub batch_type: u8,
    pub children: Vec<BatchChild<'a>>,
    pub options: Options<'a>,
}

impl<'a> BatchView<'a> {
    pub fn parse(body: &'a [u8], version: Version) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let batch_type = reader.u8()?;
        let count = reader.u16()?;
        let mut children = Vec::with_capacity(usize::from(count.min(256)));
        for _ in 0..count {
            children.push(match reader.u8()? {
                0 => {
                    let text = reader.long_string()?;
                    BatchChild::Text(text, Values::parse(&mut reader, false, version)?)
                }
                1 => {
                    let id = reader.short_bytes()?;
                    BatchChild::Prepared(id, Values::parse(&mut reader, false, version)?)
                }
                _ => return Err(Malformed("invalid query kind in a batch")),
            });
        }
        let options = Options::parse(&mut reader, version)?;
        Ok(BatchView {
            batch_type,
            children,
            options,
        })
    }
}

/// The body of a request behind its custom payload.
///
/// # Errors
/// In v3, which has none: a node that is spoken to in another version would take the flag for one.
#[inline]
pub fn strip_payload(header_flags: u8, version: Version, body: &[u8]) -> Result<&[u8], Malformed> {
    if header_flags & flags::CUSTOM_PAYLOAD == 0 {
        return Ok(body);
    }
    if version < Version::V4 {
        return Err(Malformed(
            "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4",
        ));
    }
    let mut reader = Reader::new(body);
    reader.skip_bytes_map()?;
    Ok(reader.rest())
}
