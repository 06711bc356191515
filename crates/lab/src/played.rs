//! Output of `helenus replay` and `helenus mirror` about requests that were played.

use std::collections::BTreeMap;
use std::io::Write;

use comfy_table::{CellAlignment, Table, presets};
use helenus_console::cells::printable;
use helenus_console::figures::number;
use helenus_load::replay::Group;
use helenus_load::report::spread::Spread;

/// Characters of a statement that are shown.
const STATEMENT_CHARS_MAX: usize = 60;

/// The words in which the two commands differ.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub compared: &'static str,
    pub different: &'static str,
}

/// Prints what came of it. Whoever has read the output may be gone: that is no reason to end anything, nor to lose
/// the result.
pub(crate) fn print(text: &str) {
    let _ = write!(std::io::stdout(), "{text}");
}

/// [`print()`] for a line of progress, on stderr.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Latencies and errors of classes, of the most frequent statements, and with `words` how the answers compare.
/// `arms`: whose answers they are.
pub(crate) fn groups(
    groups: &[Group],
    arms: &[String],
    has_ratios: bool,
    words: Option<Words>,
    limit: usize,
) -> Vec<String> {
    let (statements, others): (Vec<&Group>, Vec<&Group>) =
        groups.iter().partition(|group| group.kind == "statement");
    let most = statements.iter().copied().take(limit);
    let mut lines = vec![
        latencies(arms, has_ratios, others.iter().copied()),
        latencies(arms, has_ratios, most),
    ];
    if statements.len() > limit {
        lines.push(format!(
            "{} more statements: --limit",
            statements.len() - limit
        ));
    }
    if let Some(words) = words {
        let all = others.iter().find(|group| group.kind == "all");
        lines.push(all.map_or_else(
            || "no answers to compare".to_owned(),
            |all| answers(all, words),
        ));
        let differ = statements
            .iter()
            .filter(|group| group.compared > group.same);
        for group in differ.take(limit) {
            lines.push(format!("  {}: {}", name(group), answers(group, words)));
        }
    }
    lines
}

/// Lines about requests that were not played, by reason.
pub(crate) fn not_played(reasons: &BTreeMap<String, u64>, limit: usize) -> Vec<String> {
    let mut not_played: Vec<_> = reasons.iter().collect();
    not_played.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let most = not_played.iter().take(limit);
    let mut lines: Vec<String> = most
        .map(|(why, count)| format!("not played: {count} {}", printable(why)))
        .collect();
    if not_played.len() > limit {
        let more = not_played.len() - limit;
        lines.push(format!("not played for {more} more reasons: --limit"));
    }
    lines
}

/// How the answers compare.
fn answers(group: &Group, words: Words) -> String {
    let mut said = format!(
        "{} {}, {} the same",
        group.compared, words.compared, group.same
    );
    for (count, what) in [
        (group.reordered, "with the same rows in another order"),
        (group.different, words.different),
        (group.failed, "of which one or both were errors"),
        (
            group.undecided,
            "not the same, of statements that call functions",
        ),
    ] {
        if count > 0 {
            said.push_str(&format!(", {count} {what}"));
        }
    }
    said
}

fn name(group: &Group) -> String {
    let name = printable(&group.name);
    match name.chars().count() > STATEMENT_CHARS_MAX {
        true => name
            .chars()
            .take(STATEMENT_CHARS_MAX)
            .chain(['…'])
            .collect(),
        false => name,
    }
}

fn latencies<'a>(
    arms: &[String],
    has_ratios: bool,
    groups: impl Iterator<Item = &'a Group>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec![String::new()];
    for arm in arms {
        let of = |what: &str| format!("{}\n{what}", printable(arm));
        header.extend(["answered", "errors", "p50 ms", "p99 ms"].map(of));
    }
    if has_ratios {
        header.extend(["p50 ratio", "p99 ratio"].map(str::to_owned));
    }
    table.set_header(header);
    for group in groups {
        let mut cells = vec![name(group)];
        for of in &group.of {
            let errors: u64 = of.errors.values().sum();
            cells.extend([of.answered.to_string(), errors.to_string()]);
            cells.extend([of.p50_ms, of.p99_ms].map(known));
        }
        if has_ratios {
            cells.extend([group.ratio_p50, group.ratio_p99].map(ratio));
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// A figure, or that there is none.
pub(crate) fn known(of: Option<f64>) -> String {
    of.map_or_else(|| "–".to_owned(), number)
}

fn ratio(of: Option<Spread>) -> String {
    of.map_or_else(String::new, |of| {
        format!(
            "{} ({}–{})",
            number(of.median),
            number(of.min),
            number(of.max)
        )
    })
}
