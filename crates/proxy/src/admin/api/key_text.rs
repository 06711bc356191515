//! A partition key as people write it.

use std::fmt::Write;
use std::net::IpAddr;

use helenus_engine::features::hot::Key;
use helenus_engine::snapshot::KeyColumn;

use crate::uuid;

/// The key's values, separated by commas; as bytes where they cannot be told. A key that is cut ends with
/// an ellipsis.
pub(in crate::admin) fn key_text(key: &Key, columns: &[KeyColumn]) -> String {
    let values = match columns {
        [one] if !key.is_cut => Some(value_text(key.bytes(), &one.cql_type)),
        [_] | [] => None,
        several => composite(key.bytes(), several),
    };
    let mut text = values.unwrap_or_else(|| hex(key.bytes()));
    if key.is_cut {
        text.push('…');
    }
    text
}

/// Each value has its length before it and a zero behind it. Those that are there whole.
fn composite(mut bytes: &[u8], columns: &[KeyColumn]) -> Option<String> {
    let mut values = Vec::new();
    for column in columns {
        let Some((len, rest)) = bytes.split_first_chunk::<2>() else {
            break;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        let Some((value, rest)) = rest.split_at_checked(len) else {
            break;
        };
        values.push(value_text(value, &column.cql_type));
        bytes = rest.get(1..).unwrap_or_default();
    }
    (!values.is_empty()).then(|| values.join(", "))
}

fn value_text(bytes: &[u8], cql_type: &str) -> String {
    known(bytes, cql_type).unwrap_or_else(|| hex(bytes))
}

fn known(bytes: &[u8], cql_type: &str) -> Option<String> {
    Some(match cql_type {
        "text" | "varchar" | "ascii" => {
            let text = std::str::from_utf8(bytes).ok()?;
            if text.chars().any(char::is_control) {
                return None;
            }
            format!("'{}'", text.replace('\'', "''"))
        }
        "tinyint" => i8::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "smallint" => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "int" => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "bigint" => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        // Milliseconds since 1970, which CQL takes as it is.
        "timestamp" => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        "boolean" => (*bytes.first()? != 0).to_string(),
        "uuid" | "timeuuid" => uuid::text(bytes.try_into().ok()?),
        "inet" => {
            let address = match bytes.len() {
                4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
                _ => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
            };
            format!("'{address}'")
        }
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(types: &[&str], bytes: &[u8], expected: &str) {
        let columns: Vec<KeyColumn> = types
            .iter()
            .map(|cql_type| KeyColumn {
                name: "k".to_owned(),
                cql_type: (*cql_type).to_owned(),
                is_masked: false,
            })
            .collect();
        assert_eq!(key_text(&Key::new(bytes), &columns), expected);
    }

    #[test]
    fn values_are_written_as_in_cql_and_others_as_bytes() {
        check(&["text"], "it's".as_bytes(), "'it''s'");
        check(&["text"], b"a\nb", "0x610a62");
        check(&["text"], b"\xff", "0xff");
        check(&["int"], &[0xff, 0xff, 0xff, 0xfe], "-2");
        check(&["int"], &[1], "0x01");
        check(&["bigint"], &7_i64.to_be_bytes(), "7");
        check(
            &["uuid"],
            &[0xab; 16],
            "abababab-abab-abab-abab-abababababab",
        );
        check(&["inet"], &[127, 0, 0, 1], "'127.0.0.1'");
        check(&["frozen<list<int>>"], &[0, 1], "0x0001");
        check(&[], &[0, 1], "0x0001");
        check(&["boolean"], &[], "0x");
    }

    #[test]
    fn composite_keys_are_taken_apart_and_cut_ones_end_so() {
        let both = [0, 1, b'a', 0, 0, 4, 0, 0, 0, 5, 0];
        check(&["text", "int"], &both, "'a', 5");
        check(&["text", "int"], &both[..6], "'a'");
        check(&["text", "int"], &[9, 9, 1], "0x090901");
        let long = [b'x'; 100];
        check(&["text"], &long, &format!("0x{}…", "78".repeat(64)));
        let mut first = vec![0, 1, b'a', 0, 0, 90];
        first.extend([b'x'; 90]);
        check(&["text", "text"], &first, "'a'…");
    }
}
