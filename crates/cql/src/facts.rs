//! A statement as a proxy needs to know it, and nothing more.

use std::ops::Range;

use crate::literal::Literal;
use crate::name::Name;

/// Kinds of statements. A statement that the crate does not understand is [`Kind::Opaque`]: its
/// only fact is the number of its markers, and callers pass it through unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    Select,
    Insert,
    Update,
    Delete,
    /// `BEGIN … APPLY BATCH`; the statements inside are in [`Facts::inner`].
    Batch,
    Use,
    /// CREATE, ALTER and DROP of keyspaces, tables, types, indexes, views, functions, aggregates
    /// and triggers.
    Ddl,
    Truncate,
    /// Roles, users, identities, permissions.
    Auth,
    Describe,
    #[default]
    Opaque,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// A value in a statement, as far as it is known before binding.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `?`, with its index among all markers of the text.
    Marker(u16),
    /// `:name`, with its index among all markers; the name is in [`Facts::named_markers`].
    NamedMarker(u16),
    Literal(Literal),
    /// Functions, collections, tuples, casts, arithmetic.
    Other,
}

/// `column = term`, either a restriction or an inserted column.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyTerm {
    pub column: Name,
    pub term: Term,
}

/// The columns that a write gives another value as a whole which may be a list, as far as its text
/// tells. Nodes replace a list (one that is not frozen) by deleting it and adding the elements anew,
/// under names of their own: whoever does that twice with one timestamp has both.
#[derive(Clone, Debug, PartialEq)]
pub enum Overwrites {
    Columns(Vec<Name>),
    /// Any of the table's: they are named in a JSON document.
    Any,
}

impl Default for Overwrites {
    fn default() -> Self {
        Overwrites::Columns(Vec::new())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub kind: Kind,
    /// As written in the statement; the caller knows the connection's keyspace. For an index or a
    /// trigger: the keyspace of its table.
    pub keyspace: Option<Name>,
    /// The table or view. For the creation of an index or a trigger: its table.
    pub table: Option<Name>,
    /// Equalities of WHERE, or columns of INSERT, in the order of the text.
    pub key_terms: Vec<KeyTerm>,
    /// Number of markers in this statement (of an inner statement: only its own).
    pub markers: u16,
    /// Name and index of each `:name`. A name written twice appears twice, with two indexes.
    pub named_markers: Vec<(Name, u16)>,
    /// Conditional (`IF …`): runs through Paxos.
    pub lwt: bool,
    /// Has an assignment of the form `c = c + x`: a counter, or a collection that grows.
    pub counterish: bool,
    /// Executing the statement twice certainly has the same effect as executing it once, if none of
    /// the columns in `overwrites` is a list. False if in doubt.
    pub idempotent_but_for_lists: bool,
    /// Columns that would have twice the elements if it were executed twice. Of a batch see `inner`.
    pub overwrites: Overwrites,
    pub select: Option<Box<SelectFacts>>,
    pub use_keyspace: Option<Name>,
    pub using_timestamp: bool,
    pub using_ttl: bool,
    /// The text after WHERE, without the keyword, up to the end of the last restriction.
    pub span_where: Option<Range<usize>>,
    pub spans: Spans,
    pub batch: Option<BatchKind>,
    /// The statements of a batch. Their marker indexes and spans count from the start of the text.
    pub inner: Vec<Facts>,
}

/// Byte spans of the parts of a statement in the original text, for splicing. Each span covers the
/// keyword and what belongs to it, without blanks at its ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans {
    /// The whole statement without the semicolon after it.
    pub statement: Range<usize>,
    /// `ks.table` after FROM, INTO, UPDATE, TRUNCATE, or the name that DDL defines.
    pub table: Option<Range<usize>>,
    /// The selection, without SELECT, DISTINCT or JSON.
    pub selection: Option<Range<usize>>,
    pub where_clause: Option<Range<usize>>,
    pub group_by: Option<Range<usize>>,
    pub order_by: Option<Range<usize>>,
    pub per_partition_limit: Option<Range<usize>>,
    pub limit: Option<Range<usize>>,
    pub allow_filtering: Option<Range<usize>>,
    pub using: Option<Range<usize>>,
}

/// An aggregate of Cassandra's that can be combined from the aggregates of parts of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// `COUNT(*)` or `COUNT(1)`.
    Rows,
    /// `COUNT(column)`
    Count,
    Sum,
    Min,
    Max,
}

impl Fold {
    pub const ALL: [Fold; 5] = [Fold::Rows, Fold::Count, Fold::Sum, Fold::Min, Fold::Max];

    /// Name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Fold::Rows | Fold::Count => "count",
            Fold::Sum => "sum",
            Fold::Min => "min",
            Fold::Max => "max",
        }
    }
}

impl Facts {
    /// True if it, or a statement in it, is about a keyspace of the cluster's own, such as `system_auth`.
    /// `in_force`: the keyspace where the text does not name one.
    pub fn is_about_system(&self, in_force: Option<&str>) -> bool {
        let is_system = |facts: &Facts| {
            let named = facts.keyspace.as_ref().map(Name::as_str);
            let of = named.or(in_force);
            of.is_some_and(|of| of == "system" || of.starts_with("system_"))
        };
        is_system(self) || self.inner.iter().any(is_system)
    }

    /// True if rows are restricted by constants and markers only. Anything else, such as `now()`, has to be
    /// computed by a node.
    pub fn restricted_by_values(&self) -> bool {
        let is_value = |term: &Term| *term != Term::Other;
        let values = |ins: &InRelation| match &ins.values {
            InValues::Terms(terms) => terms.iter().all(is_value),
            InValues::Marker(term) => is_value(term),
        };
        let in_select = |select: &SelectFacts| {
            select.tokens.iter().all(|t| is_value(&t.term))
                && select.ins.iter().all(values)
                && select.ranges.iter().flat_map(|r| &r.terms).all(is_value)
        };
        self.key_terms.iter().all(|t| is_value(&t.term))
            && self.select.as_deref().is_none_or(in_select)
    }
}

impl SelectFacts {
    /// True if the only thing selected is `COUNT(*)` or `COUNT(1)`.
    pub fn is_count_rows(&self) -> bool {
        self.folds == [Fold::Rows]
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SelectFacts {
    pub distinct: bool,
    pub json: bool,
    pub columns: Selected,
    /// The selected aggregates, if everything selected is a plain call of one. A user-defined
    /// function may have the same name.
    pub folds: Vec<Fold>,
    /// The columns of which these are `MIN` or `MAX`.
    pub extremes_of: Vec<Name>,
    /// One of Cassandra's own aggregates is called in the selection.
    pub aggregates: bool,
    /// Some function is called in the selection, WRITETIME and TTL among them but not CAST. Any
    /// function that is not Cassandra's own could be a user's aggregate.
    pub calls: bool,
    pub group_by: bool,
    pub order_by: Vec<OrderBy>,
    /// Has an ordering `column ANN OF vector`.
    pub ann: bool,
    pub limit: Option<Term>,
    pub per_partition_limit: Option<Term>,
    pub allow_filtering: bool,
    pub tokens: Vec<TokenRelation>,
    pub ins: Vec<InRelation>,
    pub ranges: Vec<RangeRelation>,
    /// Other kinds of restrictions are present: CONTAINS, LIKE, IS NOT NULL, an element of a map,
    /// `expr(…)`, or an equality of several columns with something other than a tuple.
    pub other_relations: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Selected {
    /// `*`
    #[default]
    All,
    Columns(Vec<SelectedColumn>),
}

/// One item of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedColumn {
    /// The column, if the item is a plain column.
    pub column: Option<Name>,
    pub alias: Option<Name>,
    /// The item without its alias.
    pub span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    pub column: Name,
    pub descending: bool,
    /// `column ANN OF vector`: the nearest rows first.
    pub ann: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// `TOKEN(columns) op term`
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRelation {
    pub columns: Vec<Name>,
    pub op: Op,
    pub term: Term,
    pub span: Range<usize>,
}

/// `column IN (…)`, or with several columns `(a, b) IN (…)`.
#[derive(Clone, Debug, PartialEq)]
pub struct InRelation {
    pub columns: Vec<Name>,
    pub values: InValues,
    pub span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// One term each; tuples are [`Term::Other`].
    Terms(Vec<Term>),
    /// One marker for the whole list.
    Marker(Term),
}

/// `column op term`, or several columns and a tuple: `(a, b) op (x, y)`. Equality appears here only
/// with several columns. A tuple that is a single marker is one term.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeRelation {
    pub columns: Vec<Name>,
    pub op: Op,
    pub terms: Vec<Term>,
    pub span: Range<usize>,
}
