//! A read of the tables that describe tables, or a DESCRIBE, whose answer leaves out what clients do not see.
//!
//! A LIMIT counts the rows that clients see. So nodes are asked without it, the answer is cut, and what is left
//! of the LIMIT stands in the paging state, where Cassandra keeps it, too. A page may have fewer rows than were
//! asked for, as any page may.

use std::borrow::Cow;
use std::sync::Arc;

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Facts, Name, SelectFacts, Selected, Term, fold_identifier};
use helenus_wire::{
    Malformed, Options, Page, PageStart, RowsJoin, RowsView, Version, columns_of_table, write,
    write_query,
};

use crate::rewrite::values::{limit, text};
use crate::statement::prepared::{Prepared, Statement};

/// The keyspace of the tables that describe tables.
const SCHEMA: &str = "system_schema";
/// That of an unpaged request.
const NO_PAGES: i32 = -1;

/// A read of the schema, as it is sent.
pub(crate) struct SchemaForm {
    pub read: SchemaRead,
    /// The body of a QUERY in place of the client's request, in its version.
    pub instead: Option<Vec<u8>>,
}

/// Which rows are looked at, and how many of them the client wants.
#[derive(Debug)]
pub(crate) struct SchemaRead {
    about: About,
    /// The rest of the LIMIT, if nodes are asked without it.
    left: Option<u32>,
    /// Tells the columns of the result where the answer does not.
    prepared: Option<Arc<Prepared>>,
}

/// The subject of an answer's rows.
#[derive(Debug)]
enum About {
    /// One table each, as far as the statement tells.
    Tables {
        keyspace: Option<Told>,
        table: Option<Told>,
        /// If a row is about one column.
        column: Option<Column>,
    },
    /// Whatever DESCRIBE tells. `text`: of the statement.
    Described { text: Box<str> },
}

/// The source of a name.
#[derive(Debug)]
enum Told {
    /// The statement, for all rows.
    Is(Box<str>),
    In(Column),
}

/// A column of the result.
#[derive(Clone, Copy, Debug)]
enum Column {
    At(usize),
    Named(&'static str),
}

/// How a client asks.
pub(crate) struct Asking<'a> {
    pub statement: &'a Statement,
    /// Keyspace and table that it is about.
    pub table: Option<(&'a str, &'a str)>,
    pub prepared: Option<&'a Arc<Prepared>>,
    pub options: Options<'a>,
    pub version: Version,
}

impl SchemaRead {
    /// `None` if an answer says nothing of tables, or not of which. With the body of a QUERY to be sent in
    /// place of the request's own, if there is a LIMIT.
    pub(crate) fn begin(asking: &Asking<'_>) -> Option<(SchemaRead, Option<Vec<u8>>)> {
        let facts = &asking.statement.facts;
        let prepared = asking.prepared.cloned();
        let Some(select) = facts.select.as_deref() else {
            let text = asking.statement.text.clone();
            let read = SchemaRead {
                about: About::Described { text },
                left: None,
                prepared,
            };
            return Some((read, None));
        };
        let about = about_tables(asking, facts, select)?;
        let unlimited = asking.unlimited(select);
        let (left, body) = unlimited.map_or((None, None), |(left, body)| (Some(left), Some(body)));
        let read = SchemaRead {
            about,
            left,
            prepared,
        };
        Some((read, body))
    }

    /// The content of an answer without the rows about what is hidden; `None` if that is as it came.
    ///
    /// # Errors
    /// It cannot be understood.
    pub(crate) fn answer(
        &self,
        content: &[u8],
        hidden: &impl Hidden,
    ) -> Result<Option<Vec<u8>>, Malformed> {
        let page = RowsView::parse(content)?;
        let Some(subject) = self.subject(&page)? else {
            return Ok(None);
        };
        let left = self.left.map_or(usize::MAX, |left| left as usize);
        let mut kept = Vec::with_capacity(content.len());
        let mut count = 0;
        let mut is_changed = false;
        for (row, cells) in page.rows_by(0).zip(page.rows()) {
            let ((row, _), cells) = (row?, cells?);
            if count == left {
                break;
            }
            let of = subject.of(&cells);
            if subject.is_left_out(&of, &cells, hidden) {
                continue;
            }
            let definition = subject.definition(&cells).and_then(|(at, text)| {
                let (keyspace, table) = (of.keyspace.as_deref()?, of.table.as_deref()?);
                let is_hidden = |name: &str| hidden.column(Some(keyspace), Some(table), name);
                Some((at, without_columns(text, is_hidden)?))
            });
            match definition {
                None => kept.extend_from_slice(row),
                Some((changed, text)) => {
                    is_changed = true;
                    for (at, cell) in cells.iter().enumerate() {
                        let cell = match at == changed {
                            true => Some(text.as_bytes()),
                            false => *cell,
                        };
                        write::bytes(&mut kept, cell);
                    }
                }
            }
            count += 1;
        }
        if count == page.row_count && self.left.is_none() && !is_changed {
            return Ok(None);
        }
        let state = page.paging_state.filter(|_| count < left);
        let state = state.map(|state| match (self.left, PageStart::parse(state)) {
            (Some(left), Ok(start)) => start.with_remaining(left - count as u32).write(),
            _ => state.to_vec(),
        });
        let mut join = RowsJoin::with_capacity(kept.len());
        // There is no other page that it could differ from.
        let _ = join.push(&page.with_rows(&kept, count));
        join.set_paging_state(state);
        Ok(Some(join.into_body(Vec::new()).to_vec()))
    }

    /// Where the rows of a page name what they are about; `None` if they do not.
    fn subject<'a>(&'a self, page: &RowsView<'a>) -> Result<Option<Subject<'a>>, Malformed> {
        let known = match &self.prepared {
            Some(prepared) if page.columns.is_empty() => {
                columns_of_table(&prepared.result_metadata, page.column_count)?
            }
            _ => Vec::new(),
        };
        let position = |name: &str| {
            let columns = if page.columns.is_empty() {
                &known
            } else {
                &page.columns
            };
            columns.iter().position(|column| column.name == name)
        };
        let place = |column: Column| match column {
            Column::At(at) => Some(at),
            Column::Named(name) => position(name),
        };
        let subject = match &self.about {
            About::Tables {
                keyspace,
                table,
                column,
            } => {
                let told = |told: &'a Told| match told {
                    Told::Is(name) => Some(Named::Is(name)),
                    Told::In(column) => place(*column).map(Named::At),
                };
                Some(Subject {
                    keyspace: keyspace.as_ref().and_then(told),
                    table: table.as_ref().and_then(told),
                    column: column.and_then(place),
                    kind: None,
                    definition: None,
                    asked: "",
                })
            }
            About::Described { text } => {
                let places = position("keyspace_name")
                    .zip(position("name"))
                    .zip(position("type"));
                places.map(|((keyspace, table), kind)| Subject {
                    keyspace: Some(Named::At(keyspace)),
                    table: Some(Named::At(table)),
                    column: None,
                    kind: Some(kind),
                    definition: position("create_statement"),
                    asked: text,
                })
            }
        };
        Ok(subject)
    }
}

/// Where a row names what it is about.
struct Subject<'a> {
    keyspace: Option<Named<'a>>,
    table: Option<Named<'a>>,
    column: Option<usize>,
    /// The cell that says whether it is a table.
    kind: Option<usize>,
    /// Where its definition stands.
    definition: Option<usize>,
    /// The text of a DESCRIBE: who asks for a table by its name gets it.
    asked: &'a str,
}

#[derive(Clone, Copy)]
enum Named<'a> {
    /// One name for all rows: the client has asked by it.
    Is(&'a str),
    At(usize),
}

/// The table that a row is about, as far as that is told.
#[derive(Default)]
struct Of<'r> {
    keyspace: Option<Cow<'r, str>>,
    table: Option<Cow<'r, str>>,
}

/// Tables and columns that clients do not see.
pub(crate) trait Hidden {
    fn table(&self, keyspace: &str, table: &str) -> bool;
    /// Without a keyspace or table: of any.
    fn column(&self, keyspace: Option<&str>, table: Option<&str>, column: &str) -> bool;
}

impl Subject<'_> {
    fn is_left_out(&self, of: &Of<'_>, cells: &[Option<&[u8]>], hidden: &impl Hidden) -> bool {
        let (keyspace, table) = (of.keyspace.as_deref(), of.table.as_deref());
        let is_asked_for =
            |table: &str| matches!(self.table, Some(Named::Is(_))) || names(self.asked, table);
        let is_table_hidden = keyspace
            .zip(table)
            .is_some_and(|(keyspace, table)| hidden.table(keyspace, table) && !is_asked_for(table));
        let column = self.column.and_then(|at| text_of(cells, at));
        is_table_hidden || column.is_some_and(|column| hidden.column(keyspace, table, column))
    }

    /// The definition in a row, and its column.
    fn definition<'r>(&self, cells: &[Option<&'r [u8]>]) -> Option<(usize, &'r str)> {
        let at = self.definition?;
        Some((at, text_of(cells, at)?))
    }

    fn of<'r>(&'r self, cells: &[Option<&'r [u8]>]) -> Of<'r> {
        if self
            .kind
            .is_some_and(|at| text_of(cells, at) != Some("table"))
        {
            return Of::default();
        }
        // DESCRIBE gives names as they are written in CQL.
        let name = |named: Named<'r>| match named {
            Named::Is(name) => Some(Cow::Borrowed(name)),
            Named::At(at) => {
                let name = text_of(cells, at)?;
                let is_quoted = self.kind.is_some() && name.starts_with('"');
                Some(match is_quoted {
                    true => Cow::Owned(fold_identifier(name).as_str().to_owned()),
                    false => Cow::Borrowed(name),
                })
            }
        };
        Of {
            keyspace: self.keyspace.and_then(name),
            table: self.table.and_then(name),
        }
    }
}

fn text_of<'r>(cells: &[Option<&'r [u8]>], at: usize) -> Option<&'r str> {
    std::str::from_utf8(cells.get(at).copied().flatten()?).ok()
}

/// A table's definition, which has one column a line, without some of them; `None` if it has none of these.
fn without_columns(definition: &str, is_hidden: impl Fn(&str) -> bool) -> Option<String> {
    let is_left_out = |line: &str| {
        let mut tokens = Lexer::new(line);
        let first = tokens.next();
        let first = first.filter(|of| matches!(of.kind, TokenKind::Word | TokenKind::QuotedName));
        let name = first.and_then(|of| line.get(of.start..of.end));
        let is_column = line.starts_with(' ') && tokens.next().is_some();
        is_column && name.is_some_and(|name| is_hidden(fold_identifier(name).as_str()))
    };
    let lines = || definition.split_inclusive('\n');
    if !lines().any(is_left_out) {
        return None;
    }
    let mut out = String::with_capacity(definition.len());
    for line in lines() {
        match is_left_out(line) {
            false => out.push_str(line),
            // The last column has no comma behind it.
            true if !line.trim_end().ends_with(',') && out.ends_with(",\n") => {
                out.truncate(out.len() - ",\n".len());
                out.push('\n');
            }
            true => {}
        }
    }
    Some(out)
}

/// True if a text names a table.
fn names(text: &str, table: &str) -> bool {
    Lexer::new(text).any(|token| {
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::QuotedName);
        let word = text.get(token.start..token.end).unwrap_or_default();
        is_name && fold_identifier(word) == table
    })
}

/// Which table each row of a selection is about, if that can be told.
fn about_tables(asking: &Asking<'_>, facts: &Facts, select: &SelectFacts) -> Option<About> {
    let (keyspace, table) = asking.table?;
    let named = match table {
        _ if keyspace != SCHEMA => return None,
        "tables" | "columns" | "dropped_columns" | "indexes" | "triggers" | "column_masks" => {
            "table_name"
        }
        "views" => "base_table_name",
        _ => return None,
    };
    let has_column = matches!(table, "columns" | "dropped_columns" | "column_masks");
    // One row for all tables, or a text.
    if select.json || (select.calls || select.aggregates) && !select.group_by {
        return None;
    }
    let Selected::Columns(selected) = &select.columns else {
        return Some(About::Tables {
            keyspace: Some(Told::In(Column::Named("keyspace_name"))),
            table: Some(Told::In(Column::Named(named))),
            column: has_column.then_some(Column::Named("column_name")),
        });
    };
    let position = |name: &str| {
        let is_it = |column: &Option<Name>| column.as_ref().is_some_and(|column| column == name);
        selected.iter().position(|item| is_it(&item.column))
    };
    let told = |name: &str| match position(name) {
        Some(at) => Some(Told::In(Column::At(at))),
        None => {
            let mut terms = facts.key_terms.iter();
            let equal = terms.find(|term| term.column == name)?;
            Some(Told::Is(asking.text(&equal.term)?.into()))
        }
    };
    Some(About::Tables {
        keyspace: told("keyspace_name"),
        table: told(named),
        column: position("column_name")
            .filter(|_| has_column)
            .map(Column::At),
    })
}

impl Asking<'_> {
    fn names(&self) -> &[Box<str>] {
        self.prepared.map_or(&[], |prepared| &prepared.names)
    }

    fn text<'a>(&'a self, term: &'a Term) -> Option<&'a str> {
        text(term, &self.options.values, self.names(), self.statement)
    }

    /// The rest of a LIMIT, and the body of a QUERY without it. `None` if there is none, if it does not count rows,
    /// or if a node has something to say about it.
    fn unlimited(&self, select: &SelectFacts) -> Option<(u32, Vec<u8>)> {
        let term = select.limit.as_ref().filter(|_| !select.group_by)?;
        let limit = limit(term, &self.options.values, self.names(), self.statement)?;
        let limit = i32::try_from(limit).ok().filter(|limit| *limit > 0)?;
        let start = match self.options.paging_state {
            Some(state) => Some(PageStart::parse(state).ok()?),
            None => None,
        };
        let left = start.map_or(limit.unsigned_abs(), |start| start.remaining);
        let state = start.map(|start| start.with_remaining(i32::MAX.unsigned_abs()).write());
        let page = Page {
            size: self.options.page_size.unwrap_or(NO_PAGES),
            state: state.as_deref(),
        };
        let marker = match term {
            Term::Marker(at) | Term::NamedMarker(at) => Some(*at),
            Term::Literal(_) | Term::Other => None,
        };
        let without = marker.as_slice();
        let unlimited = self.unlimited_text()?;
        let mut body = Vec::with_capacity(unlimited.len() + 64);
        let (options, version) = (&self.options, self.version);
        let is_written = write_query(&unlimited, options, without, page, version, None, &mut body);
        is_written.then_some((left, body))
    }

    /// The text without its LIMIT, and with the keyspace, which depends on nothing then.
    fn unlimited_text(&self) -> Option<String> {
        let text = &self.statement.text;
        let spans = &self.statement.facts.spans;
        let (table, limit) = (spans.table.clone()?, spans.limit.clone()?);
        let (keyspace, name) = self.table?;
        let between = text.get(table.end..limit.start)?;
        let (before, behind) = (text.get(..table.start)?, text.get(limit.end..)?);
        Some(format!("{before} {keyspace}.{name} {between} {behind}"))
    }
}
