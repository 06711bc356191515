//! Numbers that are spelled in the usual way, and therefore need not be kept as texts.

/// An integer without superfluous signs and digits, of at most 18 digits.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.len() > 18 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let is_usual = match digits.as_bytes() {
        [] | [b'0', _, ..] => false,
        [b'0'] => text.len() == 1,
        _ => true,
    };
    let magnitude = digits
        .bytes()
        .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let signed = if text.len() == digits.len() {
        magnitude
    } else {
        -magnitude
    };
    is_usual.then_some(signed)
}

pub(crate) fn write_integer(number: i64, out: &mut String) {
    if number < 0 {
        out.push('-');
    }
    write_digits(number.unsigned_abs(), 0, out);
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

    /// None of integers, of numbers with exponents, and of those with more than 18 digits.
    pub(crate) fn of(text: &str) -> Option<Decimal> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.')?;
        if whole.is_empty() || fraction.is_empty() || unsigned.len() > 19 {
            return None;
        }
        let mut digits = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return None;
            }
            digits = digits * 10 + u64::from(byte - b'0');
        }
        let is_usual = whole.len() == 1 || !whole.starts_with('0');
        is_usual.then_some(Decimal {
            is_negative: unsigned.len() < text.len(),
            digits,
            scale: fraction.len() as u8,
        })
    }
}

pub(crate) fn write_decimal(decimal: Decimal, out: &mut String) {
    if decimal.is_negative {
        out.push('-');
    }
    let unit = 10u64.pow(u32::from(decimal.scale.min(Decimal::SCALE_MAX)));
    write_digits(decimal.digits / unit, 0, out);
    out.push('.');
    write_digits(decimal.digits % unit, decimal.scale.into(), out);
}

/// With zeros before it, so that there are at least so many digits.
fn write_digits(mut number: u64, digits_min: usize, out: &mut String) {
    let mut buffer = [b'0'; 20];
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let at = at.min(buffer.len() - digits_min.min(buffer.len()));
    // Digits are text.
    out.push_str(std::str::from_utf8(&buffer[at..]).unwrap_or_default());
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
            write_integer(integer(text).expect(text), &mut out);
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
            assert_eq!(integer(text), None, "{text}");
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
            write_decimal(Decimal::of(text).expect(text), &mut out);
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
            assert_eq!(Decimal::of(text), None, "{text}");
        }
    }
}
