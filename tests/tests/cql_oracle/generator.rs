//! Random statements along the grammar, and random damage to them.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub struct Generator {
    rng: ChaCha8Rng,
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "K1",
    "Key",
    "\"Quoted\"",
    "\"a\"\"b\"",
    "\"select\"",
    "ttl",
    "json",
    "distinct",
    "values",
    "as",
    "count",
    "type",
    "\"é\"",
    "x_1",
    "per",
    "group",
    "list",
    "text",
    "int",
    "user",
    "P1",
    "e1",
    "abcdef12",
    "writetime",
    "cast",
    "filtering",
    "static",
    "timestamp",
    "contains",
];

const LITERALS: &[&str] = &[
    "'x'",
    "'it''s'",
    "''",
    "'a;b'",
    "'-- no'",
    "$$raw 'text'$$",
    "$$$$",
    "0",
    "-1",
    "42",
    "123456789012345678901234567890123456789012345678901",
    "1.5",
    "-2e10",
    "1.",
    "true",
    "FALSE",
    "null",
    "NaN",
    "-infinity",
    "0xCAFE",
    "0x",
    "0x1",
    "550e8400-e29b-41d4-a716-446655440000",
    "1h30m",
    "P1Y2M3DT4H5M6S",
    "-P3W",
    "12µs",
    "P0001-02-03T04:05:06",
    "'?'",
    "'é :x'",
];

impl Generator {
    pub fn new(seed: u64) -> Self {
        Generator {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices.choose(&mut self.rng).unwrap_or(&"")
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn below(&mut self, end: usize) -> usize {
        self.rng.random_range(0..end)
    }

    fn some(&mut self, most: usize, separator: &str, part: impl Fn(&mut Self) -> String) -> String {
        let count = 1 + self.below(most);
        let parts: Vec<String> = (0..count).map(|_| part(self)).collect();
        parts.join(separator)
    }

    fn maybe(&mut self, percent: u32, part: impl Fn(&mut Self) -> String) -> String {
        if self.chance(percent) {
            part(self)
        } else {
            String::new()
        }
    }

    /// A literal, random digits and letters included.
    pub fn literal(&mut self) -> String {
        match self.below(8) {
            0 => self.rng.random::<i64>().to_string(),
            1 => self.rng.random::<i16>().to_string(),
            2 => format!(
                "{:e}",
                f64::from_bits(self.rng.random::<u64>() & !(1 << 62))
            ),
            3 => format!("{}.{}", self.rng.random::<i32>(), self.rng.random::<u16>()),
            4 => {
                let (a, b) = (self.rng.random::<u64>(), self.rng.random::<u64>());
                format!(
                    "{:08x}-{:04x}-{:x}{:03x}-{:04x}-{:012x}",
                    a >> 32,
                    (a >> 16) & 0xffff,
                    1 + a % 5,
                    a & 0xfff,
                    b >> 48,
                    b & 0xffff_ffff_ffff
                )
            }
            5 => {
                let (y, m, d) = (self.below(3000), 1 + self.below(12), 1 + self.below(31));
                let (h, n, s) = (self.below(25), self.below(60), self.below(60));
                match self.below(3) {
                    0 => format!("'{y:04}-{m:02}-{d:02}'"),
                    1 => format!("'{h:02}:{n:02}:{s:02}.{}'", self.below(1000)),
                    _ => format!(
                        "'{y:04}-{m:02}-{d:02}T{h:02}:{n:02}:{s:02}.{:03}Z'",
                        self.below(1000)
                    ),
                }
            }
            _ => self.one_of(LITERALS).to_owned(),
        }
    }

    fn name(&mut self) -> String {
        self.one_of(NAMES).to_owned()
    }

    fn marker(&mut self) -> String {
        match self.below(3) {
            0 => ":".to_owned() + &self.name(),
            _ => "?".to_owned(),
        }
    }

    fn term(&mut self, depth: usize) -> String {
        if depth == 0 || self.chance(65) {
            return match self.below(3) {
                0 => self.marker(),
                _ => self.literal(),
            };
        }
        let inner = |g: &mut Self| g.term(depth - 1);
        match self.below(12) {
            0 => format!("[{}]", self.some(3, ", ", inner)),
            1 => format!("{{{}}}", self.some(3, ",", inner)),
            2 => format!(
                "{{{}}}",
                self.some(3, ",", |g| format!(
                    "{} : {}",
                    g.term(depth - 1),
                    g.term(depth - 1)
                ))
            ),
            3 => format!(
                "{{{}}}",
                self.some(2, ",", |g| format!("{}:{}", g.name(), g.term(depth - 1)))
            ),
            4 => format!("({})", self.some(3, ", ", inner)),
            5 => format!(
                "{}({})",
                self.one_of(&[
                    "now",
                    "uuid",
                    "toDate",
                    "ks.f",
                    "\"F\"",
                    "token",
                    "blobAsInt",
                    "count"
                ]),
                self.maybe(60, inner)
            ),
            6 => format!(
                "({}) {}",
                self.one_of(&["int", "text", "frozen<list<int>>", "ks.ty"]),
                inner(self)
            ),
            7 => format!(
                "cast({} as {})",
                inner(self),
                self.one_of(&["int", "text", "date"])
            ),
            8 => format!("- {}", inner(self)),
            9 => "[]".to_owned(),
            10 => "{}".to_owned(),
            _ => format!(
                "{} {} {}",
                inner(self),
                self.one_of(&["+", "-", "*", "/", "%"]),
                inner(self)
            ),
        }
    }

    fn table(&mut self) -> String {
        let keyspace = self.maybe(40, |g| g.name() + ".");
        keyspace + &self.name()
    }

    fn int(&mut self) -> String {
        match self.below(3) {
            0 => self.marker(),
            _ => self.one_of(&["1", "10", "5000", "-1"]).to_owned(),
        }
    }

    fn names(&mut self) -> String {
        format!("({})", self.some(3, ", ", Self::name))
    }

    fn relation(&mut self) -> String {
        let op = self
            .one_of(&["=", "=", "<", "<=", ">", ">=", "!="])
            .to_owned();
        match self.below(16) {
            0 => format!(
                "{} IN ({})",
                self.name(),
                self.maybe(90, |g| g.some(3, ",", |g| g.term(1)))
            ),
            1 => format!("{} IN {}", self.name(), self.marker()),
            2 => format!("token{} {op} {}", self.names(), self.term(2)),
            3 => format!(
                "{} {op} ({})",
                self.names(),
                self.some(3, ",", |g| g.term(1))
            ),
            4 => format!("{} {op} {}", self.names(), self.marker()),
            5 => format!("{} IN {}", self.names(), self.marker()),
            6 => format!(
                "{} IN ({})",
                self.names(),
                self.some(2, ",", |g| format!("({})", g.term(1)))
            ),
            7 => format!("{} IN ({})", self.names(), self.some(2, ",", Self::marker)),
            8 => format!(
                "{} CONTAINS {} {}",
                self.name(),
                self.maybe(40, |_| "KEY".into()),
                self.marker()
            ),
            9 => format!("{}[{}] = {}", self.name(), self.term(1), self.term(2)),
            10 => format!("{} LIKE {}", self.name(), self.term(0)),
            11 => format!("{} IS NOT NULL", self.name()),
            12 => format!("({})", self.relation()),
            13 => format!("expr({}, {})", self.name(), self.term(1)),
            _ => format!("{} {op} {}", self.name(), self.term(3)),
        }
    }

    fn where_clause(&mut self) -> String {
        format!(" WHERE {}", self.some(4, " AND ", Self::relation))
    }

    fn selector(&mut self, depth: usize) -> String {
        let item = match self.below(if depth == 0 { 3 } else { 12 }) {
            0 | 1 => self.name(),
            2 => self.literal(),
            3 => "count(*)".into(),
            4 => format!(
                "{}({})",
                self.one_of(&["writetime", "ttl", "maxwritetime"]),
                self.name()
            ),
            5 => format!("cast({} as text)", self.selector(depth - 1)),
            6 => format!("ks.f({})", self.some(2, ",", |g| g.selector(depth - 1))),
            7 => format!("{}.{}", self.name(), self.name()),
            8 => format!("{}[{}]", self.name(), self.term(1)),
            9 => format!("[{}]", self.some(2, ",", |g| g.selector(depth - 1))),
            10 => format!("({})", self.some(2, ",", |g| g.selector(depth - 1))),
            _ => format!(
                "{} {} {}",
                self.selector(depth - 1),
                self.one_of(&["+", "*", "/", "%"]),
                self.selector(depth - 1)
            ),
        };
        if depth == 2 && self.chance(20) {
            item + " AS " + &self.name()
        } else {
            item
        }
    }

    fn select(&mut self) -> String {
        let selection = match self.below(4) {
            0 => "*".to_owned(),
            1 => self
                .one_of(&["count(*)", "COUNT(1)", "count(*) as n"])
                .to_owned(),
            _ => self.some(4, ", ", |g| g.selector(2)),
        };
        [
            "SELECT ".to_owned(),
            self.maybe(10, |_| "JSON ".into()),
            self.maybe(10, |_| "DISTINCT ".into()),
            selection,
            " FROM ".into(),
            self.table(),
            self.maybe(80, Self::where_clause),
            self.maybe(10, |g| {
                " GROUP BY ".to_owned() + &g.some(2, ",", Self::name)
            }),
            self.maybe(20, |g| {
                " ORDER BY ".to_owned()
                    + &g.some(2, ",", |g| {
                        let ann = g.maybe(10, |g| format!(" ANN OF {}", g.term(2)));
                        g.name() + &ann + g.one_of(&["", " ASC", " DESC"])
                    })
            }),
            self.maybe(10, |g| " PER PARTITION LIMIT ".to_owned() + &g.int()),
            self.maybe(30, |g| " LIMIT ".to_owned() + &g.int()),
            self.maybe(20, |_| " ALLOW FILTERING".into()),
        ]
        .concat()
    }

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
            9 => format!(
                "CREATE OR REPLACE FUNCTION ks.f (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$ return a; -- ? $$"
            ),
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

    pub fn statement(&mut self) -> String {
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
    pub fn mutate(&mut self, statement: &str) -> String {
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
