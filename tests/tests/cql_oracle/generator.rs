//! Random statements along the grammar: names, terms, restrictions, SELECT. The rest is in
//! `statements`.

mod statements;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) struct Generator {
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
    pub(crate) fn new(seed: u64) -> Self {
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
    pub(crate) fn literal(&mut self) -> String {
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
}
