//! Statements of a request as rules see them.

use helenus_cql::lexer::Lexer;
use helenus_cql::{Facts, Kind};
use helenus_policy::schedule::Class;
use helenus_wire::Opcode;

use crate::config::rules::classes::Classes;
use crate::features;
use crate::features::rules::gate::{Nature, Part, PartText};
use crate::snapshot::Snapshot;
use crate::statement::classify::class_of;
use crate::statement::prepared::{Prepared, Statement};

/// Looks at statements as rules do.
pub(crate) struct Seen<'s> {
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) opcode: Opcode,
    /// Some rule asks for classes.
    pub(crate) with_classes: bool,
}

impl<'s> Seen<'s> {
    /// A statement that is no batch. `placed`: whether its partition is known.
    pub(crate) fn single<'a>(
        &self,
        statement: &'a Statement,
        prepared: Option<&'a Prepared>,
        in_force: Option<&'a str>,
        placed: bool,
    ) -> Part<'a>
    where
        's: 'a,
    {
        let facts = &statement.facts;
        let named = prepared.and_then(|prepared| prepared.table.as_ref());
        let named = named.map(|(keyspace, table)| (&**keyspace, &**table));
        let mut part = self.part(facts, named, in_force);
        part.text = PartText::Of(statement);
        if facts.kind == Kind::Select && statement.is_node_local(in_force) {
            part.nature = Nature::NodeLocal;
        }
        if self.with_classes && facts.kind == Kind::Select {
            let class = class_of(
                self.snapshot,
                self.opcode,
                Some(statement),
                prepared,
                in_force,
                placed,
                facts.lwt,
            );
            part.classes = part.classes.and(match class {
                Class::Point | Class::Slice => Classes::POINT,
                Class::Multi => Classes::MULTI,
                // Of a table that is not known yet, it may be.
                _ => Classes::SCAN,
            });
        }
        part
    }

    /// One statement of a BATCH.
    pub(super) fn child<'a>(
        &self,
        statement: &'a Statement,
        prepared: Option<&'a Prepared>,
        in_force: Option<&'a str>,
        token: Option<i64>,
        parts: &mut Vec<Part<'a>>,
    ) where
        's: 'a,
    {
        if !statement.facts.inner.is_empty() {
            // A node refuses that.
            return self.inner(statement, in_force, &[], parts);
        }
        let part = self.single(statement, prepared, in_force, token.is_some());
        parts.push(Part { token, ..part });
    }

    /// The statements of a text `BEGIN BATCH … APPLY BATCH`.
    pub(crate) fn inner<'a>(
        &self,
        statement: &'a Statement,
        in_force: Option<&'a str>,
        tokens: &[Option<i64>],
        parts: &mut Vec<Part<'a>>,
    ) where
        's: 'a,
    {
        for (at, facts) in statement.facts.inner.iter().enumerate() {
            let text = statement.text.get(facts.spans.statement.clone());
            parts.push(Part {
                text: text.map_or(PartText::None, PartText::Inner),
                token: tokens.get(at).copied().flatten(),
                ..self.part(facts, None, in_force)
            });
        }
    }

    /// `named`: what a node has said that it is about.
    fn part<'a>(
        &self,
        facts: &'a Facts,
        named: Option<(&'a str, &'a str)>,
        in_force: Option<&'a str>,
    ) -> Part<'a>
    where
        's: 'a,
    {
        let own = facts.keyspace.as_ref().map(|name| name.as_str());
        let table = facts.table.as_ref().map(|name| name.as_str());
        let (mut keyspace, mut table) = match (named, facts.kind) {
            (Some((keyspace, table)), _) => (Some(keyspace), Some(table)),
            (None, Kind::Ddl) => (own.or(in_force), table),
            (None, _) => (own.or(in_force.filter(|_| table.is_some())), table),
        };
        // Of a copy, its table: whoever knows its name gets no further.
        if let (Some(of), Some(physical)) = (keyspace, table)
            && let Some((of, logical)) = features::table_behind(self.snapshot, of, physical)
        {
            (keyspace, table) = (Some(of), Some(logical));
        }
        Part {
            nature: match facts.kind {
                Kind::Use | Kind::Describe => Nature::Passes,
                Kind::Opaque => Nature::Opaque,
                _ => Nature::Known,
            },
            kind: facts.kind,
            keyspace,
            table,
            classes: match self.with_classes {
                true => classes_of(facts),
                false => Classes::default(),
            },
            text: PartText::None,
            token: None,
        }
    }
}

/// The classes that a text alone tells.
fn classes_of(facts: &Facts) -> Classes {
    let with = |of: Classes, also: bool, more: Classes| match also {
        true => of.and(more),
        false => of,
    };
    match facts.kind {
        Kind::Select => {
            let select = facts.select.as_deref();
            let filters = select.is_some_and(|select| select.allow_filtering);
            with(Classes::READ, filters, Classes::FILTERING)
        }
        Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch => {
            with(Classes::WRITE, facts.lwt, Classes::CONDITIONAL)
        }
        Kind::Truncate => Classes::WRITE.and(Classes::TRUNCATE),
        Kind::Ddl => Classes::SCHEMA,
        Kind::Auth => Classes::ROLES,
        Kind::Opaque => Classes::OTHER,
        Kind::Use | Kind::Describe => Classes::default(),
    }
}

impl Part<'_> {
    /// Something of which nothing is known.
    pub(crate) fn unknown() -> Part<'static> {
        Part {
            nature: Nature::Unknown,
            kind: Kind::Opaque,
            keyspace: None,
            table: None,
            classes: Classes::OTHER,
            text: PartText::None,
            token: None,
        }
    }

    /// True if it changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        match self.kind {
            Kind::Select | Kind::Use | Kind::Describe => true,
            Kind::Auth => match self.text {
                PartText::Of(statement) => lists(&statement.text),
                _ => false,
            },
            _ => false,
        }
    }

    /// True if its consistency level may mean anything.
    pub(crate) fn has_level(&self) -> bool {
        self.is_about_rows() || self.kind == Kind::Opaque
    }

    /// True if it is known to read or write rows.
    pub(crate) fn is_about_rows(&self) -> bool {
        let is_so = matches!(
            self.kind,
            Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch
        );
        is_so && self.nature != Nature::NodeLocal
    }
}

/// True if a statement about roles only lists them.
fn lists(text: &str) -> bool {
    let first = Lexer::new(text).next();
    let first = first.and_then(|token| text.get(token.start..token.end));
    first.is_some_and(|word| word.eq_ignore_ascii_case("list"))
}
