//! Parameters of a query string.

use std::ops::RangeInclusive;

use percent_encoding::percent_decode_str;

/// The value of a parameter, if there is one.
///
/// # Errors
/// It is no text.
pub(in crate::admin) fn text(query: Option<&str>, name: &str) -> Result<Option<String>, String> {
    let Some(value) = raw(query, name) else {
        return Ok(None);
    };
    let spaced = value.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(text) => Ok(Some(text.into_owned())),
        Err(_) => Err(format!("{name} is not UTF-8")),
    }
}

/// A whole number between bounds, or the default.
///
/// # Errors
/// It is none of these.
pub(in crate::admin) fn number(
    query: Option<&str>,
    name: &str,
    default: u64,
    bounds: RangeInclusive<u64>,
) -> Result<u64, String> {
    let Some(value) = raw(query, name) else {
        return Ok(default);
    };
    let number = value.parse().ok().filter(|n| bounds.contains(n));
    let (min, max) = (bounds.start(), bounds.end());
    number.ok_or_else(|| format!("{name} must be a whole number from {min} to {max}"))
}

pub(in crate::admin) fn has(query: Option<&str>, name: &str) -> bool {
    raw(query, name).is_some()
}

/// Refuses parameters that mean nothing here: a misspelt one would be ignored.
///
/// # Errors
/// There is such a one.
pub(in crate::admin) fn only(query: Option<&str>, names: &[&str]) -> Result<(), String> {
    let pairs = query.unwrap_or_default().split('&');
    let mut given = pairs.filter(|pair| !pair.is_empty());
    let unknown = given.find(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !names.contains(&name)
    });
    match unknown {
        None => Ok(()),
        Some(pair) => {
            let name: String = pair
                .split('=')
                .next()
                .unwrap_or_default()
                .chars()
                .take(40)
                .collect();
            let known = names.join(", ");
            Err(format!(
                "there is no parameter {name:?}; those that there are: {known}"
            ))
        }
    }
}

fn raw<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    let pairs = query?.split('&');
    let mut values = pairs.filter_map(|pair| pair.split_once('='));
    values.find(|(of, _)| *of == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_wrong_ones_named() {
        let query = Some("role=a%20b&limit=7&keyspace=x+y");
        assert_eq!(text(query, "role"), Ok(Some("a b".to_owned())));
        assert_eq!(text(query, "keyspace"), Ok(Some("x y".to_owned())));
        assert_eq!(text(query, "none"), Ok(None));
        assert!(text(Some("role=%FF"), "role").is_err());
        assert_eq!(number(query, "limit", 1, 1..=10), Ok(7));
        assert_eq!(number(None, "limit", 1, 1..=10), Ok(1));
        for wrong in ["limit=0", "limit=11", "limit=x", "limit="] {
            let error = number(Some(wrong), "limit", 1, 1..=10).expect_err(wrong);
            assert!(error.contains("from 1 to 10"), "{error}");
        }
        assert!(only(query, &["role", "limit", "keyspace"]).is_ok());
        let error = only(Some("rolle=x"), &["role"]).expect_err("misspelt");
        assert!(error.contains("rolle") && error.contains("role"), "{error}");
    }
}
