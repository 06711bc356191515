//! Documents from a seed: like one another, and with everything that JSON allows.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(super) struct Generator(pub ChaCha8Rng);

const NAMES: [&str; 12] = [
    "id", "name", "items", "price", "at", "é", "a b", "", "x\\u0041", "tags", "geo", "\\\"",
];
const STRINGS: [&str; 14] = [
    "",
    "red",
    "green",
    "wireless headphones",
    "2024-05-12T13:04:05Z",
    "\\u0041",
    "\\ud83d\\ude00",
    "\\ud83d",
    "😀 ünï",
    "a\\nb",
    "a\\/b",
    "\\u00e9",
    "\\u001f",
    "user-1829-x",
];
const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "1",
    "1.0",
    "-0.0",
    "1e0",
    "1E5",
    "1E+5",
    "1e-7",
    "12.50",
    "0.1",
    "1234567890123456789",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e400",
    "-1e400",
    "99999999999999999999999999",
    "0.30000000000000004",
    "3.141592653589793238462643",
    "5e-324",
    "1.7976931348623157e308",
    "100000000000000000000.0",
    "-12",
];

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Generator(ChaCha8Rng::seed_from_u64(seed))
    }

    fn of<'s>(&mut self, all: &[&'s str]) -> &'s str {
        all.choose(&mut self.0).expect("not empty")
    }

    /// A document with any spelling.
    pub(super) fn any(&mut self) -> String {
        let style = self.0.random_range(0..4);
        let mut out = String::new();
        self.value(style, 0, &mut out);
        out
    }

    fn value(&mut self, style: u8, depth: usize, out: &mut String) {
        let space = |out: &mut String, generator: &mut ChaCha8Rng| match style {
            0 | 1 => {}
            2 => out.push(' '),
            _ => out.push_str(
                ["", " ", "\n", "\t\r"]
                    .choose(generator)
                    .expect("not empty"),
            ),
        };
        match self.0.random_range(0..if depth < 5 { 8 } else { 5 }) {
            0 => out.push_str(self.of(&["true", "false", "null"])),
            1 => out.push_str(self.of(&NUMBERS)),
            2 => {
                let number: i64 = self.0.random::<i64>() >> self.0.random_range(0..64);
                out.push_str(&number.to_string());
            }
            3 => {
                let number: f64 = self.0.random::<f64>() * 10f64.powi(self.0.random_range(-8..20));
                out.push_str(&number.to_string());
            }
            4 => {
                let string = self.of(&STRINGS);
                out.push_str(&format!("\"{string}\""));
            }
            5 | 6 => {
                out.push('{');
                for member in 0..self.0.random_range(0..6) {
                    if member > 0 {
                        out.push(',');
                        space(out, &mut self.0);
                    }
                    // Sometimes the same name again.
                    let name = self.of(&NAMES);
                    out.push_str(&format!("\"{name}\":"));
                    space(out, &mut self.0);
                    self.value(style, depth + 1, out);
                }
                out.push('}');
            }
            _ => {
                out.push('[');
                for element in 0..self.0.random_range(0..5) {
                    if element > 0 {
                        out.push(',');
                        space(out, &mut self.0);
                    }
                    self.value(style, depth + 1, out);
                }
                out.push(']');
            }
        }
    }

    /// A document in the usual spelling, like others of its kind.
    pub(super) fn order(&mut self) -> String {
        let (id, user) = (self.0.random_range(1..1_000_000), self.0.random::<u32>());
        let color = self.of(&["red", "green", "blue"]);
        let word = self.of(&["chair", "table", "lamp", "sofa"]);
        let price = f64::from(self.0.random_range(100..99_999)) / 100.0;
        let second = self.0.random_range(0..60);
        let note = match self.0.random_bool(0.3) {
            true => format!(",\"note\":\"{color} {word} please\""),
            false => String::new(),
        };
        format!(
            "{{\"id\":{id},\"user\":\"{user:08x}\",\"at\":\"2024-05-12T13:04:{second:02}Z\",\"color\":\"{color}\",\
             \"lines\":[{{\"item\":\"{word}\",\"price\":{price}}}],\"paid\":true{note}}}"
        )
    }

    pub(super) fn orders(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.order()).collect()
    }
}
