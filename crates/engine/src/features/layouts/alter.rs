//! ALTER TABLE on a table with layouts: options that only say how a table is stored, new columns and dropped ones are
//! carried to its layouts; whatever else changes rows, or what a statement means, is refused.

use std::sync::Arc;
use std::time::Duration;

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Name, fold_identifier};
use helenus_layout::plan::{Copy, LogicalTable, qualified, qualified_table};

use crate::features::layouts::added_columns::{self, NOT_UNDERSTOOD};
use crate::features::layouts::carried::Carried;
use crate::features::layouts::dropped_columns::Dropped;
use crate::statement::prepared::Statement;
use crate::statement::words::is_one_of;

/// Options that change neither rows nor what is read of them. While only some of the tables have one, nothing
/// differs but how they are stored.
const CARRIED: [&str; 14] = [
    "additional_write_policy",
    "bloom_filter_fp_chance",
    "caching",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    GRACE,
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];
const GRACE: &str = "gc_grace_seconds";
/// In seconds, as `helenus layouts create` demands it: a deletion must not be forgotten while a row that it
/// covers is being copied.
const GRACE_MIN: u64 = 3_600;

/// In seconds. Hints of a derived layout live no longer than its tombstones, and are relied on for `hint_window`.
fn grace_min(table: &LogicalTable, hint_window: Duration) -> u64 {
    match table.copies.iter().any(Copy::is_derived) {
        true => hint_window.as_secs().max(GRACE_MIN),
        false => GRACE_MIN,
    }
}

const OTHER_COLUMNS: &str = "columns can be added to it and dropped, but not renamed in table and layouts at the same \
                             moment";

/// An option as it is given.
struct Given<'a> {
    name: Name,
    /// The first word of its value.
    value: &'a str,
}

/// How it is carried out on layouts, too; nothing if these need not change. `now_us`: the time at which columns are dropped.
///
/// # Errors
/// Why it is refused, for the client.
pub(crate) fn alter_layouts(
    statement: &Statement,
    table: &Arc<LogicalTable>,
    now_us: i64,
    hint_window: Duration,
) -> Result<Option<Carried>, String> {
    let text = &*statement.text;
    let span = statement.facts.spans.table.clone();
    let parts = span.and_then(|span| Some((text.get(..span.start)?, text.get(span.end..)?)));
    if let Some((_, behind)) = parts
        && let Some(why) = added_columns::outlived(behind, table)
    {
        return Err(why);
    }
    let altered = match parts {
        Some((before, behind)) if begins_with(behind, "drop") => {
            drop_columns(before, behind, table, now_us)
        }
        Some((before, behind)) => layouts_first(before, behind, table, hint_window),
        None => Err(NOT_UNDERSTOOD.to_owned()),
    };
    let LogicalTable { keyspace, name, .. } = &**table;
    altered.map_err(|why| {
        format!(
            "{keyspace}.{name} has layouts, which would not be altered with it: {why}; drop them first \
             (helenus layouts drop {keyspace}.{name} --all)"
        )
    })
}

/// `before`, `behind`: the text on both sides of the table's name.
fn drop_columns(
    before: &str,
    behind: &str,
    table: &Arc<LogicalTable>,
    now_us: i64,
) -> Result<Option<Carried>, String> {
    let Some(dropped) = Dropped::parse(behind) else {
        return Err(OTHER_COLUMNS.to_owned());
    };
    let own = qualified_table(table);
    let (on_table, on_layout) = dropped.texts(now_us);
    let on = |copy: &Copy| format!("{before}{}{on_layout}", qualified(table, copy));
    let on_layouts = table.copies.iter().map(on);
    let texts = std::iter::once(format!("{before}{own}{on_table}")).chain(on_layouts);
    let texts = texts.collect();
    Ok(Some(Carried::drop_columns(table.clone(), texts)))
}

fn layouts_first(
    before: &str,
    behind: &str,
    table: &Arc<LogicalTable>,
    hint_window: Duration,
) -> Result<Option<Carried>, String> {
    let grace_min = grace_min(table, hint_window);
    let on = |copy: &Copy| -> Result<Option<String>, String> {
        let behind = on_layout(behind, table, copy, grace_min)?;
        let physical = qualified(table, copy);
        Ok(behind.map(|behind| format!("{before}{physical}{behind}")))
    };
    let texts: Result<Vec<_>, String> = table.copies.iter().map(on).collect();
    let texts: Vec<String> = texts?.into_iter().flatten().collect();
    if texts.is_empty() {
        return Ok(None);
    }
    Ok(Some(Carried::layouts_first(table.clone(), texts)))
}

fn begins_with(text: &str, word: &str) -> bool {
    let first = Lexer::new(text).next();
    first.is_some_and(|token| is_one_of(text_of(text, &token), &[word]))
}

/// The text behind the table's name, as it is on a layout, if that lacks it; or why layouts cannot follow.
fn on_layout(
    behind: &str,
    table: &LogicalTable,
    copy: &Copy,
    grace_min: u64,
) -> Result<Option<String>, String> {
    let mut tokens = Lexer::new(behind);
    let first = tokens.next();
    let verb = first.map_or("", |token| text_of(behind, &token));
    if is_one_of(verb, &["add"]) {
        return added_columns::on_layout(behind, table, copy);
    }
    let refused = match is_one_of(verb, &["with"]) {
        true => obstacle(behind, tokens, grace_min),
        false => Some(OTHER_COLUMNS.to_owned()),
    };
    refused.map_or_else(|| Ok(Some(behind.to_owned())), Err)
}

/// Why options are not carried to layouts.
fn obstacle(behind: &str, tokens: impl Iterator<Item = Token>, grace_min: u64) -> Option<String> {
    let Some(options) = options(behind, tokens) else {
        return Some("its options are not understood".to_owned());
    };
    options.iter().find_map(|option| {
        let name = option.name.as_str();
        if name == "default_time_to_live" {
            return Some(format!(
                "{name} would be another for the table than for a layout while one write is carried out"
            ));
        }
        if !CARRIED.contains(&name) {
            return Some(format!("{name} is no option that is carried to layouts"));
        }
        // Cassandra takes '60' for a number, too.
        let is_long = option.value.parse().is_ok_and(|seconds: u64| seconds >= grace_min);
        (name == GRACE && !is_long).then(|| {
            format!(
                "{name} must be a number of at least {grace_min}, or a deletion could be forgotten while a \
                 layout is being filled, and hints before they are sent"
            )
        })
    })
}

/// `name = value AND name = value …`, up to the end of the statement.
fn options<'a>(text: &'a str, mut tokens: impl Iterator<Item = Token>) -> Option<Vec<Given<'a>>> {
    let mut given = Vec::new();
    loop {
        let name = tokens.next()?;
        if !matches!(name.kind, TokenKind::Word | TokenKind::QuotedName) {
            return None;
        }
        tokens
            .next()
            .filter(|token| token.kind == TokenKind::Equal)?;
        let mut value = tokens.next()?;
        given.push(Given {
            name: fold_identifier(text_of(text, &name)),
            value: text_of(text, &value),
        });
        // A map, to its end.
        let mut depth = 0_usize;
        loop {
            match value.kind {
                TokenKind::LBrace => depth += 1,
                TokenKind::RBrace => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            value = tokens.next()?;
        }
        match tokens.next() {
            None => return Some(given),
            Some(token) if token.kind == TokenKind::Semicolon => {
                return tokens.next().is_none().then_some(given);
            }
            Some(token) if is_one_of(text_of(text, &token), &["and"]) => {}
            Some(_) => return None,
        }
    }
}

fn text_of<'a>(text: &'a str, token: &Token) -> &'a str {
    text.get(token.start..token.end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacle(behind: &str) -> Option<String> {
        let mut tokens = Lexer::new(behind);
        let with = tokens.next();
        let with = with.filter(|with| is_one_of(text_of(behind, with), &["with"]));
        match with {
            Some(_) => super::obstacle(behind, tokens, GRACE_MIN),
            None => Some("it is about columns".to_owned()),
        }
    }

    #[test]
    fn tombstones_of_derived_layouts_are_kept_as_long_as_hints_are_relied_on() {
        let window = Duration::from_secs(10_800);
        let mut table = crate::testing::bench::orders(true);
        let on = |table: &LogicalTable, seconds: u32| {
            let behind = format!(" WITH gc_grace_seconds = {seconds}");
            on_layout(&behind, table, &table.copies[0], grace_min(table, window)).is_ok()
        };
        assert_eq!([3_599, 3_600].map(|of| on(&table, of)), [false, true]);
        table.copies[0].keyspace = Some("shop__layouts".to_owned());
        assert_eq!([10_799, 10_800].map(|of| on(&table, of)), [false, true]);
    }

    #[test]
    fn only_options_of_storage_are_carried() {
        for behind in [
            " WITH comment = 'x'",
            " with Compaction = {'class': 'LeveledCompactionStrategy'} AND gc_grace_seconds = 3600;",
            " WITH \"caching\" = {'keys': 'ALL', 'rows_per_partition': {}} AND comment = '} AND id = 1'",
            "/* why */ WITH -- not\n speculative_retry = '99p'",
        ] {
            assert_eq!(obstacle(behind), None, "{behind}");
        }
        for behind in [
            "",
            " ADD a int",
            " DROP a",
            " RENAME a TO b",
            " ALTER a TYPE text",
            " DROP COMPACT STORAGE",
            " WITH",
            " WITH comment",
            " WITH comment = ",
            " WITH comment = 'x' AND",
            " WITH comment = 'x' 'y'",
            " WITH comment = 'x'; DROP TABLE t",
            " WITH compaction = {'class': 'x'",
            " WITH compaction = }",
            " WITH comment = 'x' AND default_time_to_live = 5",
            " WITH gc_grace_seconds = 3599",
            " WITH gc_grace_seconds = 0",
            " WITH gc_grace_seconds = '60'",
            " WITH cdc = true",
            " WITH \"Comment\" = 'x'",
            " WITH extensions = {'a': 0x00}",
        ] {
            assert!(obstacle(behind).is_some(), "{behind}");
        }
    }
}
