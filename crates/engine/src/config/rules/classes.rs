//! Classes of requests, as rules name them.

use std::fmt;

/// Which classes a request is of, or a rule is about: mostly several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes(u16);

impl Classes {
    pub(crate) const READ: Classes = Classes(1);
    pub(crate) const POINT: Classes = Classes(1 << 1);
    pub(crate) const MULTI: Classes = Classes(1 << 2);
    pub(crate) const SCAN: Classes = Classes(1 << 3);
    pub(crate) const FILTERING: Classes = Classes(1 << 4);
    pub(crate) const WRITE: Classes = Classes(1 << 5);
    pub(crate) const CONDITIONAL: Classes = Classes(1 << 6);
    pub(crate) const BATCH: Classes = Classes(1 << 7);
    pub(crate) const TRUNCATE: Classes = Classes(1 << 8);
    pub(crate) const SCHEMA: Classes = Classes(1 << 9);
    pub(crate) const ROLES: Classes = Classes(1 << 10);
    pub(crate) const OTHER: Classes = Classes(1 << 11);

    /// All, by name.
    const NAMES: [(&'static str, Classes); 12] = [
        ("read", Classes::READ),
        ("point", Classes::POINT),
        ("multi", Classes::MULTI),
        ("scan", Classes::SCAN),
        ("filtering", Classes::FILTERING),
        ("write", Classes::WRITE),
        ("conditional", Classes::CONDITIONAL),
        ("batch", Classes::BATCH),
        ("truncate", Classes::TRUNCATE),
        ("schema", Classes::SCHEMA),
        ("roles", Classes::ROLES),
        ("other", Classes::OTHER),
    ];

    /// By their names.
    ///
    /// # Errors
    /// The first name that is no class's.
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Result<Classes, &'a str> {
        let mut found = Classes::default();
        for name in names {
            let of = Classes::NAMES.iter().find(|(known, _)| *known == name);
            found = found.and(of.ok_or(name)?.1);
        }
        Ok(found)
    }

    /// The names of all that there are.
    pub(crate) fn known() -> Classes {
        let all = Classes::NAMES.iter();
        all.fold(Classes::default(), |all, (_, one)| all.and(*one))
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// These as well.
    #[must_use]
    pub(crate) fn and(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// The classes of which every request is of one of these, too.
    #[must_use]
    pub(crate) fn with_narrower(self) -> Classes {
        let of = |wide: Classes, narrow: &[Classes]| match self.has_any(wide) {
            true => narrow
                .iter()
                .fold(Classes::default(), |all, one| all.and(*one)),
            false => Classes::default(),
        };
        let reads = of(
            Classes::READ,
            &[
                Classes::POINT,
                Classes::MULTI,
                Classes::SCAN,
                Classes::FILTERING,
            ],
        );
        let writes = of(
            Classes::WRITE,
            &[Classes::CONDITIONAL, Classes::BATCH, Classes::TRUNCATE],
        );
        self.and(reads).and(writes)
    }

    /// True if some are among the others, too.
    #[inline]
    pub(crate) fn has_any(self, other: Classes) -> bool {
        self.0 & other.0 != 0
    }

    /// True if all of the others are among them.
    pub(crate) fn has_all(self, other: Classes) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let named = Classes::NAMES.into_iter();
        named
            .filter(move |(_, one)| self.has_any(*one))
            .map(|(name, _)| name)
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_known_by_name() {
        let both = Classes::of(["scan", "filtering"].into_iter()).expect("known");
        assert_eq!(both, Classes::SCAN.and(Classes::FILTERING));
        assert_eq!(both.to_string(), "scan, filtering");
        assert_eq!(Classes::of(["scan", "Reads"].into_iter()), Err("Reads"));
        assert_eq!(Classes::of(Classes::known().names()), Ok(Classes::known()));
        assert_eq!(Classes::known().names().count(), 12);
    }
}
