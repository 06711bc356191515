//! Strings without their escapes.

use std::borrow::Cow;

/// The text of an escaped string. None if it is no text: half of a surrogate pair.
pub(crate) fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    let Some(first) = escaped.find('\\') else {
        return Some(Cow::Borrowed(escaped));
    };
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    let mut at = first;
    loop {
        out.push_str(rest.get(..at)?);
        rest = rest.get(at + 1..)?;
        let escape = *rest.as_bytes().first()?;
        rest = rest.get(1..)?;
        match escape {
            b'u' => {
                let (said, after) = code_point(rest)?;
                out.push(said);
                rest = after;
            }
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'"' | b'\\' | b'/' => out.push(escape.into()),
            _ => return None,
        }
        match rest.find('\\') {
            Some(next) => at = next,
            None => break,
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// After `\u`: one unit, or a pair of them.
fn code_point(rest: &str) -> Option<(char, &str)> {
    let unit = |digits: Option<&str>| u32::from_str_radix(digits?, 16).ok();
    let high = unit(rest.get(..4))?;
    let rest = rest.get(4..)?;
    if let Some(said) = char::from_u32(high) {
        return Some((said, rest));
    }
    let pair = rest.strip_prefix("\\u")?;
    let low = unit(pair.get(..4))?;
    if !(0xd800..0xdc00).contains(&high) || !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    let said = char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))?;
    Some((said, pair.get(4..)?))
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn escapes_say_what_they_mean() {
        for (escaped, said) in [
            ("plain", Some("plain")),
            (r"\u0041\n\/\\é", Some("A\n/\\é")),
            (r"\ud83d\uDE00!", Some("😀!")),
            (r"\ud83d", None),
            (r"\ud83d\u0041", None),
            (r"\ude00", None),
        ] {
            assert_eq!(unescape(escaped).as_deref(), said, "{escaped}");
        }
    }
}
