//! Encodes literals as Cassandra does, so that a key written in a statement's text can be hashed.
//!
//! Which literal fits which type follows Cassandra: a text can be an address or a date, an integer
//! any number, but 1.0 is not an int. Literals whose meaning depends on the server (a timestamp
//! without a zone), or with many spellings, are left to Cassandra.

use std::net::IpAddr;

use crate::literal::Literal;

/// The bytes that Cassandra stores for this literal in a column of this CQL type. None if the
/// literal does not fit the type, or if the result is uncertain; the caller then does without it.
pub fn encode_literal(literal: &Literal, ty: &str) -> Option<Vec<u8>> {
    let ty = inner_type(ty).to_ascii_lowercase();
    let bytes = match (ty.as_str(), literal) {
        ("text" | "varchar", Literal::Text(text)) => text.clone().into_bytes(),
        ("ascii", Literal::Text(text)) if text.is_ascii() => text.clone().into_bytes(),
        ("int", Literal::Int(n)) => i32::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("bigint" | "counter", Literal::Int(n)) => i64::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("smallint", Literal::Int(n)) => i16::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("tinyint", Literal::Int(n)) => i8::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("varint", Literal::Int(n)) => shortest(&n.to_be_bytes()),
        ("varint", Literal::BigInt(digits)) => big_integer(digits)?,
        ("decimal", Literal::Int(n)) => decimal(&n.to_string())?,
        ("decimal", Literal::BigInt(text)) => decimal(text)?,
        ("decimal", Literal::Float(text)) if !overflows(text) => decimal(text)?,
        ("double", _) => number(literal)?.parse::<f64>().ok()?.to_be_bytes().to_vec(),
        ("float", _) => number(literal)?.parse::<f32>().ok()?.to_be_bytes().to_vec(),
        ("uuid", Literal::Uuid(uuid)) => uuid.to_vec(),
        ("timeuuid", Literal::Uuid(uuid)) if version(uuid) == 1 => uuid.to_vec(),
        ("boolean", Literal::Bool(value)) => vec![u8::from(*value)],
        ("blob", Literal::Blob(blob)) => blob.clone(),
        ("inet", Literal::Text(text)) => inet(text)?,
        ("timestamp", Literal::Int(ms)) => i64::try_from(*ms).ok()?.to_be_bytes().to_vec(),
        ("timestamp", Literal::Text(text)) => timestamp_ms(text)?.to_be_bytes().to_vec(),
        ("date", Literal::Int(days)) => u32::try_from(*days).ok()?.to_be_bytes().to_vec(),
        ("date", Literal::Text(text)) => stored_date(days_of(text)?)?.to_be_bytes().to_vec(),
        ("time", Literal::Int(ns)) => {
            let in_a_day = (0..86_400_000_000_000).contains(ns);
            i64::try_from(*ns)
                .ok()
                .filter(|_| in_a_day)?
                .to_be_bytes()
                .to_vec()
        }
        ("time", Literal::Text(text)) => time_ns(text)?.to_be_bytes().to_vec(),
        _ => return None,
    };
    Some(bytes)
}

/// `frozen<int>` is stored as `int`.
fn inner_type(ty: &str) -> &str {
    let ty = ty.trim();
    match ty.split_once('<') {
        Some((outer, rest)) if outer.trim().eq_ignore_ascii_case("frozen") => {
            rest.strip_suffix('>').unwrap_or(rest).trim()
        }
        _ => ty,
    }
}

/// The text of a number to be parsed as a float.
fn number(literal: &Literal) -> Option<String> {
    match literal {
        // Cassandra distinguishes 0 and -0 here, but the literal does not.
        Literal::Int(0) => None,
        Literal::Int(n) => Some(n.to_string()),
        Literal::BigInt(text) => Some(text.to_string()),
        Literal::Float(text) if !overflows(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Cassandra rejects a number with a fraction or exponent that does not fit a double.
fn overflows(text: &str) -> bool {
    let infinite = text.parse::<f64>().is_ok_and(f64::is_infinite);
    infinite && !text.ends_with("Infinity")
}

fn version(uuid: &[u8; 16]) -> u8 {
    uuid.get(6).map_or(0, |byte| byte >> 4)
}

/// Minimal two's complement.
fn shortest(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    while let [first, second, ..] = rest {
        let sign_only = (*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80);
        if !sign_only {
            break;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    rest.to_vec()
}

/// Longer numbers are left to Cassandra: converting digits to bytes takes quadratic time.
const DIGITS_MAX: usize = 400;

fn big_integer(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    // Little-endian magnitude.
    let mut bytes: Vec<u8> = Vec::with_capacity(digits.len() / 2 + 1);
    for digit in digits.chars() {
        let mut carry = digit.to_digit(10)?;
        for byte in &mut bytes {
            let value = u32::from(*byte) * 10 + carry;
            *byte = (value & 0xff) as u8;
            carry = value >> 8;
        }
        if carry > 0 {
            bytes.push((carry & 0xff) as u8);
        }
    }
    bytes.push(0);
    if text.starts_with('-') {
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    bytes.reverse();
    Some(shortest(&bytes))
}

/// A scale of four bytes and the unscaled number. The scale keeps what was written: 1.0 is not 1.
fn decimal(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut bytes = scale.to_be_bytes().to_vec();
    bytes.extend(big_integer(&format!("{whole}{fraction}"))?);
    Some(bytes)
}

fn inet(text: &str) -> Option<Vec<u8>> {
    match text.parse().ok()? {
        IpAddr::V4(v4) => Some(v4.octets().to_vec()),
        // Java converts mapped addresses to v4; rare enough to leave it to Cassandra.
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_none() => Some(v6.octets().to_vec()),
        IpAddr::V6(_) => None,
    }
}

/// A number with exactly this many digits.
fn digits(text: &str, length: usize) -> Option<i64> {
    let plain = text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 of a date such as `2020-02-29`, for years without a sign.
fn days_of(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // Before 1583 calendars differ between Cassandra's date and timestamp.
    if parts.next().is_some() || year < 1583 || !(1..=last).contains(&day) {
        return None;
    }
    // Years start in March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468)
}

/// Cassandra counts days from −2³¹, so that they sort as unsigned numbers.
fn stored_date(days: i64) -> Option<u32> {
    u32::try_from(days + (1 << 31)).ok()
}

/// Nanoseconds since midnight of a time such as `23:59:59` or `23:59:59.999999999`.
fn time_ns(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let hours = digits(parts.next()?, 2).filter(|h| *h < 24)?;
    let minutes = digits(parts.next()?, 2).filter(|m| *m < 60)?;
    let rest = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    let (seconds, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let seconds = digits(seconds, 2).filter(|s| *s < 60)?;
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let ns = digits(&format!("{fraction:0<9}"), 9)?;
    Some((hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + ns)
}

/// A timestamp such as `2020-02-29T12:00:00.123Z`: to the second or millisecond, with a zone.
fn timestamp_ms(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let (time, zone) = match rest.strip_suffix('Z') {
        Some(time) => (time, 0),
        None => {
            let sign_at = rest.rfind(['+', '-'])?;
            let (time, zone) = rest.split_at_checked(sign_at)?;
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let zone = zone.get(1..)?.replace(':', "");
            let hours = digits(zone.get(..2)?, 2).filter(|h| *h < 15)?;
            let minutes = digits(zone.get(2..)?, 2).filter(|m| *m < 60)?;
            (time, sign * (hours * 60 + minutes))
        }
    };
    let fraction = time
        .split_once('.')
        .map_or(3, |(_, fraction)| fraction.len());
    if fraction != 3 {
        return None;
    }
    Some(days_of(date)? * 86_400_000 + time_ns(time)? / 1_000_000 - zone * 60_000)
}
