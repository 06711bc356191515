//! Values of columns, such that they compare as Cassandra sorts them.

use anyhow::{Context, Result, bail};
use helenus_cql::{Literal, encode_literal};
use helenus_layout::Value;

/// A literal of a statement.
pub(super) fn of_literal(literal: &Literal, ty: &str) -> Result<Value> {
    let value = match (base(ty), literal) {
        (_, Literal::Null) => Some(Value::Null),
        ("tinyint" | "smallint" | "int" | "bigint" | "varint" | "counter", Literal::Int(n)) => {
            Some(Value::Int(*n))
        }
        ("float" | "double" | "decimal", Literal::Int(n)) => Some(Value::Float(*n as f64)),
        ("float" | "double" | "decimal", Literal::Float(text)) => {
            text.parse().ok().map(Value::Float)
        }
        ("boolean", Literal::Bool(value)) => Some(Value::Int(i128::from(*value))),
        ("text" | "varchar" | "ascii", Literal::Text(text)) => {
            Some(Value::Text(text.as_str().into()))
        }
        ("timeuuid", Literal::Uuid(uuid)) => Some(by_time(uuid)),
        ("timestamp" | "date" | "time", _) => {
            encode_literal(literal, base(ty)).and_then(|bytes| big_endian(&bytes))
        }
        ("uuid" | "inet" | "blob", _) => {
            encode_literal(literal, base(ty)).map(|bytes| Value::Bytes(bytes.into()))
        }
        _ => None,
    };
    match value {
        Some(value) => Ok(value),
        None => {
            bail!("{literal:?} is no {ty}, or cannot be compared with others; write ? in its place")
        }
    }
}

/// A field of a CSV file, as `COPY … TO` of cqlsh or any other tool writes it.
pub(super) fn of_field(field: &str, ty: &str) -> Result<Value> {
    if field.is_empty() {
        return Ok(Value::Null);
    }
    let text = || Literal::Text(field.to_owned());
    let literal = match base(ty) {
        "tinyint" | "smallint" | "int" | "bigint" | "varint" | "counter" => {
            field.trim().parse().ok().map(Literal::Int)
        }
        "float" | "double" | "decimal" => Some(Literal::Float(field.trim().into())),
        "boolean" if field.eq_ignore_ascii_case("true") => Some(Literal::Bool(true)),
        "boolean" if field.eq_ignore_ascii_case("false") => Some(Literal::Bool(false)),
        "timestamp" | "date" | "time" => {
            Some(field.trim().parse().map_or_else(|_| text(), Literal::Int))
        }
        "uuid" | "timeuuid" => uuid(field).map(Literal::Uuid),
        "blob" => field.strip_prefix("0x").and_then(hex).map(Literal::Blob),
        "text" | "varchar" | "ascii" | "inet" => Some(text()),
        // Collections and user types: equal or not, as written.
        _ => return Ok(Value::Text(field.into())),
    };
    match literal.map(|literal| of_literal(&literal, ty)) {
        Some(Ok(value)) => Ok(value),
        _ if base(ty) == "timestamp" => {
            bail!(
                "{field:?} is no timestamp: write milliseconds, or 2024-05-31T12:00:00.000Z with a zone"
            )
        }
        _ => bail!("{field:?} is no {ty}"),
    }
}

/// A value as nodes send it.
pub(super) fn of_bytes(bytes: &[u8], ty: &str) -> Result<Value> {
    let is_text = matches!(base(ty), "text" | "varchar" | "ascii" | "blob");
    if bytes.is_empty() && !is_text {
        return Ok(Value::Null);
    }
    let value = match base(ty) {
        "tinyint" | "smallint" | "int" | "bigint" | "varint" | "counter" | "boolean"
        | "timestamp" | "time" => signed(bytes).map(Value::Int),
        // Days since one that is 2^31 before 1970.
        "date" => big_endian(bytes),
        "float" => bytes
            .try_into()
            .ok()
            .map(f32::from_be_bytes)
            .map(|n| Value::Float(n.into())),
        "double" => bytes
            .try_into()
            .ok()
            .map(f64::from_be_bytes)
            .map(Value::Float),
        "decimal" => decimal(bytes).map(Value::Float),
        "text" | "varchar" | "ascii" => std::str::from_utf8(bytes)
            .ok()
            .map(|t| Value::Text(t.into())),
        "timeuuid" => bytes.try_into().ok().map(by_time),
        // Collections and user types as well: equal or not.
        _ => Some(Value::Bytes(bytes.into())),
    };
    value.with_context(|| format!("a node has sent {} bytes that are no {ty}", bytes.len()))
}

/// Numbers of any length are in two's complement. Those of more than 16 bytes are as good as endless.
fn signed(bytes: &[u8]) -> Option<i128> {
    let is_negative = *bytes.first()? >= 0x80;
    if bytes.len() > 16 {
        return Some(if is_negative { i128::MIN } else { i128::MAX });
    }
    let begin = if is_negative { -1 } else { 0 };
    Some(
        bytes
            .iter()
            .fold(begin, |number, byte| number << 8 | i128::from(*byte)),
    )
}

fn decimal(bytes: &[u8]) -> Option<f64> {
    let (scale, unscaled) = bytes.split_first_chunk()?;
    let scale = i32::from_be_bytes(*scale);
    // As text it is rounded once.
    format!("{}e{}", signed(unscaled)?, -i64::from(scale))
        .parse()
        .ok()
}

/// `frozen<int>` is an `int`.
fn base(ty: &str) -> &str {
    let ty = ty.trim();
    match ty
        .strip_prefix("frozen")
        .map(str::trim_start)
        .and_then(|rest| rest.strip_prefix('<'))
    {
        Some(rest) => rest.trim_end().strip_suffix('>').unwrap_or(rest).trim(),
        None => ty,
    }
}

/// Timestamps are signed; dates and times are not negative as they are stored.
fn big_endian(bytes: &[u8]) -> Option<Value> {
    let number = match bytes.len() {
        4 => i128::from(u32::from_be_bytes(bytes.try_into().ok()?)),
        8 => i128::from(i64::from_be_bytes(bytes.try_into().ok()?)),
        _ => return None,
    };
    Some(Value::Int(number))
}

/// Version 1 UUIDs sort by their time, which is spread over the first half, low bits first.
fn by_time(uuid: &[u8; 16]) -> Value {
    let number = u128::from_be_bytes(*uuid);
    let (low, mid, high) = (number >> 96, number >> 80 & 0xffff, number >> 64 & 0x0fff);
    let time = high << 48 | mid << 32 | low;
    Value::Int((time << 64 | number & u128::from(u64::MAX)) as i128)
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    hex(&text.trim().replace('-', ""))?.try_into().ok()
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}
