//! Converts bodies between protocol versions, exactly as Cassandra itself would have written them.
//!
//! A client never speaks a later version than the nodes do (it would have been told to downgrade),
//! so requests are only ever raised and responses only ever lowered.

use std::borrow::Cow;

use thiserror::Error;

use crate::envelope::{Opcode, Version, flags};
use crate::error::code;
use crate::reader::{Malformed, Reader};
use crate::request::{
    BatchChild, BatchView, ExecuteView, Options, Page, QueryView, Values, query_flags,
};
use crate::result::{ResultKind, result_kind};
use crate::types::copy_type;
use crate::write;

/// Why a body cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConvertError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the node speaks an older version of the protocol by now: connect again")]
    Older,
}

/// The proxy's knowledge of a request besides its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestContext<'a> {
    /// The keyspace of the client's session (`USE`), if the request names none.
    pub keyspace: Option<&'a str>,
    /// The result metadata id of an EXECUTE from a client whose version has none.
    pub result_metadata_id: Option<&'a [u8]>,
    /// The id under which the node knows the statement, if it differs from the client's.
    pub node_statement_id: Option<&'a [u8]>,
    /// The page to request instead of the client's.
    pub page: Option<Page<'a>>,
    /// Request metadata with the rows although the client asked to skip it.
    pub full_metadata: bool,
}

/// Appends to `out` the body of a request raised from version `from` to version `to`.
pub fn convert_request(
    opcode: Opcode,
    header_flags: u8,
    body: &[u8],
    from: Version,
    to: Version,
    context: RequestContext<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    debug_assert!(from <= to);
    let (payload, body) = split_payload(header_flags, body)?;
    out.extend_from_slice(payload);
    match opcode {
        Opcode::Query => {
            let view = QueryView::parse(body, from)?;
            let plain = plain_nulls(body, from, [view.options.values]);
            copy_options(&plain, 0, &view.options, from, to, context, out);
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(body, from)?;
            let mut reader = Reader::new(body);
            let id = reader.short_bytes()?;
            write::short_bytes(out, context.node_statement_id.unwrap_or(id));
            if to == Version::V5 {
                let own = match from {
                    Version::V5 => Some(reader.short_bytes()?),
                    _ => None,
                };
                // Without an id the node sends full metadata, which is always correct.
                let id = own.or(context.result_metadata_id).unwrap_or(&[0; 16]);
                write::short_bytes(out, id);
            }
            let plain = plain_nulls(body, from, [view.options.values]);
            let start = reader.position();
            let context = RequestContext {
                keyspace: None,
                ..context
            };
            copy_options(&plain, start, &view.options, from, to, context, out);
        }
        Opcode::Batch => {
            let view = BatchView::parse(body, from)?;
            let values = view.children.iter().map(|child| match child {
                BatchChild::Text(_, values) | BatchChild::Prepared(_, values) => *values,
            });
            let values = values.chain([view.options.values]);
            let plain = plain_nulls(body, from, values);
            let context = RequestContext {
                page: None,
                ..context
            };
            copy_options(&plain, 0, &view.options, from, to, context, out);
        }
        Opcode::Prepare => {
            let mut reader = Reader::new(body);
            write::long_string(out, reader.long_string()?);
            if to == Version::V5 {
                let mut keyspace = None;
                if from == Version::V5 && reader.u32()? & 1 != 0 {
                    keyspace = Some(reader.string()?);
                }
                match keyspace.or(context.keyspace) {
                    Some(keyspace) => {
                        write::u32(out, 1);
                        write::string(out, keyspace);
                    }
                    None => write::u32(out, 0),
                }
            }
        }
        _ => out.extend_from_slice(body),
    }
    Ok(())
}

/// The body with −1 for every null: up to v3 any negative length means null, later −2 means unset.
fn plain_nulls<'a>(
    body: &'a [u8],
    from: Version,
    values: impl IntoIterator<Item = Values<'a>>,
) -> Cow<'a, [u8]> {
    let mut plain = Cow::Borrowed(body);
    if from == Version::V3 {
        for at in values.into_iter().flat_map(|values| values.odd_nulls()) {
            plain.to_mut()[at..at + 4].copy_from_slice(&(-1_i32).to_be_bytes());
        }
    }
    plain
}

/// Splits off the custom payload in front of a request.
fn split_payload(header_flags: u8, body: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    if header_flags & flags::CUSTOM_PAYLOAD == 0 {
        return Ok((&[], body));
    }
    let mut reader = Reader::new(body);
    reader.skip_bytes_map()?;
    Ok(body.split_at(reader.position()))
}

/// Copies `body[start..]` with flags in the width of `to`. Adds a keyspace if none is named, and
/// requests another page or metadata if the context says so.
fn copy_options(
    body: &[u8],
    start: usize,
    options: &Options<'_>,
    from: Version,
    to: Version,
    context: RequestContext<'_>,
    out: &mut Vec<u8>,
) {
    let page = context.page;
    let keyspace = context
        .keyspace
        .filter(|_| to == Version::V5 && options.keyspace.is_none());
    let mut flags = options.flags;
    if keyspace.is_some() {
        flags |= query_flags::KEYSPACE;
    }
    if context.full_metadata {
        flags &= !query_flags::SKIP_METADATA;
    }
    if let Some(page) = page {
        flags = (flags | query_flags::PAGE_SIZE) & !query_flags::PAGING_STATE;
        if page.state.is_some() {
            flags |= query_flags::PAGING_STATE;
        }
    }
    out.extend_from_slice(&body[start..options.flags_at]);
    if to == Version::V5 {
        write::u32(out, flags)
    } else {
        out.push(flags as u8)
    }
    let flags_len = if from == Version::V5 { 4 } else { 1 };
    let behind_flags = options.flags_at + flags_len;
    match page {
        None => out.extend_from_slice(&body[behind_flags..options.keyspace_at]),
        Some(page) => {
            out.extend_from_slice(&body[behind_flags..options.page_at]);
            write::i32(out, page.size);
            if let Some(state) = page.state {
                write::bytes(out, Some(state));
            }
            out.extend_from_slice(&body[options.behind_page_at..options.keyspace_at]);
        }
    }
    if let Some(keyspace) = keyspace {
        write::string(out, keyspace);
    }
    out.extend_from_slice(&body[options.keyspace_at..]);
}

/// The result of converting a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converted {
    /// The original body is valid unchanged; nothing was written.
    Same,
    /// A new body was appended; the envelope's flags are now these.
    Rewritten { header_flags: u8 },
}

/// Lowers a response from version `from` to version `to`, appending to `out` only if it changes. What
/// an older node sends cannot be raised: all but PREPARED reads the same in v5.
pub fn convert_response(
    opcode: Opcode,
    header_flags: u8,
    body: &[u8],
    from: Version,
    to: Version,
    out: &mut Vec<u8>,
) -> Result<Converted, ConvertError> {
    if from == to {
        return Ok(Converted::Same);
    }
    let start = out.len();
    let (prelude, message) = crate::result::strip_prelude(header_flags, body)?;
    if from < to {
        return match opcode {
            Opcode::Result if is_prepared(message) => Err(ConvertError::Older),
            _ => Ok(Converted::Same),
        };
    }
    let mut header_flags = header_flags;
    let mut changed = false;
    if to == Version::V3 && header_flags & (flags::WARNING | flags::CUSTOM_PAYLOAD) != 0 {
        // v3 has neither; Cassandra omits them as well.
        let tracing = if header_flags & flags::TRACING != 0 {
            16
        } else {
            0
        };
        out.extend_from_slice(&prelude[..tracing]);
        header_flags &= !(flags::WARNING | flags::CUSTOM_PAYLOAD);
        changed = true;
    } else {
        out.extend_from_slice(prelude);
    }
    let rewritten = match opcode {
        Opcode::Result => lower_result(message, from, to, out)?,
        Opcode::Error => lower_error(message, from, to, out)?,
        Opcode::Event if to == Version::V3 => lower_event(message, out)?,
        _ => false,
    };
    if rewritten {
        return Ok(Converted::Rewritten { header_flags });
    }
    if changed {
        out.extend_from_slice(message);
        return Ok(Converted::Rewritten { header_flags });
    }
    out.truncate(start);
    Ok(Converted::Same)
}

fn is_prepared(message: &[u8]) -> bool {
    matches!(result_kind(message), Ok(ResultKind::Prepared))
}

const METADATA_CHANGED: u32 = 0x8;
const NO_METADATA: u32 = 0x4;
const MORE_PAGES: u32 = 0x2;
const GLOBAL_TABLE: u32 = 0x1;

/// Appends the lowered message and returns true, or leaves `out` unchanged and returns false.
fn lower_result(
    message: &[u8],
    from: Version,
    to: Version,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    let mut reader = Reader::new(message);
    let kind = reader.i32()?;
    let start = out.len();
    match kind {
        2 => {
            write::i32(out, kind);
            if !lower_rows_metadata(&mut reader, to, out)? {
                out.truncate(start);
                return Ok(false);
            }
            out.extend_from_slice(reader.rest());
            Ok(true)
        }
        4 => {
            write::i32(out, kind);
            write::short_bytes(out, reader.short_bytes()?);
            if from == Version::V5 {
                reader.short_bytes()?;
            }
            let flags = reader.u32()?;
            let count = reader.u32()?;
            write::u32(out, flags);
            write::u32(out, count);
            let keys = reader.i32()?.max(0);
            let raw = reader.take(keys as usize * 2)?;
            if to >= Version::V4 {
                write::i32(out, keys);
                out.extend_from_slice(raw);
            }
            copy_columns(&mut reader, flags & GLOBAL_TABLE != 0, count, to, out)?;
            lower_rows_metadata(&mut reader, to, out)?;
            out.extend_from_slice(reader.rest());
            Ok(true)
        }
        5 if to == Version::V3 => {
            write::i32(out, kind);
            if lower_schema_change(&mut reader, out)? {
                return Ok(true);
            }
            out.truncate(start);
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// Copies result metadata; returns whether it differs from the original.
fn lower_rows_metadata(
    reader: &mut Reader<'_>,
    to: Version,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    let flags = reader.u32()?;
    let count = reader.u32()?;
    let mut changed = flags & METADATA_CHANGED != 0 && to < Version::V5;
    write::u32(
        out,
        if changed {
            flags & !METADATA_CHANGED
        } else {
            flags
        },
    );
    write::u32(out, count);
    if flags & MORE_PAGES != 0 {
        write::bytes(out, reader.bytes()?);
    }
    if flags & METADATA_CHANGED != 0 {
        let id = reader.short_bytes()?;
        if to == Version::V5 {
            write::short_bytes(out, id);
        }
    }
    if flags & NO_METADATA == 0 {
        changed |= copy_columns(reader, flags & GLOBAL_TABLE != 0, count, to, out)?;
    }
    Ok(changed)
}

fn copy_columns(
    reader: &mut Reader<'_>,
    global: bool,
    count: u32,
    to: Version,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    if global && count > 0 {
        write::string(out, reader.string()?);
        write::string(out, reader.string()?);
    }
    let mut changed = false;
    for _ in 0..count {
        if !global {
            write::string(out, reader.string()?);
            write::string(out, reader.string()?);
        }
        write::string(out, reader.string()?);
        changed |= copy_type(reader, to, out)?;
    }
    Ok(changed)
}

fn lower_error(
    message: &[u8],
    from: Version,
    to: Version,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    let mut reader = Reader::new(message);
    let error_code = reader.i32()?;
    let text = reader.string()?;
    match error_code {
        code::READ_FAILURE | code::WRITE_FAILURE => {
            let consistency = reader.u16()?;
            let received = reader.i32()?;
            let block_for = reader.i32()?;
            let failures = reader.i32()?;
            if from == Version::V5 {
                for _ in 0..failures.max(0) {
                    reader.inet_addr()?;
                    reader.u16()?;
                }
            }
            // For v3 a failure becomes a time-out, with Cassandra's message for a time-out.
            let as_timeout = to == Version::V3;
            write::i32(
                out,
                match error_code {
                    code::READ_FAILURE if as_timeout => code::READ_TIMEOUT,
                    _ if as_timeout => code::WRITE_TIMEOUT,
                    _ => error_code,
                },
            );
            if as_timeout {
                write::string(out, &timeout_text(received));
            } else {
                write::string(out, text);
            }
            write::u16(out, consistency);
            write::i32(out, received);
            write::i32(out, block_for);
            if !as_timeout {
                write::i32(out, failures);
            }
            out.extend_from_slice(reader.rest());
            Ok(true)
        }
        code::WRITE_TIMEOUT if from == Version::V5 => {
            let fields_at = reader.position();
            reader.u16()?;
            reader.i32()?;
            reader.i32()?;
            if reader.string()? != "CAS" || reader.is_empty() {
                return Ok(false);
            }
            // v5 adds the number of contentions to a timed-out CAS.
            let end = reader.position();
            let mut fields = Reader::new(&message[fields_at..end]);
            fields.u16()?;
            let received = fields.i32()?;
            write::i32(out, error_code);
            write::string(out, &timeout_text(received));
            out.extend_from_slice(&message[fields_at..end]);
            Ok(true)
        }
        code::CAS_WRITE_UNKNOWN => {
            let consistency = reader.u16()?;
            let received = reader.i32()?;
            let block_for = reader.i32()?;
            write::i32(out, code::WRITE_TIMEOUT);
            write::string(out, &timeout_text(received));
            write::u16(out, consistency);
            write::i32(out, received);
            write::i32(out, block_for);
            write::string(out, "CAS");
            Ok(true)
        }
        code::FUNCTION_FAILURE | code::CDC_WRITE_FAILURE if to == Version::V3 => {
            let name = match error_code {
                code::FUNCTION_FAILURE => "FUNCTION_FAILURE",
                _ => "CDC_WRITE_FAILURE",
            };
            write::i32(out, code::INVALID);
            write::string(out, &format!("ERROR {name}: {text}"));
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The message of Cassandra's own time-out exceptions.
fn timeout_text(received: i32) -> String {
    format!("Operation timed out - received only {received} responses.")
}

fn lower_event(message: &[u8], out: &mut Vec<u8>) -> Result<bool, Malformed> {
    let mut reader = Reader::new(message);
    let kind = reader.string()?;
    if kind != "SCHEMA_CHANGE" {
        return Ok(false);
    }
    let start = out.len();
    write::string(out, kind);
    if lower_schema_change(&mut reader, out)? {
        return Ok(true);
    }
    out.truncate(start);
    Ok(false)
}

/// v3 has no functions and aggregates: their change is reported as an update of the keyspace.
fn lower_schema_change(reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    reader.string()?;
    let target = reader.string()?;
    if target != "FUNCTION" && target != "AGGREGATE" {
        return Ok(false);
    }
    write::string(out, "UPDATED");
    write::string(out, "KEYSPACE");
    write::string(out, reader.string()?);
    // No v3 client reads it, but Cassandra writes it.
    write::string(out, "");
    Ok(true)
}
