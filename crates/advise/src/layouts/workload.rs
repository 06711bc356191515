//! Reads a workload file: a CREATE TABLE and the statements that are asked of the table.
//!
//! ```text
//! CREATE TABLE shop.orders (…);
//! SELECT total FROM shop.orders WHERE customer = ? AND day = ?;
//! 20 range=0.01 SELECT sum(total) FROM shop.orders WHERE clerk = ? AND day > ? AND day < ?
//! ```
//!
//! One statement a line. Before it may stand its weight, the share of rows between the bounds of a range with
//! markers, and the data centre whose clients ask it (`dc=NAME`).

use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail};
use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Facts, InValues, Kind, Literal, Op, SelectFacts, Term, facts};
use helenus_layout::{Bound, Marker, Statement, StatementColumn, Table};

use super::schema::{self, Schema};
use super::values;

/// Values of a list that is one marker (`IN ?`).
const LIST_ASSUMED: usize = 3;

/// Clustering columns that a statement may bind: frequencies are counted for each set of them.
const BOUND_MAX: usize = 8;

/// Weights within these bounds can be added up and divided by each other without loss.
const WEIGHTS: RangeInclusive<f64> = 1e-9..=1e12;

pub(super) struct Workload {
    pub schema: Schema,
    pub table: Table,
    pub statements: Vec<Line>,
}

pub(super) struct Line {
    pub number: usize,
    pub text: String,
    pub statement: Statement,
    /// Where it is asked; None: in all data centres alike.
    pub data_center: Option<String>,
}

/// A line before its columns are known.
struct Raw {
    number: usize,
    text: String,
    weight: f64,
    range_share: Option<f64>,
    data_center: Option<String>,
    facts: Facts,
}

pub(super) fn parse(text: &str) -> Result<Workload> {
    let (schema, rest, first_number) = create_table(text)?;
    let schema = schema::parse(schema)?;
    let mut raw = Vec::new();
    for (number, line) in (first_number..).zip(rest.lines()) {
        if let Some(line) =
            raw_line(line, number, &schema).with_context(|| format!("line {number}"))?
        {
            raw.push(line);
        }
    }
    if raw.is_empty() {
        bail!("there is no statement: write one SELECT a line below CREATE TABLE");
    }
    let table = table(&schema, &raw)?;
    let statements = raw.into_iter().map(|raw| {
        let number = raw.number;
        line(raw, &schema, &table).with_context(|| format!("line {number}"))
    });
    Ok(Workload {
        statements: statements.collect::<Result<_>>()?,
        schema,
        table,
    })
}

/// The text of CREATE TABLE, what comes after its semicolon, and the number of the line where that begins.
fn create_table(text: &str) -> Result<(&str, &str, usize)> {
    let mut tokens = Lexer::new(text);
    let first = tokens.next().context("the file is empty")?;
    let word = text.get(first.start..first.end).unwrap_or_default();
    if !word.eq_ignore_ascii_case("create") {
        bail!(
            "the file must begin with the table's CREATE TABLE, as DESCRIBE TABLE prints it; it begins with {word:?}"
        );
    }
    let end = tokens.find(|token| token.kind == TokenKind::Semicolon);
    let end = end.context("CREATE TABLE must end with a semicolon")?;
    let before = text.get(..end.start).unwrap_or_default();
    let rest = text.get(end.end..).unwrap_or_default();
    Ok((before, rest, 1 + before.matches('\n').count()))
}

fn raw_line(line: &str, number: usize, schema: &Schema) -> Result<Option<Raw>> {
    let mut text = line.trim();
    if text.is_empty() || text.starts_with("--") || text.starts_with("//") {
        return Ok(None);
    }
    let (mut weight, mut range_share, mut data_center) = (1.0, None, None);
    while let Some((word, rest)) = text.split_once(char::is_whitespace) {
        if let Some(share) = word.strip_prefix("range=") {
            let share: f64 = share
                .parse()
                .ok()
                .filter(|s| (0.0..=1.0).contains(s))
                .with_context(|| format!("{word}: the share must be a number from 0 to 1"))?;
            range_share = Some(share);
        } else if let Some(name) = word.strip_prefix("dc=") {
            if name.is_empty() || data_center.is_some() {
                bail!("{word}: name one data centre; a statement of several has a line for each");
            }
            data_center = Some(name.to_owned());
        } else if let Ok(number) = word.parse::<f64>() {
            if !WEIGHTS.contains(&number) {
                bail!("the weight {word} must be above zero, from 1e-9 to 1e12");
            }
            weight = number;
        } else {
            break;
        }
        text = rest.trim_start();
    }
    let text = text.trim_end_matches([';', ' ', '\t']);
    let facts = facts(text);
    if facts.kind != Kind::Select {
        bail!("only SELECT is read from layouts, and it must stand on one line: {text}");
    }
    let named = facts.table.as_ref().map_or("", |name| name.as_str());
    if named != schema.table {
        bail!(
            "the statement reads {named:?}, but CREATE TABLE defines {:?}",
            schema.table
        );
    }
    Ok(Some(Raw {
        number,
        text: text.to_owned(),
        weight,
        range_share,
        data_center,
        facts,
    }))
}

/// Key columns, and others that are restricted.
fn table(schema: &Schema, lines: &[Raw]) -> Result<Table> {
    let mut others: Vec<String> = Vec::new();
    for line in lines {
        let select = line.facts.select.as_deref();
        let ranges = select
            .into_iter()
            .flat_map(|s| &s.ranges)
            .flat_map(|r| &r.columns);
        let ins = select
            .into_iter()
            .flat_map(|s| &s.ins)
            .flat_map(|i| &i.columns);
        let equal = line.facts.key_terms.iter().map(|term| &term.column);
        for name in equal.chain(ranges).chain(ins) {
            if schema.type_of(name).is_none() {
                bail!("line {}: the table has no column {name}", line.number);
            }
            let in_key = schema.partition.contains(name) || schema.clustering.contains(name);
            if !in_key && !others.iter().any(|other| other == name.as_str()) {
                others.push(name.to_string());
            }
        }
    }
    let names = |names: &[helenus_cql::Name]| names.iter().map(ToString::to_string).collect();
    Ok(Table::new(
        names(&schema.clustering),
        names(&schema.partition),
        others,
    )?)
}

fn line(raw: Raw, schema: &Schema, table: &Table) -> Result<Line> {
    let select = raw
        .facts
        .select
        .as_deref()
        .context("this SELECT is not understood")?;
    refuse(select)?;
    let mut columns = vec![StatementColumn::None; table.columns()];
    let place = |name: &helenus_cql::Name| {
        table
            .column(name)
            .with_context(|| format!("no column {name}"))
    };
    let marker = |name: &helenus_cql::Name, term: &Term| {
        marker(term, schema.type_of(name).unwrap_or_default())
    };
    for term in &raw.facts.key_terms {
        columns[place(&term.column)?] = StatementColumn::Equal(marker(&term.column, &term.term)?);
    }
    for list in &select.ins {
        let [name] = &list.columns[..] else {
            bail!("IN over several columns at once is not supported: leave the statement out");
        };
        let values = match &list.values {
            InValues::Terms(terms) => terms
                .iter()
                .map(|term| marker(name, term))
                .collect::<Result<_>>()?,
            InValues::Marker(_) => vec![Marker::Drawn; LIST_ASSUMED],
        };
        columns[place(name)?] = StatementColumn::Listed(values);
    }
    for range in &select.ranges {
        let ([name], [term]) = (&range.columns[..], &range.terms[..]) else {
            bail!("a range over several columns at once is not supported: leave the statement out");
        };
        let bound = Some(Bound {
            value: marker(name, term)?,
            inclusive: matches!(range.op, Op::LessEqual | Op::GreaterEqual),
        });
        let column = &mut columns[place(name)?];
        let (mut low, mut high) = match std::mem::take(column) {
            StatementColumn::Range { low, high } => (low, high),
            _ => (None, None),
        };
        match range.op {
            Op::Greater | Op::GreaterEqual => low = bound,
            Op::Less | Op::LessEqual => high = bound,
            // != only filters.
            Op::Equal | Op::NotEqual => {}
        }
        if low.is_some() || high.is_some() {
            *column = StatementColumn::Range { low, high };
        }
    }
    let statement = Statement {
        columns,
        // One row of aggregates is the same whatever the order.
        ordered: select.folds.is_empty() || select.group_by,
        limit: limit(select)?,
        weight: raw.weight,
        range_share: raw.range_share,
    };
    let bound = statement.bound().intersection(table.clustering_columns());
    if bound.len() > BOUND_MAX {
        bail!(
            "it binds more than {BOUND_MAX} clustering columns by = or IN: leave the last ones out, they make no \
             difference to the design"
        );
    }
    Ok(Line {
        number: raw.number,
        text: raw.text,
        statement,
        data_center: raw.data_center,
    })
}

fn refuse(select: &SelectFacts) -> Result<()> {
    if !select.tokens.is_empty() {
        bail!(
            "token() reads parts of the ring, which no layout makes faster: leave the statement out"
        );
    }
    if select.other_relations {
        bail!(
            "CONTAINS, LIKE, IS NOT NULL, an element of a collection and expr() are answered by an index or a filter, \
             which no layout makes faster: leave the statement out"
        );
    }
    if select.ann {
        bail!("ANN OF is answered by an index: leave the statement out");
    }
    Ok(())
}

fn limit(select: &SelectFacts) -> Result<Option<u64>> {
    match &select.limit {
        None => Ok(None),
        Some(Term::Literal(Literal::Int(rows))) => Ok(u64::try_from(*rows).ok()),
        Some(_) => {
            bail!("how many rows LIMIT allows matters: write a usual number in place of the marker")
        }
    }
}

fn marker(term: &Term, ty: &str) -> Result<Marker> {
    match term {
        Term::Marker(_) | Term::NamedMarker(_) | Term::Other => Ok(Marker::Drawn),
        Term::Literal(literal) => Ok(Marker::Known(values::of_literal(literal, ty)?)),
    }
}
