//! Numbers that are spelled in the usual way, and therefore need not be kept as texts.

/// Of a usual number.
const DIGITS_MAX: usize = 18;

/// A number that can be written again from what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usual {
    Integer(i64),
    Decimal(Decimal),
}

/// An integer without superfluous signs and digits, or such a number with a fraction; of at most 18 digits and
/// without an exponent.
pub(crate) fn usual(text: &str) -> Option<Usual> {
    let bytes = text.as_bytes();
    let (is_negative, unsigned) = match bytes {
        [b'-', unsigned @ ..] => (true, unsigned),
        _ => (false, bytes),
    };
    if unsigned.len() > DIGITS_MAX + 1 {
        return None;
    }
    let mut magnitude = 0u64;
    let mut point = None;
    for (at, byte) in unsigned.iter().enumerate() {
        match byte.wrapping_sub(b'0') {
            digit @ 0..=9 => magnitude = magnitude * 10 + u64::from(digit),
            _ if *byte == b'.' && point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let whole = point.unwrap_or(unsigned.len());
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return None;
    }
    match point {
        None if unsigned.len() > DIGITS_MAX || (is_negative && magnitude == 0) => None,
        None => {
            let number = magnitude as i64;
            Some(Usual::Integer(if is_negative { -number } else { number }))
        }
        Some(point) if point + 1 == unsigned.len() => None,
        Some(point) => Some(Usual::Decimal(Decimal {
            is_negative,
            digits: magnitude,
            scale: (unsigned.len() - point - 1) as u8,
        })),
    }
}

pub(crate) fn write_integer(number: i64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// A number with a fraction and no exponent: the digits without the point, and how many follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub is_negative: bool,
    pub digits: u64,
    /// 1 to 17.
    pub scale: u8,
}

impl Decimal {
    /// The longest fraction.
    pub(crate) const SCALE_MAX: u8 = 17;
}

pub(crate) fn write_decimal(decimal: Decimal, out: &mut String) {
    const ZEROS: &str = "0.0000000000000000";
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(decimal.digits);
    let scale = usize::from(decimal.scale.min(Decimal::SCALE_MAX));
    if decimal.is_negative {
        out.push('-');
    }
    match digits.len().checked_sub(scale) {
        None | Some(0) => {
            out.push_str(&ZEROS[..2 + scale - digits.len()]);
            out.push_str(digits);
        }
        Some(whole) => {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_integers_come_back() {
        for text in [
            "0",
            "7",
            "-1",
            "10",
            "999999999999999999",
            "-999999999999999999",
        ] {
            let mut out = String::new();
            let Some(Usual::Integer(number)) = usual(text) else {
                panic!("{text}");
            };
            write_integer(number, &mut out);
            assert_eq!(out, text);
        }
        for text in [
            "-0",
            "00",
            "01",
            "-01",
            "1.0",
            "1e0",
            "",
            "-",
            "1000000000000000000",
        ] {
            let is_integer = matches!(usual(text), Some(Usual::Integer(_)));
            assert!(!is_integer, "{text}");
        }
    }

    #[test]
    fn usual_decimals_come_back() {
        for text in [
            "0.0",
            "-0.0",
            "1.0",
            "1.50",
            "-12.034",
            "0.00000000000000001",
            "52.520008",
        ] {
            let mut out = String::new();
            let Some(Usual::Decimal(decimal)) = usual(text) else {
                panic!("{text}");
            };
            write_decimal(decimal, &mut out);
            assert_eq!(out, text);
        }
        for text in [
            "1",
            "1.",
            ".1",
            "01.5",
            "1.5e3",
            "1.2.3",
            "0.123456789012345678",
        ] {
            let is_decimal = matches!(usual(text), Some(Usual::Decimal(_)));
            assert!(!is_decimal, "{text}");
        }
    }
}
