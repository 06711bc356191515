//! Statements that define something: the one place where rules about definitions ask.

use crate::statement::words::{is_one_of, words};

/// A definition's effect, as far as the proxy depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    DropsKeyspace,
    DropsTable,
    CreatesTable,
    AltersTable,
    /// A materialized view, which names its table somewhere behind.
    CreatesView,
    /// Anything else.
    Other,
}

impl Definition {
    pub(crate) fn of(text: &str) -> Definition {
        let mut words = words(text);
        let (verb, what) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let is_table = is_one_of(what, &["table", "columnfamily"]);
        if is_one_of(verb, &["drop"]) && is_one_of(what, &["keyspace", "schema"]) {
            Definition::DropsKeyspace
        } else if is_one_of(verb, &["drop"]) && is_table {
            Definition::DropsTable
        } else if is_one_of(verb, &["create"]) && is_table {
            Definition::CreatesTable
        } else if is_one_of(verb, &["alter"]) && is_table {
            Definition::AltersTable
        } else if is_one_of(verb, &["create"]) && is_one_of(what, &["materialized"]) {
            Definition::CreatesView
        } else {
            Definition::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_words_mean_the_same() {
        for (text, expected) in [
            ("DROP KEYSPACE app", Definition::DropsKeyspace),
            (
                "drop /* all of it */ Schema if exists app",
                Definition::DropsKeyspace,
            ),
            ("DROP TABLE app.t", Definition::DropsTable),
            ("DROP COLUMNFAMILY app.t", Definition::DropsTable),
            (
                "CREATE TABLE t (k int PRIMARY KEY)",
                Definition::CreatesTable,
            ),
            (
                "create columnfamily if not exists t (k int primary key)",
                Definition::CreatesTable,
            ),
            ("ALTER COLUMNFAMILY t ADD v int", Definition::AltersTable),
            (
                "CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
                Definition::CreatesView,
            ),
            ("DROP MATERIALIZED VIEW v", Definition::Other),
            ("CREATE KEYSPACE app", Definition::Other),
            ("CREATE CUSTOM INDEX ON t (v)", Definition::Other),
            ("", Definition::Other),
        ] {
            assert_eq!(Definition::of(text), expected, "{text}");
        }
    }
}
