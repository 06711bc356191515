//! Requests before the rules: what each of their statements is to a rule, and what becomes of those that a rule
//! refuses.

#[cfg(test)]
mod tests;

use helenus_cql::lexer::Lexer;
use helenus_cql::{Facts, Kind};
use helenus_policy::schedule::Class;
use helenus_wire::{BatchView, Consistency, ExecuteView, Opcode, QueryView, Version, code, write};

use crate::config::rules::classes::Classes;
use crate::engine::Engine;
use crate::features;
use crate::features::rules::gate::{Admitted, Nature, Part, PartText};
use crate::features::rules::{Asked, OfClient, Refused, Role, Who};
use crate::pipeline::arrival::Arrival;
use crate::snapshot::Snapshot;
use crate::statement::analysis::Analysis;
use crate::statement::children::Child;
use crate::statement::classify::class_of;
use crate::statement::prepared::{Prepared, Statement};
use crate::stats::add;

/// Why a request is not carried out.
pub(crate) enum Disobeys {
    Refused(Refused),
    /// What it asks for is not known here, and might be forbidden: its client is to prepare it again.
    NotKnown {
        id: Box<[u8]>,
        text: String,
    },
}

impl Engine {
    /// Asks the rules that a request matches.
    ///
    /// # Errors
    /// Why one of them refuses it.
    #[inline]
    pub(crate) fn obey(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> Result<Admitted, Box<Disobeys>> {
        if self.rules.is_empty() || arrival.opcode == Opcode::Prepare {
            return Ok(Admitted::default());
        }
        self.ask_rules(arrival, analysis, statement)
    }

    #[inline(never)]
    fn ask_rules(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
    ) -> Result<Admitted, Box<Disobeys>> {
        let of_client = self.rules_of_client(arrival);
        if of_client.may == 0 {
            return Ok(Admitted::default());
        }
        let has_several = match statement {
            None => arrival.opcode == Opcode::Batch,
            Some(statement) => statement.facts.kind == Kind::Batch,
        };
        if has_several {
            return self.ask_rules_of_several(arrival, analysis, statement, of_client);
        }
        let Some(statement) = statement else {
            if let Some(rule) = self.rules.needs_to_know(of_client) {
                let view = ExecuteView::parse(arrival.content, arrival.version);
                return Err(Box::new(Disobeys::NotKnown {
                    id: view.map_or(&[][..], |view| view.id).into(),
                    text: rule.cannot_tell(),
                }));
            }
            return self.ask_rules_of(arrival, analysis, of_client, &[Part::unknown()]);
        };
        let seen = Seen {
            snapshot: &self.cx.snapshot,
            opcode: arrival.opcode,
            with_classes: self.rules.names_classes(of_client.may),
        };
        let prepared = analysis.prepared.as_deref();
        let place = analysis.place.as_ref();
        let (statement, placed) = ((statement, prepared), place.is_some());
        let part = seen.single(statement, analysis.in_force(), placed);
        let token = place.and_then(|place| place.token);
        let part = Part { token, ..part };
        self.ask_rules_of(arrival, analysis, of_client, &[part])
    }

    /// The same of a batch, sent as one or written as one.
    fn ask_rules_of_several(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Statement>,
        of_client: OfClient,
    ) -> Result<Admitted, Box<Disobeys>> {
        let with_tokens = self.rules.names_partitions(of_client.may);
        let asked = (arrival.opcode, arrival.content, arrival.version);
        let (children, tokens) = match statement {
            Some(of) if with_tokens => {
                let tokens = self.statements.inner_tokens(&self.cx, asked, analysis, of);
                (Vec::new(), tokens)
            }
            Some(_) => (Vec::new(), Vec::new()),
            None => {
                let (cx, body) = (&self.cx, (arrival.content, arrival.version));
                let children = self.statements.children(cx, body, analysis, with_tokens);
                (children, Vec::new())
            }
        };
        let seen = Seen {
            snapshot: &self.cx.snapshot,
            opcode: arrival.opcode,
            with_classes: self.rules.names_classes(of_client.may),
        };
        let mut parts = Vec::new();
        if let Some(statement) = statement {
            seen.inner(statement, analysis.in_force(), &tokens, &mut parts);
        }
        for child in &children {
            match child {
                Child::Unknown(id) => {
                    if let Some(rule) = self.rules.needs_to_know(of_client) {
                        return Err(Box::new(Disobeys::NotKnown {
                            id: id.clone(),
                            text: rule.cannot_tell(),
                        }));
                    }
                    parts.push(Part::unknown());
                }
                Child::Text(of, token) => {
                    seen.child((of, None), analysis.keyspace, *token, &mut parts);
                }
                Child::Prepared(of, token) => {
                    let (statement, in_force) = (&*of.statement, of.keyspace.as_deref());
                    seen.child((statement, Some(&**of)), in_force, *token, &mut parts);
                }
            }
        }
        // All of it is a batch, and conditional if one of them is.
        let all = match analysis.lwt {
            true => Classes::BATCH.and(Classes::CONDITIONAL).and(Classes::WRITE),
            false => Classes::BATCH.and(Classes::WRITE),
        };
        for part in &mut parts {
            part.classes = part.classes.and(all);
        }
        if parts.is_empty() {
            let classes = all;
            let kind = Kind::Batch;
            parts.push(Part {
                classes,
                kind,
                nature: Nature::Known,
                ..Part::unknown()
            });
        }
        self.ask_rules_of(arrival, analysis, of_client, &parts)
    }

    fn ask_rules_of(
        &self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        of_client: OfClient,
        parts: &[Part<'_>],
    ) -> Result<Admitted, Box<Disobeys>> {
        let fitting = self.rules.fitting(of_client, parts);
        if fitting == 0 {
            return Ok(Admitted::default());
        }
        let asked = Asked {
            is_read: parts.iter().all(Part::is_read),
            level: analysis
                .consistency
                .filter(|_| parts.iter().any(Part::has_level)),
            is_about_rows: parts.iter().all(Part::is_about_rows),
            bytes: arrival.body.len(),
        };
        let admitted = self.rules.admit(self.cx.now, fitting, asked);
        admitted.map_err(|why| Box::new(Disobeys::Refused(why)))
    }

    /// The rules that may be about what a client asks: found once for each client.
    fn rules_of_client(&mut self, arrival: &Arrival<'_>) -> OfClient {
        let generation = self.rules.generation();
        if let Some(known) = self.clients.rules_of(arrival.session, generation) {
            return known;
        }
        let peer = self.clients.peer_of(arrival.session);
        let kind = self.clients.kind_of(arrival.session);
        let identity = self.links.identity_of(arrival.pool);
        let role = match identity.map(|identity| (identity.role(), identity.is_anonymous())) {
            Some((Some(role), _)) => Role::Named(role),
            Some((None, true)) => Role::Nobody,
            Some((None, false)) | None => Role::Unknown,
        };
        let who = peer.zip(kind).map(|(peer, kind)| Who {
            role,
            address: peer.ip(),
            application: &kind.application,
            driver: &kind.driver,
        });
        let rules = self.rules.of_client(who.as_ref());
        self.clients.set_rules(arrival.session, generation, rules);
        rules
    }

    /// Tells a client why a rule refuses its request.
    #[cold]
    pub(crate) fn refuse_disobedient(
        &mut self,
        arrival: &Arrival<'_>,
        statement: Option<&Statement>,
        why: &Disobeys,
    ) {
        let global = &self.cx.shared.stats.global;
        let mut fields = Vec::new();
        let (code, text) = match why {
            Disobeys::Refused(why) => {
                add(&global.requests_refused_by_rules, 1);
                let is_overload = why.code == code::OVERLOADED;
                add(&global.requests_overloaded, u64::from(is_overload));
                (why.code, &why.text)
            }
            Disobeys::NotKnown { id, text } => {
                write::short_bytes(&mut fields, id);
                (code::UNPREPARED, text)
            }
        };
        self.refuse_with_fields(arrival, statement, (code, text, &fields));
    }
}

/// The body of a request at another consistency level than its client's.
pub(crate) fn at_level(arrival: &Arrival<'_>, level: Consistency) -> Vec<u8> {
    let mut body = arrival.body.to_vec();
    let at = options_at(arrival.opcode, arrival.content, arrival.version);
    let at = at.map(|at| at + arrival.payload().len());
    let written = at.and_then(|at| body.get_mut(at..at + 2));
    if let Some(written) = written {
        written.copy_from_slice(&level.0.to_be_bytes());
    }
    body
}

/// Where the options of a request begin, with its consistency level.
fn options_at(opcode: Opcode, content: &[u8], version: Version) -> Option<usize> {
    let options = match opcode {
        Opcode::Query => QueryView::parse(content, version).ok()?.options,
        Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
        Opcode::Batch => BatchView::parse(content, version).ok()?.options,
        _ => return None,
    };
    Some(options.begins_at())
}

/// Looks at statements as rules do.
pub(crate) struct Seen<'s> {
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) opcode: Opcode,
    /// Whether anything asks for classes.
    pub(crate) with_classes: bool,
}

impl<'s> Seen<'s> {
    /// A statement that is no batch. `placed`: whether its partition is known.
    pub(crate) fn single<'a>(
        &self,
        (statement, prepared): (&'a Statement, Option<&'a Prepared>),
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
            let placed = (placed, facts.lwt);
            let class = class_of(
                self.snapshot,
                self.opcode,
                Some(statement),
                prepared,
                in_force,
                placed,
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
    fn child<'a>(
        &self,
        (statement, prepared): (&'a Statement, Option<&'a Prepared>),
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
        let part = self.single((statement, prepared), in_force, token.is_some());
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

    /// Whether it changes nothing.
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

    /// Whether its consistency level may mean anything.
    pub(crate) fn has_level(&self) -> bool {
        self.is_about_rows() || self.kind == Kind::Opaque
    }

    /// Whether it is known to read or write rows.
    pub(crate) fn is_about_rows(&self) -> bool {
        let is_so = matches!(
            self.kind,
            Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Batch
        );
        is_so && self.nature != Nature::NodeLocal
    }
}

/// Whether a statement about roles only lists them.
fn lists(text: &str) -> bool {
    let first = Lexer::new(text).next();
    let first = first.and_then(|token| text.get(token.start..token.end));
    first.is_some_and(|word| word.eq_ignore_ascii_case("list"))
}
