//! Values of a request in the order of its statement's markers.

use helenus_cql::Facts;
use helenus_wire::{ValueRef, Values};
use rustc_hash::FxHashMap;

/// Why values cannot be put in the order of the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unordered {
    /// As a node says it.
    Number,
    Names,
}

impl Unordered {
    /// `what`: what the table has that asks for the order.
    pub(crate) fn text(self, what: &str) -> String {
        match self {
            Unordered::Number => "Invalid amount of bind variables".to_owned(),
            Unordered::Names => format!(
                "the table has {what}, and the values' names do not tell the order of the markers: bind them by \
                 position"
            ),
        }
    }
}

/// The values of a statement in the order of its markers. `names`: of the markers of a prepared one.
pub(crate) fn in_order<'a>(
    values: &Values<'a>,
    facts: &Facts,
    names: Option<&[Box<str>]>,
) -> Result<Vec<ValueRef<'a>>, Unordered> {
    let markers = usize::from(facts.markers);
    if names.is_some_and(|names| names.len() != markers) {
        return Err(Unordered::Number);
    }
    if !values.named {
        return match usize::from(values.count) == markers {
            true => Ok(values.iter().map(|(_, value)| value).collect()),
            false => Err(Unordered::Number),
        };
    }
    // As a node does it: a name may be that of several markers, the first value of a name counts, and
    // values without a marker do not.
    let mut by_name: FxHashMap<&str, ValueRef<'a>> = FxHashMap::default();
    for (name, value) in values.iter() {
        by_name.entry(name.unwrap_or_default()).or_insert(value);
    }
    let mut of_markers: Vec<Option<&str>> = vec![None; markers];
    match names {
        Some(names) => of_markers = names.iter().map(|name| Some(&**name)).collect(),
        None => {
            for (name, at) in &facts.named_markers {
                if let Some(of) = of_markers.get_mut(usize::from(*at)) {
                    *of = Some(name.as_str());
                }
            }
        }
    }
    let value = |name: Option<&str>| {
        let value = by_name.get(name.ok_or(Unordered::Names)?);
        value.copied().ok_or(Unordered::Number)
    };
    of_markers.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use helenus_cql::facts;
    use helenus_wire::{QueryView, Version, write};

    use super::*;

    fn of(
        text: &str,
        names: Option<&[&str]>,
        values: &[(&str, &[u8])],
    ) -> Result<Vec<Vec<u8>>, Unordered> {
        let mut body = Vec::new();
        write::long_string(&mut body, text);
        write::u16(&mut body, 1);
        body.push(0x41);
        write::u16(&mut body, values.len() as u16);
        for (name, value) in values {
            write::string(&mut body, name);
            write::bytes(&mut body, Some(value));
        }
        let view = QueryView::parse(&body, Version::V4).expect("a QUERY");
        let names: Option<Vec<Box<str>>> =
            names.map(|names| names.iter().map(|name| (*name).into()).collect());
        let ordered = in_order(&view.options.values, &facts(text), names.as_deref())?;
        let bytes = |value: ValueRef<'_>| match value {
            ValueRef::Set(bytes) => bytes.to_vec(),
            ValueRef::Null | ValueRef::Unset => Vec::new(),
        };
        Ok(ordered.into_iter().map(bytes).collect())
    }

    #[test]
    fn named_values_are_bound_as_by_a_node() {
        let twice = "UPDATE t SET a = :v, b = :v WHERE k = :k";
        let ordered = Ok(vec![b"v".to_vec(), b"v".to_vec(), b"k".to_vec()]);
        let values: [(&str, &[u8]); 2] = [("k", b"k"), ("v", b"v")];
        assert_eq!(of(twice, None, &values), ordered);
        assert_eq!(of(twice, Some(&["v", "v", "k"]), &values), ordered);
        let more: [(&str, &[u8]); 4] = [("k", b"k"), ("v", b"v"), ("other", b"o"), ("v", b"w")];
        assert_eq!(
            of(twice, None, &more),
            ordered,
            "the first of a name counts"
        );
        assert_eq!(of(twice, None, &values[1..]), Err(Unordered::Number));
        let positional = "UPDATE t SET a = ? WHERE k = :k";
        assert_eq!(of(positional, None, &values), Err(Unordered::Names));
        let of_columns = of(positional, Some(&["v", "k"]), &values);
        assert_eq!(of_columns, Ok(vec![b"v".to_vec(), b"k".to_vec()]));
    }
}
