//! Other names in what nodes say to people: of tables and columns that clients do not see.

use helenus_wire::{Malformed, Reader, flags, write};

/// An answer's prelude with other names in its warnings; `None` if it has none of these.
///
/// # Errors
/// It is not what the flags say.
pub(crate) fn renamed_warnings(
    header_flags: u8,
    prelude: &[u8],
    names: &[(impl AsRef<str>, impl AsRef<str>)],
) -> Result<Option<Vec<u8>>, Malformed> {
    if header_flags & flags::WARNING == 0 {
        return Ok(None);
    }
    let mut reader = Reader::new(prelude);
    let mut out = Vec::with_capacity(prelude.len());
    if header_flags & flags::TRACING != 0 {
        out.extend_from_slice(&reader.uuid()?);
    }
    let warnings = reader.string_list()?;
    let renamed: Vec<Option<String>> = warnings.iter().map(|text| renamed(text, names)).collect();
    if renamed.iter().all(Option::is_none) {
        return Ok(None);
    }
    let told = warnings.iter().zip(renamed);
    let told: Vec<String> = told
        .map(|(warning, renamed)| renamed.unwrap_or_else(|| (*warning).to_owned()))
        .collect();
    write::string_list(&mut out, &told);
    out.extend_from_slice(reader.rest());
    Ok(Some(out))
}

/// A message with other names, each where it stands by itself: one may be the beginning of another. `None` if it
/// has none of these.
pub(crate) fn renamed(text: &str, names: &[(impl AsRef<str>, impl AsRef<str>)]) -> Option<String> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let is_start = !text
            .get(..at)
            .is_some_and(|before| before.ends_with(in_name));
        let stands_here = |(of, _): &&(_, _)| {
            let of: &str = AsRef::<str>::as_ref(of);
            let behind = text.get(at..).and_then(|rest| rest.strip_prefix(of));
            !of.is_empty() && behind.is_some_and(|behind| !behind.starts_with(in_name))
        };
        let found = names.iter().filter(stands_here);
        let longest = found.max_by_key(|(of, _)| of.as_ref().len());
        match longest.filter(|_| is_start) {
            Some((of, to)) => {
                out.push_str(text.get(copied..at).unwrap_or_default());
                out.push_str(to.as_ref());
                at += of.as_ref().len();
                copied = at;
            }
            None => at += next.len_utf8(),
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_where_they_stand_by_themselves() {
        let names = [
            ("doc__encoded", "doc"),
            ("doc__encoded2", "doc__encoded"),
            ("a b", "é"),
        ];
        for (text, expected) in [
            ("doc__encoded", Some("doc")),
            (
                "no doc__encoded, doc__encoded2!",
                Some("no doc, doc__encoded!"),
            ),
            ("ks.doc__encoded/'doc__encoded'", Some("ks.doc/'doc'")),
            ("é doc__encoded é \"a b\"", Some("é doc é \"é\"")),
            ("mydoc__encoded doc__encoded3 édoc__encoded", None),
            ("", None),
        ] {
            assert_eq!(renamed(text, &names).as_deref(), expected, "{text}");
        }
    }
}
