//! One name, or several.

use serde::{Deserialize, Serialize};

/// Names of which one is meant. In a file, a single one needs no brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "OneOrMany", into = "OneOrMany")]
#[cfg_attr(feature = "schema", schemars(with = "OneOrMany"))]
pub struct Names(pub Vec<String>);

/// As it is written.
#[derive(Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a name, or a list of names")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if this is meant: one of the names, or anything if there are none.
    #[inline]
    pub fn takes(&self, name: Option<&str>) -> bool {
        self.0.is_empty() || name.is_some_and(|name| self.has(name))
    }

    #[inline]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// True if everything that the other names mean is meant.
    pub(crate) fn covers(&self, other: &Names) -> bool {
        self.is_empty() || !other.is_empty() && other.iter().all(|name| self.has(name))
    }
}

impl From<&str> for Names {
    fn from(name: &str) -> Names {
        Names(vec![name.to_owned()])
    }
}

impl<const N: usize> From<[&str; N]> for Names {
    fn from(names: [&str; N]) -> Names {
        Names(names.map(str::to_owned).to_vec())
    }
}

impl From<OneOrMany> for Names {
    fn from(written: OneOrMany) -> Names {
        match written {
            OneOrMany::One(name) => Names(vec![name]),
            OneOrMany::Many(names) => Names(names),
        }
    }
}

impl From<Names> for OneOrMany {
    fn from(Names(mut names): Names) -> OneOrMany {
        match names.pop() {
            Some(name) if names.is_empty() => OneOrMany::One(name),
            last => {
                names.extend(last);
                OneOrMany::Many(names)
            }
        }
    }
}
