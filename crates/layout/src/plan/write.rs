//! Which statements keep a table's layouts equal to it.
//!
//! The table and its layouts get the same statement in one unlogged batch. That is exact if the
//! statement means the same whatever the clustering order, and if nothing in it is made anew for each
//! table: identifiers of list elements, times, random values.

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Call, Change, Facts, Kind, Modification, Name, Op, calls, modification};

use super::functions::is_deterministic;
use super::logical_table::{Copy, LogicalTable};
use super::splice::{qualified, splice};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// One text for each copy, with the same markers in the same order. They go into one unlogged
    /// batch with the client's own statement.
    Copies(Vec<String>),
    /// To the table alone: its copies, which are all derived, cannot be told exactly, and are compared with it afterwards.
    Compared,
    /// Why it is not possible, for the client.
    Refused(String),
}

/// How an INSERT, UPDATE or DELETE on the table is written to its copies. It may be one of a batch:
/// `text` is the whole text, the facts are of this statement.
pub fn write(table: &LogicalTable, text: &str, facts: &Facts) -> Write {
    let refused = |reason: String| {
        let of = format!("{}.{} has layouts", table.keyspace, table.name);
        Write::Refused(format!("{of}: {reason}, or drop the layouts"))
    };
    match obstacle(table, text, facts) {
        Some(Obstacle::Inexact(_)) if table.is_derived() => return Write::Compared,
        Some(Obstacle::Inexact(reason) | Obstacle::Impossible(reason)) => return refused(reason),
        None => {}
    }
    let copy = |copy: &Copy| {
        let name = (facts.spans.table.clone()?, qualified(table, copy));
        splice(text, facts.spans.statement.clone(), vec![name])
    };
    let copies: Option<Vec<String>> = table.copies.iter().map(copy).collect();
    match copies {
        Some(copies) => Write::Copies(copies),
        None => Write::Refused(format!("{}: {NOT_UNDERSTOOD}", table.name)),
    }
}

const NOT_UNDERSTOOD: &str =
    "this statement is not understood; write it as an INSERT, UPDATE or DELETE";

/// Why the copies would not stay equal by the same statement, and what to do instead.
enum Obstacle {
    /// Rows of the table tell what they should have become.
    Inexact(String),
    /// Not even these do, or it is not known which.
    Impossible(String),
}

fn obstacle(table: &LogicalTable, text: &str, facts: &Facts) -> Option<Obstacle> {
    use Obstacle::{Impossible, Inexact};
    let is_write = matches!(facts.kind, Kind::Insert | Kind::Update | Kind::Delete);
    let here = facts
        .table
        .as_ref()
        .is_some_and(|name| *name == *table.name);
    if !is_write || !here {
        return Some(Impossible(NOT_UNDERSTOOD.to_owned()));
    }
    if table.columns.iter().any(|c| c.cql_type == "counter") {
        return Some(Impossible(
            "counters cannot be copied exactly; keep them in a table of their own".to_owned(),
        ));
    }
    if facts.lwt {
        return Some(Inexact(
            "conditional writes (IF) cannot be applied to them; write without IF".to_owned(),
        ));
    }
    let (piece, called) = called(text, facts);
    if let Some(function) = changing_function(&called) {
        return Some(Inexact(format!(
            "{function}() may give something else for each of them; let the client compute the value"
        )));
    }
    if let Some(reason) = time_as_text(table, text, facts, piece, &called) {
        return Some(Inexact(reason));
    }
    if facts.kind == Kind::Insert {
        return None;
    }
    let Some(modified) = modification(text, facts) else {
        return Some(Impossible(NOT_UNDERSTOOD.to_owned()));
    };
    let of_list = list_change(table, &modified).map(Impossible);
    of_list.or_else(|| restriction(table, facts, &modified).map(Inexact))
}

/// The function called that is not known to give the same result each time.
fn changing_function(called: &[Call]) -> Option<String> {
    let call = called.iter().find(|call| !is_deterministic(call))?;
    Some(match &call.keyspace {
        Some(keyspace) => format!("{keyspace}.{}", call.name),
        None => call.name.to_string(),
    })
}

/// The part of a statement that may call functions, and those that it calls.
fn called<'a>(text: &'a str, facts: &Facts) -> (&'a str, Vec<Call>) {
    let end = facts.spans.statement.end;
    let start = match (facts.kind, &facts.spans.table) {
        // Behind the table's name is a bracket too.
        (Kind::Insert, Some(table)) => table.end,
        _ => facts.spans.statement.start,
    };
    let piece = text.get(start..end).unwrap_or_default();
    let mut called = calls(piece);
    if facts.kind == Kind::Insert && called.first().is_some_and(|c| c.name == "values") {
        // The keyword.
        called.remove(0);
    }
    (piece, called)
}

/// A timestamp that is written as `'now'` is the time at which a node reads the text, which it does once for
/// the table and once for each layout. Functions may take one and give something else.
fn time_as_text(
    table: &LogicalTable,
    text: &str,
    facts: &Facts,
    piece: &str,
    called: &[Call],
) -> Option<String> {
    let statement = text.get(facts.spans.statement.clone())?;
    // Those of calls within others are part of these.
    let mut end = 0;
    let outermost = called.iter().filter(|call| {
        let is_within = call.arguments.start < end;
        end = end.max(call.arguments.end);
        !is_within
    });
    let mut arguments = outermost.filter_map(|call| piece.get(call.arguments.clone()));
    if table.may_hold_times && says_now(statement) || arguments.any(says_now) {
        return Some("'now' may be another time for each of them; bind it as a value".to_owned());
    }
    let behind = facts
        .spans
        .table
        .as_ref()
        .filter(|_| facts.kind == Kind::Insert);
    let behind = behind
        .and_then(|table| text.get(table.end..))
        .unwrap_or_default();
    let first = Lexer::new(behind).next();
    let word = first.and_then(|token| behind.get(token.start..token.end));
    let is_json = word.is_some_and(|word| word.eq_ignore_ascii_case("json"));
    let reads_json = |call: &Call| matches!(call.name.as_str(), "from_json" | "fromjson");
    let has_json = is_json || called.iter().any(reads_json);
    (table.may_hold_times && has_json).then(|| {
        "JSON may say \"now\" for a timestamp, another one for each of them; write the columns one by one"
            .to_owned()
    })
}

/// True if a literal of a piece is that word.
fn says_now(piece: &str) -> bool {
    let content = |token: &Token| {
        let whole = piece.get(token.start..token.end).unwrap_or_default();
        match token.kind {
            TokenKind::Text => Some(whole.trim_matches('\'')),
            TokenKind::DollarText => Some(whole.trim_matches('$')),
            _ => None,
        }
    };
    Lexer::new(piece).any(|token| content(&token).is_some_and(|of| of.eq_ignore_ascii_case("now")))
}

/// The nodes give each element of a list an identifier of its own, and positions depend on these.
fn list_change(table: &LogicalTable, modification: &Modification) -> Option<String> {
    let is_list = |name: &Name| {
        let column = table.column(name.as_str());
        column.is_none_or(|c| c.cql_type.starts_with("list<"))
    };
    let in_place = |change: Change| matches!(change, Change::Added | Change::Element);
    let mut changed = modification.changed.iter();
    let list = changed.find(|c| in_place(c.change) && is_list(&c.column))?;
    Some(format!(
        "elements of list {} cannot be changed one by one; write the whole list, or use a set or a map",
        list.column
    ))
}

/// Only whole rows and whole partitions are the same set of rows in every order.
fn restriction(table: &LogicalTable, facts: &Facts, modification: &Modification) -> Option<String> {
    let several = |columns: &[Name]| columns.len() != 1;
    if modification.other_relations
        || modification.ins.iter().any(|r| several(&r.columns))
        || modification
            .ranges
            .iter()
            .any(|r| several(&r.columns) || r.op == Op::Equal)
    {
        return Some(
            "several columns cannot be restricted at once; restrict each by = or IN".to_owned(),
        );
    }
    // Cassandra itself takes no others for an UPDATE.
    if facts.kind == Kind::Update {
        return None;
    }
    let ins = modification.ins.iter().flat_map(|r| &r.columns);
    let bound = facts.key_terms.iter().map(|t| &t.column).chain(ins);
    let is_bound = |name: &str| bound.clone().any(|column| *column == name);
    let restricted = table
        .clustering
        .iter()
        .filter(|c| is_bound(&c.name))
        .count();
    let whole = restricted == 0 || restricted == table.clustering.len();
    if !modification.ranges.is_empty() || !whole {
        return Some(
            "rows of a range cannot be deleted at once; delete the partition, or each row by its \
             full primary key"
                .to_owned(),
        );
    }
    None
}
