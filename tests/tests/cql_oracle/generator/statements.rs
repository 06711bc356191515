//! Writes, batches, schema, and random damage to any statement.

use super::Generator;

impl Generator {
    fn using(&mut self, ttl: bool) -> String {
        let part = move |g: &mut Self| {
            let word = if ttl {
                g.one_of(&["TIMESTAMP", "TTL"])
            } else {
                "TIMESTAMP"
            };
            format!("{word} {}", g.int())
        };
        let most = if ttl { 2 } else { 1 };
        format!(" USING {}", self.some(most, " AND ", part))
    }

    fn condition(&mut self) -> String {
        if self.chance(30) {
            return " IF EXISTS".into();
        }
        format!(
            " IF {}",
            self.some(2, " AND ", |g| match g.below(4) {
                0 => format!("{} IN {}", g.name(), g.marker()),
                1 => format!("{}[{}] = {}", g.name(), g.term(1), g.term(1)),
                2 => format!("{}.{} != {}", g.name(), g.name(), g.term(1)),
                _ => format!("{} >= {}", g.name(), g.term(2)),
            })
        )
    }

    fn assignment(&mut self) -> String {
        let name = self.name();
        match self.below(9) {
            0 => format!("{name} = {name} + {}", self.term(1)),
            1 => format!("{name} = {name} - {}", self.term(1)),
            2 => format!("{name} = {} + {name}", self.term(1)),
            3 => format!("{name} {} {}", self.one_of(&["+=", "-="]), self.term(1)),
            4 => format!("{name}[{}] = {}", self.term(1), self.term(1)),
            5 => format!("{name}.{} = {}", self.name(), self.term(1)),
            6 => format!("{name} = {name} -3"),
            _ => format!("{name} = {}", self.term(2)),
        }
    }

    fn modification(&mut self) -> String {
        match self.below(4) {
            0 => {
                let count = 1 + self.below(4);
                let names: Vec<String> = (0..count).map(|_| self.name()).collect();
                let terms: Vec<String> = (0..count).map(|_| self.term(3)).collect();
                format!(
                    "INSERT INTO {} ({}) VALUES ({}){}{}",
                    self.table(),
                    names.join(", "),
                    terms.join(","),
                    self.maybe(20, |_| " IF NOT EXISTS".into()),
                    self.maybe(30, |g| g.using(true))
                )
            }
            1 if self.chance(30) => format!(
                "INSERT INTO {} JSON {}{}{}{}",
                self.table(),
                self.one_of(&["'{\"k\": 1}'", "?", ":json", "$${\"a\": 'b'}$$"]),
                self.one_of(&["", " DEFAULT NULL", " DEFAULT UNSET"]),
                self.maybe(20, |_| " IF NOT EXISTS".into()),
                self.maybe(30, |g| g.using(true))
            ),
            2 => format!(
                "DELETE {} FROM {}{}{}{}",
                self.maybe(50, |g| g.some(2, ", ", |g| {
                    let suffix = match g.below(4) {
                        0 => format!("[{}]", g.term(1)),
                        1 => format!(".{}", g.name()),
                        _ => String::new(),
                    };
                    g.name() + &suffix
                })),
                self.table(),
                self.maybe(30, |g| g.using(false)),
                self.where_clause(),
                self.maybe(20, Self::condition)
            ),
            _ => format!(
                "UPDATE {}{} SET {}{}{}",
                self.table(),
                self.maybe(30, |g| g.using(true)),
                self.some(3, ", ", Self::assignment),
                self.where_clause(),
                self.maybe(20, Self::condition)
            ),
        }
    }

    fn other(&mut self) -> String {
        let table = self.table();
        let name = self.name();
        match self.below(14) {
            0 => format!("USE {name}"),
            1 => format!(
                "TRUNCATE {}{table}",
                self.one_of(&["", "TABLE ", "COLUMNFAMILY "])
            ),
            2 => format!(
                "CREATE TABLE IF NOT EXISTS {table} (a int PRIMARY KEY, b map<text, frozen<list<int>>>) WITH comment = 'x;y' AND gc_grace_seconds = 0"
            ),
            3 => format!("DROP TABLE {}{table}", self.one_of(&["", "IF EXISTS "])),
            4 => format!("ALTER TABLE {table} ADD c text"),
            5 => format!(
                "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ),
            6 => format!(
                "CREATE {}INDEX {}ON {table} (keys(m))",
                self.one_of(&["", "CUSTOM "]),
                self.one_of(&["", "i ", "IF NOT EXISTS i "])
            ),
            7 => format!(
                "CREATE MATERIALIZED VIEW {table} AS SELECT a, b FROM {} WHERE a IS NOT NULL AND b = 1 PRIMARY KEY (a, b)",
                self.table()
            ),
            8 => format!(
                "CREATE TYPE {} (a int, b frozen<set<text>>)",
                self.one_of(&["ty", "ks.ty", "Ks.\"Ty\""])
            ),
            9 => "CREATE OR REPLACE FUNCTION ks.f (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$ return a; -- ? $$".to_owned(),
            10 => format!("GRANT SELECT ON {table} TO r"),
            11 => self
                .one_of(&[
                    "LIST ROLES OF r NORECURSIVE",
                    "LIST USERS",
                    "CREATE ROLE r WITH LOGIN = true AND PASSWORD = 'p'",
                    "DROP USER u",
                    "REVOKE r FROM s",
                    "ADD IDENTITY 'i' TO ROLE 'r'",
                ])
                .to_owned(),
            12 => self
                .one_of(&[
                    "DESCRIBE CLUSTER",
                    "DESC TABLES",
                    "DESCRIBE KEYSPACE a WITH INTERNALS",
                    "describe full schema",
                ])
                .to_owned(),
            _ => format!("ALTER KEYSPACE {name} WITH durable_writes = false"),
        }
    }

    pub(crate) fn statement(&mut self) -> String {
        let statement = match self.below(10) {
            0..4 => self.select(),
            4..7 => self.modification(),
            7..9 => format!(
                "BEGIN {}BATCH{}{} APPLY BATCH",
                self.one_of(&["", "UNLOGGED ", "COUNTER "]),
                self.maybe(20, |g| g.using(false)),
                self.maybe(95, |g| g.some(4, "", |g| {
                    let end = g.one_of(&[" ", ";", " ; "]);
                    format!(" {}{end}", g.modification())
                }))
            ),
            _ => self.other(),
        };
        let statement = self.respace(&statement);
        statement + self.one_of(&["", "", ";", " ; ;", "\n-- end\n"])
    }

    /// Other case and other blanks, outside of anything quoted.
    fn respace(&mut self, statement: &str) -> String {
        let style = self.below(4);
        let mut out = String::new();
        let mut quote = None;
        for c in statement.chars() {
            match quote {
                Some(q) => {
                    if c == q {
                        quote = None;
                    }
                    out.push(c);
                }
                None if matches!(c, '\'' | '"' | '$') => {
                    quote = Some(c);
                    out.push(c);
                }
                // A dollar quote closes at its first dollar here, and opens again: harmless.
                None if c == ' ' && style == 1 && self.chance(20) => {
                    out.push_str(self.one_of(&["\n", "\t ", " /* ; ' */ ", " -- x?\n", " // y\n"]));
                }
                // Names of ISO durations only know capitals; expr( only small letters.
                None if style == 2 && c.is_ascii_uppercase() && self.chance(50) => {
                    out.push(
                        if matches!(c, 'P' | 'T' | 'Y' | 'M' | 'D' | 'H' | 'S' | 'W') {
                            c
                        } else {
                            c.to_ascii_lowercase()
                        },
                    );
                }
                None => out.push(c),
            }
        }
        out
    }

    /// Breaks something: a piece goes, doubles, moves, or a foreign piece comes in.
    pub(crate) fn mutate(&mut self, statement: &str) -> String {
        const PIECES: &[&str] = &[
            "'",
            "\"",
            "$$",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ";",
            "?",
            ":x",
            ":",
            "..",
            ".",
            ",",
            "-",
            "+",
            "=",
            " AND ",
            " IF EXISTS",
            " now() ",
            "/*",
            "--",
            "\n",
            "é",
            "@",
            " IN ",
            "1",
            "x",
            " FROM ",
            " WHERE ",
            " (int) ",
            " as ",
            " null ",
            " BEGIN BATCH ",
            " key ",
        ];
        let chars: Vec<char> = statement.chars().collect();
        let cut = |from: usize, to: usize| chars[from..to].iter().collect::<String>();
        let a = self.below(chars.len() + 1);
        let b = (a + self.below(6)).min(chars.len());
        match self.below(4) {
            0 => cut(0, a) + &cut(b, chars.len()),
            1 => cut(0, b) + &cut(a, chars.len()),
            2 => cut(0, a) + self.one_of(PIECES) + &cut(a, chars.len()),
            _ => {
                let words: Vec<&str> = statement.split(' ').collect();
                let (i, j) = (self.below(words.len()), self.below(words.len()));
                let mut words = words;
                words.swap(i, j);
                words.join(" ")
            }
        }
    }
}
