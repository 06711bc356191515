//! The part of an answer that is compared: everything but ids, paging states and the name of the keyspace.

use anyhow::{Result, anyhow};
use helenus_wire::{ColumnType, Opcode, Reader, Version, code, flags, strip_prelude, write};

use crate::client::Answer;
use crate::request::Known;

/// Depends on the keyspace of the link that a statement came by, and quotes the statement's id.
const USE_WARNING: &str = "`USE <keyspace>` with prepared statements";

/// An answer without what may differ, and what the client needs from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub flags: u8,
    pub opcode: u8,
    pub body: Vec<u8>,
    pub paging_state: Option<Vec<u8>>,
    pub prepared: Option<Known>,
    pub metadata_id: Option<Vec<u8>>,
    pub error: Option<i32>,
    pub schema_change: bool,
    pub warned: bool,
    pub rows: bool,
    /// How many columns rows have.
    pub columns: u32,
    /// Rows came without the metadata of their columns.
    pub no_metadata: bool,
    /// The body of rows without their metadata.
    pub without_metadata: Option<Vec<u8>>,
    /// v5 speaks of changed metadata.
    pub newest: bool,
}

impl Seen {
    pub(crate) fn same(&self, other: &Seen) -> bool {
        let unreadable = b"malformed message: ";
        if self.error == Some(code::PROTOCOL)
            && other.error == self.error
            && other
                .body
                .windows(unreadable.len())
                .any(|w| w == unreadable)
        {
            // The proxy refuses it before a node sees it, in its own words.
            return true;
        }
        if let (Some(own), Some(others)) = (&self.without_metadata, &other.without_metadata)
            && self.no_metadata
            && !other.no_metadata
            && !self.newest
        {
            // The client asked for none, but what was prepared has changed since; see
            // docs/transparency.md.
            return own == others;
        }
        (self.flags, self.opcode, &self.body) == (other.flags, other.opcode, &other.body)
    }
}

/// Takes an answer apart. `theirs` is replaced by `ours` (of the same length) wherever it stands.
pub(crate) fn see(answer: &Answer, version: Version, theirs: &str, ours: &str) -> Result<Seen> {
    let malformed = |e: helenus_wire::Malformed| anyhow!("{e} in {answer:02x?}");
    let mut seen = Seen {
        flags: answer.flags,
        opcode: answer.opcode,
        warned: answer.flags & flags::WARNING != 0,
        ..Seen::default()
    };
    let (prelude, message) = strip_prelude(answer.flags, &answer.body).map_err(malformed)?;
    let tracing = if answer.flags & flags::TRACING != 0 {
        16
    } else {
        0
    };
    let mut rest = Reader::new(&prelude[tracing..]);
    if answer.flags & flags::WARNING != 0 {
        let mut warnings = rest.string_list().map_err(malformed)?;
        warnings.retain(|warning| !warning.starts_with(USE_WARNING));
        let sorted: Vec<String> = warnings.iter().map(|w| in_order(w)).collect();
        let warnings: Vec<&str> = sorted.iter().map(String::as_str).collect();
        if warnings.is_empty() {
            seen.flags &= !flags::WARNING;
        } else {
            write::string_list(&mut seen.body, &warnings);
        }
    }
    seen.body.extend_from_slice(rest.rest());
    let mut reader = Reader::new(message);
    if answer.opcode == Opcode::Error as u8 {
        seen.error = Some(reader.i32().map_err(malformed)?);
    }
    if matches!(
        seen.error,
        Some(code::READ_FAILURE) | Some(code::WRITE_FAILURE)
    ) {
        failure(&mut reader, version, &mut seen).map_err(malformed)?;
    } else if seen.error.is_some() {
        // Cassandra lists the overloads of a function in the order of a hash table.
        let listed = b" (known type signatures: ";
        let end = message.windows(listed.len()).position(|w| w == listed);
        let start = if end.is_some() { 6 } else { 0 };
        seen.body
            .extend_from_slice(&message[start..end.unwrap_or(message.len())]);
    } else if answer.opcode == Opcode::Result as u8 {
        result(&mut reader, version, &mut seen).map_err(malformed)?;
        seen.body.extend_from_slice(reader.rest());
    } else {
        seen.body.extend_from_slice(message);
    }
    if seen.error == Some(code::UNPREPARED) {
        seen.body.clear();
    }
    let (theirs, ours) = (theirs.as_bytes(), ours.as_bytes());
    for at in 0..seen.body.len().saturating_sub(theirs.len() - 1) {
        if seen.body[at..].starts_with(theirs) {
            seen.body[at..at + ours.len()].copy_from_slice(ours);
        }
    }
    Ok(seen)
}

/// A batch's warning lists its tables in the order of a hash table of their ids, which twins do not
/// share.
fn in_order(warning: &str) -> String {
    let listed = warning
        .split_once("Batch for [")
        .and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
    match listed {
        Some((before, (tables, behind))) => {
            let mut tables: Vec<&str> = tables.split(", ").collect();
            tables.sort_unstable();
            format!("{before}Batch for [{}]{behind}", tables.join(", "))
        }
        None => warning.to_owned(),
    }
}

fn skip_columns(
    reader: &mut Reader<'_>,
    global: bool,
    count: u32,
) -> Result<(), helenus_wire::Malformed> {
    if global {
        reader.string()?;
        reader.string()?;
    }
    for _ in 0..count {
        if !global {
            reader.string()?;
            reader.string()?;
        }
        reader.string()?;
        ColumnType::parse(reader)?;
    }
    Ok(())
}

/// Which replicas failed depends on which of them were asked, and so on the coordinator.
fn failure(
    reader: &mut Reader<'_>,
    version: Version,
    seen: &mut Seen,
) -> Result<(), helenus_wire::Malformed> {
    let text = reader.string()?;
    let (text, failed) = text.split_once(" failures: ").unwrap_or((text, ""));
    let mut reasons: Vec<&str> = failed
        .split(", ")
        .map(|reason| reason.split_once(" from ").map_or(reason, |(why, _)| why))
        .collect();
    reasons.sort_unstable();
    write::string(&mut seen.body, text);
    write::string_list(&mut seen.body, &reasons);
    write::u16(&mut seen.body, reader.u16()?);
    write::i32(&mut seen.body, reader.i32()?);
    write::i32(&mut seen.body, reader.i32()?);
    let count = reader.i32()?;
    write::i32(&mut seen.body, count);
    if version == Version::V5 {
        let mut codes = Vec::new();
        for _ in 0..count {
            reader.inet_addr()?;
            codes.push(reader.u16()?);
        }
        codes.sort_unstable();
        for code in codes {
            write::u16(&mut seen.body, code);
        }
    }
    seen.body.extend_from_slice(reader.rest());
    Ok(())
}

fn result(
    reader: &mut Reader<'_>,
    version: Version,
    seen: &mut Seen,
) -> Result<(), helenus_wire::Malformed> {
    let kind = reader.i32()?;
    write::i32(&mut seen.body, kind);
    match kind {
        2 => {
            seen.rows = true;
            let flags = reader.u32()?;
            let count = reader.u32()?;
            write::u32(&mut seen.body, flags);
            write::u32(&mut seen.body, count);
            if flags & 2 != 0 {
                seen.paging_state = reader.bytes()?.map(<[u8]>::to_vec);
            }
            if flags & 8 != 0 {
                seen.metadata_id = Some(reader.short_bytes()?.to_vec());
            }
            seen.newest = version == Version::V5;
            seen.no_metadata = flags & 4 != 0;
            seen.columns = count;
            let mut rest = Reader::new(reader.rest());
            if !seen.no_metadata {
                skip_columns(&mut rest, flags & 1 != 0, count)?;
            }
            let mut without = seen.body.clone();
            let at = without.len() - 8;
            // Neither of the two flags about metadata.
            without[at..at + 4].copy_from_slice(&(flags & !5).to_be_bytes());
            without.extend_from_slice(rest.rest());
            seen.without_metadata = Some(without);
        }
        4 => {
            let id = reader.short_bytes()?.to_vec();
            let metadata_id = match version {
                Version::V5 => reader.short_bytes()?.to_vec(),
                _ => Vec::new(),
            };
            let (flags, markers) = (reader.u32()?, reader.u32()?);
            if version >= Version::V4 {
                let keys = reader.u32()? as usize;
                reader.take(2 * keys)?;
            }
            let mut rest = Reader::new(reader.rest());
            skip_columns(&mut rest, flags & 1 != 0 && markers > 0, markers)?;
            rest.u32()?;
            seen.prepared = Some(Known {
                id,
                metadata_id,
                columns: rest.u32()?,
            });
        }
        5 => seen.schema_change = true,
        _ => {}
    }
    Ok(())
}
