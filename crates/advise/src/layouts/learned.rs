//! The statements that proxies have seen asked of a table, as a workload.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::LN_2;

use anyhow::{Context, Result, bail};
use helenus_cql::lexer::Lexer;
use helenus_layout::COLUMNS_MAX;
use helenus_proxy::COUNTS_HALF_LIFE;
use serde::Deserialize;

use super::workload;

/// A prepared SELECT as a proxy has counted it (`/api/statements`).
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(super) struct Asked {
    pub text: String,
    pub asked: f64,
    /// Mean time that clients wait.
    pub mean_us: Option<f64>,
    /// Since when it has been counted.
    pub counted_s: f64,
}

/// A statement that is left out of the workload, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LeftOut {
    pub text: String,
    pub asked: f64,
    pub why: String,
}

/// A workload file made of what was asked.
#[derive(Debug)]
pub(super) struct Learned {
    pub file: String,
    pub left_out: Vec<LeftOut>,
    /// Queries, those of statements that are left out included.
    pub asked: f64,
    /// Those of the statements in the workload.
    pub usable: f64,
    /// The longest time for which a statement has been counted.
    pub counted_s: f64,
}

impl Learned {
    /// The part of the queries that the workload stands for.
    pub(super) fn usable_share(&self) -> f64 {
        match self.asked > 0.0 {
            true => self.usable / self.asked,
            false => 0.0,
        }
    }
}

/// Queries in a second that proxies have counted, of all statements. Each proxy has counted since its first
/// query of the table, and older ones count less, so it is the rate of about the last day.
pub(super) fn queries_per_s(proxies: &[Vec<Asked>]) -> f64 {
    let half_life_s = COUNTS_HALF_LIFE.as_secs_f64();
    let of_proxy = |asked: &Vec<Asked>| {
        let counted_s = asked.iter().map(|of| of.counted_s).fold(0.0, f64::max);
        // One query each second would have this count.
        let one = half_life_s / LN_2 * (1.0 - 0.5_f64.powf(counted_s / half_life_s));
        let all: f64 = asked.iter().map(|of| of.asked).sum();
        // Not more from the first second than from a whole one.
        all / one.max(1.0)
    };
    proxies.iter().map(of_proxy).sum()
}

/// Adds up what several proxies tell of the same statements: the most asked first.
pub(super) fn merge(proxies: Vec<Vec<Asked>>) -> Vec<Asked> {
    let mut by_text: BTreeMap<String, Asked> = BTreeMap::new();
    for mut asked in proxies.into_iter().flatten() {
        // A statement may be broken into lines in different ways.
        if let Some(line) = one_line(&asked.text) {
            asked.text = line;
        }
        match by_text.get_mut(&asked.text) {
            Some(known) => {
                known.mean_us = mean(known, &asked);
                known.asked += asked.asked;
                known.counted_s = known.counted_s.max(asked.counted_s);
            }
            None => {
                by_text.insert(asked.text.clone(), asked);
            }
        }
    }
    let mut merged: Vec<Asked> = by_text.into_values().collect();
    merged.sort_by(|a, b| b.asked.total_cmp(&a.asked));
    merged
}

fn mean(one: &Asked, other: &Asked) -> Option<f64> {
    let (one_us, other_us) = match (one.mean_us, other.mean_us) {
        (Some(one), Some(other)) => (one, other),
        (one, other) => return one.or(other),
    };
    let asked = one.asked + other.asked;
    (asked > 0.0).then(|| (one_us * one.asked + other_us * other.asked) / asked)
}

/// The workload file of these statements. Those that no design can be made for are comments in it.
///
/// # Errors
/// None of them can be used.
pub(super) fn workload_of(create: &str, statements: &[Asked]) -> Result<Learned> {
    let create = create.trim().trim_end_matches(';');
    let mut learned = Learned {
        file: format!("{create};\n"),
        left_out: Vec::new(),
        asked: statements.iter().map(|asked| asked.asked).sum(),
        usable: 0.0,
        counted_s: statements.iter().map(|s| s.counted_s).fold(0.0, f64::max),
    };
    let mut is_empty = true;
    let mut columns = BTreeSet::new();
    for asked in statements {
        match line_of(create, asked, &mut columns) {
            Ok(line) => {
                is_empty = false;
                learned.usable += asked.asked;
                if let Some(us) = asked.mean_us {
                    let ms = us / 1e3;
                    learned.file += &format!("-- {ms:.3} ms on average until now\n");
                }
                learned.file += &line;
                learned.file.push('\n');
            }
            Err(why) => {
                let why = format!("{:#}", why.root_cause());
                let text = asked.text.replace(['\n', '\r'], " ");
                let reason = why.replace('\n', " ");
                learned.file += &format!("-- left out: {reason}\n-- {:.3} {text}\n", asked.asked);
                learned.left_out.push(LeftOut {
                    text,
                    asked: asked.asked,
                    why,
                });
            }
        }
    }
    if is_empty {
        bail!("{}", nothing_usable(&learned.left_out));
    }
    Ok(learned)
}

fn nothing_usable(left_out: &[LeftOut]) -> String {
    if left_out.is_empty() {
        return "the proxies have counted no prepared SELECT of this table: let clients use them for a while, \
                and note that only prepared statements are counted, one answer in 16"
            .to_owned();
    }
    let reasons = left_out
        .iter()
        .map(|s| format!("\n  {}: {}", s.text, s.why));
    let reasons: String = reasons.collect();
    format!("no design can be made for any of the statements that were asked:{reasons}")
}

/// A line of the workload file, if a design can be made for it, and for those before it as well: `columns`
/// are theirs.
fn line_of(create: &str, asked: &Asked, columns: &mut BTreeSet<String>) -> Result<String> {
    let text = one_line(&asked.text).context("it has a line break in a name or a text")?;
    let weight = asked.asked.max(0.001);
    let line = format!("{weight:.3} {text}");
    let table = workload::parse(&format!("{create};\n{line}\n"))?.table;
    let names = (0..table.columns()).map(|number| table.name(number).to_owned());
    let all: BTreeSet<String> = columns.iter().cloned().chain(names).collect();
    if all.len() > COLUMNS_MAX {
        bail!(
            "with the columns of statements that are asked more often, {} would be restricted or in the key: \
             a design can be made for {COLUMNS_MAX}",
            all.len()
        );
    }
    *columns = all;
    Ok(line)
}

/// A statement without comments, all in one line. None if a token of it has a line break.
fn one_line(text: &str) -> Option<String> {
    let mut line = String::with_capacity(text.len());
    let mut end = None;
    for token in Lexer::new(text) {
        if end.is_some_and(|end| end < token.start) {
            line.push(' ');
        }
        let written = text.get(token.start..token.end)?;
        if written.contains(['\n', '\r']) {
            return None;
        }
        line.push_str(written);
        end = Some(token.end);
    }
    Some(line.trim_end_matches([';', ' ']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "CREATE TABLE shop.orders (\n    shop int,\n    day date,\n    clerk text,\n    \
         total double,\n    PRIMARY KEY (shop, day, clerk)\n) WITH comment = 'a;b'\n    AND gc_grace_seconds = 864000;";

    fn asked(text: &str, asked: f64, mean_us: f64) -> Asked {
        Asked {
            text: text.to_owned(),
            asked,
            mean_us: Some(mean_us),
            counted_s: asked * 2.0,
        }
    }

    #[test]
    fn what_proxies_tell_is_added_up() {
        let one = vec![
            asked("SELECT * FROM shop.orders WHERE shop = ?", 160.0, 1_000.0),
            asked("SELECT day FROM shop.orders WHERE shop = ?;", 16.0, 500.0),
        ];
        let other = vec![
            asked(
                "SELECT day FROM shop.orders -- the days\n  WHERE shop = ?",
                480.0,
                1_500.0,
            ),
            Asked {
                mean_us: None,
                ..asked("SELECT * FROM shop.orders WHERE shop = ?", 40.0, 0.0)
            },
        ];
        let merged = merge(vec![one, other, Vec::new()]);
        let of = |at: usize| (&*merged[at].text, merged[at].asked, merged[at].counted_s);
        assert_eq!(merged.len(), 2);
        assert_eq!(
            of(0),
            ("SELECT day FROM shop.orders WHERE shop = ?", 496.0, 960.0)
        );
        let mean = merged[0].mean_us.expect("both have one");
        assert!((mean - 1_467.7).abs() < 0.1, "{mean}");
        assert_eq!(
            of(1),
            ("SELECT * FROM shop.orders WHERE shop = ?", 200.0, 320.0)
        );
        assert_eq!(merged[1].mean_us, Some(1_000.0));
    }

    #[test]
    fn the_rate_is_that_of_the_last_day() {
        let counted = |asked: f64, counted_s: f64| Asked {
            counted_s,
            ..self::asked("SELECT * FROM t", asked, 1.0)
        };
        let near = |found: f64, expected: f64| {
            assert!(
                (found / expected - 1.0).abs() < 5e-3,
                "{found}, not {expected}"
            );
        };
        // Two proxies, the second of which was started a minute ago, and has a statement of ten seconds.
        let young = vec![counted(600.0, 60.0), counted(600.0, 10.0)];
        near(
            queries_per_s(&[vec![counted(7_200.0, 600.0)], young]),
            12.0 + 20.0,
        );
        // After a long time, a query each second is counted as those of 1.44 days.
        let week = 7.0 * 86_400.0;
        near(
            queries_per_s(&[vec![counted(86_400.0 / LN_2, 10.0 * week)]]),
            1.0,
        );
        assert_eq!(queries_per_s(&[Vec::new(), vec![counted(16.0, 0.0)]]), 16.0);
    }

    #[test]
    fn statements_are_taken_while_their_columns_can_be_counted() {
        let columns: String = (0..40).map(|n| format!("c{n} int, ")).collect();
        let table = format!("CREATE TABLE s.t (p int, a int, {columns}PRIMARY KEY (p, a));");
        let of = |range: std::ops::Range<usize>, times: f64| {
            let bound: String = range.map(|n| format!(" AND c{n} = ?")).collect();
            asked(&format!("SELECT * FROM t WHERE p = ?{bound}"), times, 1.0)
        };
        let statements = [
            of(0..20, 9.0),
            of(20..31, 8.0),
            of(15..30, 7.0),
            of(0..1, 6.0),
        ];
        let learned = workload_of(&table, &statements).expect("most can be used");
        let workload = workload::parse(&learned.file).expect("its own file");
        assert_eq!(workload.table.columns(), 32);
        assert_eq!(workload.statements.len(), 3);
        let left_out: Vec<f64> = learned.left_out.iter().map(|s| s.asked).collect();
        assert_eq!(left_out, [8.0]);
        assert!(
            learned.left_out[0].why.contains("33 would be"),
            "{:?}",
            learned.left_out
        );
    }

    #[test]
    fn what_cannot_be_used_is_left_out_with_the_reason() {
        let statements = [
            asked(
                "SELECT * FROM orders WHERE shop = ? AND clerk = ?",
                100.5,
                9.0,
            ),
            asked("SELECT * FROM orders WHERE shop = ? LIMIT ?", 50.0, 9.0),
            asked("SELECT * FROM orders WHERE token(shop) > ?", 40.0, 9.0),
            asked(
                "SELECT * FROM orders WHERE shop = ? AND (day, clerk) IN ?",
                30.0,
                9.0,
            ),
            asked(
                "SELECT * FROM orders WHERE shop = ? AND gone = ?",
                20.0,
                9.0,
            ),
            asked(
                "SELECT * FROM orders WHERE shop = ? AND clerk = 'a\nb'",
                10.0,
                9.0,
            ),
            asked(
                "SELECT * FROM orders WHERE shop = ?\n AND day > ?",
                0.0,
                9.0,
            ),
        ];
        let learned = workload_of(TABLE, &statements).expect("two can be used");
        let workload = workload::parse(&learned.file).expect("its own file");
        let lines: Vec<_> = workload.statements.iter().map(|l| &*l.text).collect();
        assert_eq!(
            lines,
            [
                "SELECT * FROM orders WHERE shop = ? AND clerk = ?",
                "SELECT * FROM orders WHERE shop = ? AND day > ?"
            ]
        );
        let weights: Vec<f64> = workload
            .statements
            .iter()
            .map(|l| l.statement.weight)
            .collect();
        assert_eq!(weights, [100.5, 0.001]);
        let reasons: Vec<&str> = learned.left_out.iter().map(|s| &*s.why).collect();
        let parts = [
            "LIMIT",
            "token()",
            "several columns",
            "no column gone",
            "line break",
        ];
        assert_eq!(reasons.len(), parts.len(), "{reasons:?}");
        for (why, part) in reasons.iter().zip(parts) {
            assert!(why.contains(part), "{why} does not say {part}");
        }
        assert_eq!((learned.asked, learned.counted_s), (250.5, 201.0));
        assert!((learned.usable_share() - 100.5 / 250.5).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_design_for_is_an_error_that_says_why() {
        let nothing = workload_of(TABLE, &[]).expect_err("no statement");
        assert!(
            nothing.to_string().contains("no prepared SELECT"),
            "{nothing}"
        );
        let all = [asked(
            "SELECT * FROM orders WHERE shop = ? LIMIT ?",
            5.0,
            1.0,
        )];
        let all = workload_of(TABLE, &all).expect_err("none can be used");
        assert!(all.to_string().contains("LIMIT"), "{all}");
    }
}
