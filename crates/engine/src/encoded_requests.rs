//! Requests about tables with encoded columns ([`crate::encodings`]): what is sent in their place, and what
//! their answers become. That happens at the border: what is sent takes the way of any other request.

use std::sync::Arc;
use std::time::Instant;

use helenus_cql::lexer::{Lexer, TokenKind};
use helenus_cql::{Facts, Kind, Name, fold_identifier};
use helenus_wire::{
    BatchChild, BatchStatement, BatchView, ErrorBody, ExecuteView, Opcode, Options, QueryView,
    ResultKind, ValueRef, Values, Version, code, query_flags, result_kind, strip_prelude,
    without_result_columns, write, write_batch,
};

use crate::arrival::Arrival;
use crate::encodings::answer::{Shown, Unshown, shown};
use crate::encodings::coding::Coding;
use crate::encodings::{EncodedTable, Encodings};
use crate::ends::Reply;
use crate::engine::Engine;
use crate::execution::fan_out_write::in_order;
use crate::execution::rewriting::Refusal;
use crate::keys::{ClientRequestKey, NodeRequestKey, PoolKey};
use crate::memory::Body;
use crate::request::ClientRequest;
use crate::statement::analysis::Analysis;
use crate::statement::encoded_plan::{Changed, Plan, Source, text_batch};
use crate::statement::layout_rules::is_systems;
use crate::statement::prepared::{InRange, Prepared, Statement};
use crate::statement::words::{is_one_of, words};
use crate::stats::add;

/// What an answer may have once its values are decoded, as a frame of Cassandra's protocol.
const ANSWER_BYTES_MAX: usize = 256 << 20;
const NOT_READABLE: &str = "the request cannot be understood";
const TOO_MANY: &str = "a batch has too many statements or values: divide it";

/// What a client request has to do with encoded columns.
#[derive(Debug)]
pub(crate) struct OnEncoded {
    pub table: Arc<EncodedTable>,
    pub shown: Shown,
}

/// What is sent for a request.
#[derive(Default)]
pub(crate) struct Stored {
    /// It is not sent later than this: by then columns may be encoded of which nothing is known here.
    pub until: Option<Instant>,
    /// What was known of encoded columns. A read in many requests goes on as long as that holds.
    pub known: Option<Arc<Encodings>>,
    pub encoded: Option<Box<OnEncoded>>,
    /// Opcode and body in place of the client's own.
    pub sent: Option<(Opcode, Vec<u8>)>,
}

impl Stored {
    fn on(mut self, table: &Arc<EncodedTable>, shown: Shown) -> Stored {
        self.encoded = Some(Box::new(OnEncoded {
            table: table.clone(),
            shown,
        }));
        self
    }
}

impl Engine {
    /// What is sent for a client's request where columns are encoded.
    #[inline]
    pub(crate) fn stored(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Stored, Box<Refusal>> {
        match self.cx.shared.config.payload.enabled {
            false => Ok(Stored::default()),
            true => self
                .find_stored(arrival, analysis, statement)
                .map_err(Box::new),
        }
    }

    #[inline(never)]
    fn find_stored(
        &mut self,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        statement: Option<&Arc<Statement>>,
    ) -> Result<Stored, Refusal> {
        // Whoever has renewed the lease has stored the snapshot before.
        let until = self.cx.shared.layouts.until(self.cx.now);
        if self.cx.shared.is_newer_than(&self.cx.snapshot) {
            self.adopt_snapshot();
        }
        let encodings = self.cx.snapshot.encodings.clone();
        let kind = match (arrival.opcode, statement) {
            (Opcode::Batch, _) => Kind::Batch,
            (_, Some(statement)) => statement.facts.kind,
            (_, None) => Kind::Opaque,
        };
        let named = match arrival.opcode {
            Opcode::Batch => None,
            _ => analysis.table(statement.map(|of| &**of)),
        };
        let is_about_rows = !matches!(kind, Kind::Use | Kind::Auth | Kind::Describe)
            && !named.is_some_and(|(keyspace, _)| is_systems(keyspace));
        if arrival.opcode == Opcode::Prepare {
            let table = named.and_then(|(keyspace, table)| encodings.table(keyspace, table));
            return self.stored_prepare(statement, table);
        }
        if !is_about_rows {
            return Ok(Stored::default());
        }
        let Some(until) = until else {
            return Err(Refusal::blind(&self.cx.shared.layouts, self.cx.now));
        };
        let stored = Stored {
            until: Some(until),
            ..Stored::default()
        };
        if arrival.opcode == Opcode::Execute && statement.is_none() {
            // It may be about a table with encoded columns, now or soon.
            let view = ExecuteView::parse(arrival.content, arrival.version);
            return match encodings.is_empty() {
                true => Ok(stored),
                false => Err(Refusal::unprepared_for_encoded(
                    view.map_or(&[], |view| view.id),
                )),
            };
        }
        let stored = match kind {
            Kind::Select => Stored {
                until: None,
                known: Some(encodings.clone()),
                ..stored
            },
            _ => stored,
        };
        if encodings.is_empty() {
            return Ok(stored);
        }
        let table = named.and_then(|(keyspace, table)| encodings.table(keyspace, table));
        match (kind, statement, table) {
            (Kind::Select | Kind::Insert | Kind::Update | Kind::Delete, Some(of), Some(table)) => {
                self.stored_statement(stored, arrival, analysis, (of, table))
            }
            (Kind::Batch, None, _) => self.stored_batch(stored, arrival, analysis, &encodings),
            (Kind::Batch, Some(of), _) => {
                self.stored_text_batch(stored, arrival, analysis, (of, &encodings))
            }
            (Kind::Ddl, Some(of), Some(table)) => {
                definition_refused(of, table).map_or(Ok(stored), |why| Err(Refusal::invalid(why)))
            }
            (Kind::Opaque | Kind::Ddl, Some(of), _) => {
                let refused = opaque_refused(of, analysis.in_force(), &encodings);
                refused.map_or(Ok(stored), |why| Err(Refusal::invalid(why)))
            }
            _ => Ok(stored),
        }
    }

    /// A PREPARE goes to a node as it is; what is left out of its answer are columns that clients do not see.
    fn stored_prepare(
        &mut self,
        statement: Option<&Arc<Statement>>,
        table: Option<&Arc<EncodedTable>>,
    ) -> Result<Stored, Refusal> {
        let (Some(statement), Some(table)) = (statement, table) else {
            return Ok(Stored::default());
        };
        let planned = statement.encoded_plan(table, &mut self.coding);
        match &*planned.plan {
            Plan::Refused(why) => Err(Refusal::invalid(&**why)),
            _ => Ok(Stored::default().on(table, Shown::ByName)),
        }
    }

    fn stored_statement(
        &mut self,
        stored: Stored,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, table): (&Arc<Statement>, &Arc<EncodedTable>),
    ) -> Result<Stored, Refusal> {
        let planned = statement.encoded_plan(table, &mut self.coding);
        let facts = &statement.facts;
        let changed = match &*planned.plan {
            Plan::Refused(why) => return Err(Refusal::invalid(&**why)),
            Plan::AsItCame => return Ok(stored.on(table, Shown::ByName)),
            Plan::All => {
                let sent = with_columns(arrival);
                return Ok(Stored {
                    sent,
                    ..stored.on(table, Shown::ByName)
                });
            }
            Plan::Changed(changed) => changed,
        };
        let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
        let values = in_order(&asked.options.values, facts, asked.names);
        let values = values.map_err(|why| Refusal::invalid(why.text_of_encoded()))?;
        let made = made_values(&mut self.coding, table, changed, &values)?;
        let values = referred(changed, &values, &made);
        let prepared = match asked.names {
            Some(_) => self.known_of(arrival.pool, changed),
            None => None,
        };
        let mut body = arrival.payload().to_vec();
        match &prepared {
            Some(prepared) => {
                write::short_bytes(&mut body, &prepared.id);
                if arrival.version == Version::V5 {
                    let id = prepared.result_metadata_id.as_deref();
                    write::short_bytes(&mut body, id.unwrap_or(&[]));
                }
            }
            None => write::long_string(&mut body, &changed.text),
        }
        let keyspace = asked.options.keyspace.filter(|_| asked.names.is_none());
        let begin = body.len();
        let (content, version) = (arrival.content, arrival.version);
        asked
            .options
            .write_with_values(content, version, &values, keyspace, &mut body);
        ask_for_columns(&mut body, begin, version);
        let opcode = match prepared {
            Some(_) => Opcode::Execute,
            None => Opcode::Query,
        };
        Ok(Stored {
            sent: Some((opcode, body)),
            ..stored.on(table, changed.shown.clone())
        })
    }

    /// What the nodes have prepared of a changed statement; if nothing, they are asked to.
    fn known_of(&mut self, pool: PoolKey, changed: &Changed<Statement>) -> Option<Arc<Prepared>> {
        let statement = changed.statement();
        let known = match &*statement.in_range() {
            InRange::Known(known) => Some(known.clone()),
            _ => None,
        };
        if known.is_none() {
            self.prepare_copies(pool, std::iter::once(statement));
        }
        known.map(|known| self.cx.shared.newest(known))
    }

    fn stored_text_batch(
        &mut self,
        stored: Stored,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        (statement, encodings): (&Arc<Statement>, &Encodings),
    ) -> Result<Stored, Refusal> {
        let facts = &statement.facts;
        let in_force = analysis.in_force();
        let tables = facts.inner.iter().map(|inner| {
            let keyspace = inner.keyspace.as_ref().map(Name::as_str).or(in_force)?;
            encodings.table(keyspace, inner.table.as_ref()?.as_str())
        });
        let tables: Vec<_> = tables.collect();
        let Some(table) = tables.iter().copied().flatten().next() else {
            return Ok(stored);
        };
        let changed = text_batch::<Statement>(&tables, &statement.text, facts, &mut self.coding);
        let Some(changed) = changed.map_err(Refusal::invalid)? else {
            return Ok(stored.on(table, Shown::ByName));
        };
        let asked = Asked::of(arrival, analysis).ok_or(Refusal::invalid(NOT_READABLE))?;
        let values = in_order(&asked.options.values, facts, asked.names);
        let values = values.map_err(|why| Refusal::invalid(why.text_of_encoded()))?;
        let made = made_values(&mut self.coding, table, &changed, &values)?;
        let values = referred(&changed, &values, &made);
        let mut body = arrival.payload().to_vec();
        write::long_string(&mut body, &changed.text);
        // What an EXECUTE says of keyspaces does not count, what a QUERY says does.
        let own = match asked.names {
            Some(_) => in_force,
            None => asked.options.keyspace,
        };
        let (content, version) = (arrival.content, arrival.version);
        asked
            .options
            .write_with_values(content, version, &values, own, &mut body);
        Ok(Stored {
            sent: Some((Opcode::Query, body)),
            ..stored.on(table, Shown::ByName)
        })
    }

    fn stored_batch(
        &mut self,
        stored: Stored,
        arrival: &Arrival<'_>,
        analysis: &Analysis<'_>,
        encodings: &Encodings,
    ) -> Result<Stored, Refusal> {
        let view = BatchView::parse(arrival.content, arrival.version);
        let view = view.map_err(|_| Refusal::invalid(NOT_READABLE))?;
        let mut of_batch: Option<Arc<EncodedTable>> = None;
        let mut children = Vec::with_capacity(view.children.len());
        let mut is_changed = false;
        for child in &view.children {
            let child = self.stored_child(child, (analysis, arrival.pool), encodings)?;
            is_changed |= child.is_changed;
            of_batch = of_batch.or_else(|| child.table.clone());
            children.push(child);
        }
        let Some(table) = of_batch else {
            return Ok(stored);
        };
        if !is_changed {
            return Ok(stored.on(&table, Shown::ByName));
        }
        let children: Vec<_> = children
            .iter()
            .zip(&view.children)
            .map(|(child, own)| child.as_sent(own))
            .collect();
        let mut body = arrival.payload().to_vec();
        let (kind, version) = (view.batch_type, arrival.version);
        if !write_batch(kind, &children, &view.options, version, &mut body) {
            return Err(Refusal::invalid(TOO_MANY));
        }
        Ok(Stored {
            sent: Some((Opcode::Batch, body)),
            ..stored.on(&table, Shown::ByName)
        })
    }

    fn stored_child(
        &mut self,
        child: &BatchChild<'_>,
        (analysis, pool): (&Analysis<'_>, PoolKey),
        encodings: &Encodings,
    ) -> Result<Child, Refusal> {
        let (statement, prepared, values) = match child {
            BatchChild::Text(text, values) => (self.statements.of_text(text), None, values),
            BatchChild::Prepared(id, values) => {
                let prepared = self.statements.prepared(&self.cx.shared, id);
                let prepared = prepared.ok_or_else(|| Refusal::unprepared_for_encoded(id))?;
                (prepared.statement.clone(), Some(prepared), values)
            }
        };
        let named = match &prepared {
            Some(prepared) => prepared.table.as_ref().map(|(ks, table)| (&**ks, &**table)),
            None => statement.table(analysis.keyspace),
        };
        if statement.facts.kind == Kind::Opaque
            && let Some(why) = opaque_refused(&statement, analysis.keyspace, encodings)
        {
            return Err(Refusal::invalid(why));
        }
        let table = named.and_then(|(keyspace, table)| encodings.table(keyspace, table));
        let Some(table) = table else {
            return Ok(Child::default());
        };
        let planned = statement.encoded_plan(table, &mut self.coding);
        let changed = match &*planned.plan {
            Plan::Refused(why) => return Err(Refusal::invalid(&**why)),
            Plan::AsItCame | Plan::All => {
                return Ok(Child {
                    table: Some(table.clone()),
                    ..Child::default()
                });
            }
            Plan::Changed(changed) => changed,
        };
        let values = in_order(values, &statement.facts, None);
        let values = values.map_err(|why| Refusal::invalid(why.text_of_encoded()))?;
        let made = made_values(&mut self.coding, table, changed, &values)?;
        let values = referred(changed, &values, &made);
        let known = match prepared {
            Some(_) => self.known_of(pool, changed),
            None => None,
        };
        Ok(Child {
            table: Some(table.clone()),
            is_changed: true,
            text: changed.text.clone(),
            prepared: known,
            values: values.iter().copied().map(Value::of).collect(),
        })
    }

    /// A node's answer as its client is to see it.
    pub(crate) fn as_shown<'a>(&mut self, key: ClientRequestKey, reply: Reply<'a>) -> Reply<'a> {
        let request = self.requests.clients.get(key);
        let Some(of) = request.and_then(|request| request.encoded.as_deref()) else {
            return reply;
        };
        match show(&mut self.coding, of, &reply) {
            Ok(None) => reply,
            Ok(Some(body)) => Reply {
                body: Body::Joined(body.into()),
                ..reply
            },
            Err(unshown) => {
                let message = match unshown {
                    Unshown::Malformed(e) => format!("a node sent a malformed answer: {e}"),
                    Unshown::Value(why) => format!(
                        "an encoded value of {}.{} cannot be read: {why}",
                        of.table.keyspace, of.table.name
                    ),
                };
                add(&self.cx.shared.stats.global.requests_failed, 1);
                let error = ErrorBody {
                    code: code::SERVER,
                    message: &message,
                    fields: &[],
                };
                let mut body = Vec::with_capacity(message.len() + 8);
                error.write(&mut body);
                Reply {
                    opcode: Opcode::Error,
                    header_flags: 0,
                    body: Body::Joined(body.into()),
                    version: reply.version,
                }
            }
        }
    }

    /// Whether a read may not be sent now: what is known of encoded columns is too old, or the table's columns
    /// have been encoded since it began.
    #[inline]
    pub(crate) fn is_blind(&self, key: NodeRequestKey) -> bool {
        if !self.cx.shared.config.payload.enabled {
            return false;
        }
        let owner = self
            .requests
            .nodes
            .get(key)
            .and_then(|of| of.owner.client());
        let client = owner.and_then(|owner| self.requests.clients.get(owner));
        let Some(known) = client.and_then(|client| client.encodings.as_ref()) else {
            return false;
        };
        if !self.cx.shared.layouts.is_held(self.cx.now) {
            return true;
        }
        // Loaded anew: whoever has renewed the lease has stored it before.
        let newest = self.cx.shared.snapshot.load();
        if Arc::ptr_eq(known, &newest.encodings) {
            return false;
        }
        let known = client.and_then(|client| client.encoded.as_deref());
        let asked = client.map(|client| &client.query);
        let table = asked.and_then(|query| match (&query.prepared, &query.statement) {
            (Some(prepared), _) => prepared.table.as_ref().map(|(ks, t)| (&**ks, &**t)),
            (None, Some(statement)) => statement.table(query.keyspace.as_deref()),
            (None, None) => None,
        });
        let table = table.and_then(|(keyspace, table)| newest.encodings.table(keyspace, table));
        table.is_some_and(|table| has_more(table, known.map(|of| &*of.table)))
    }
}

impl ClientRequest {
    /// What its answer needs, and until when it may be sent.
    #[inline]
    pub(crate) fn keep_stored(&mut self, stored: Stored) {
        self.encoded = stored.encoded;
        self.encodings = stored.known;
        let until = [self.query.send_before, stored.until].into_iter().flatten();
        self.query.send_before = until.min();
    }
}

/// Whether there are columns of encoded values that were not known of.
fn has_more(table: &EncodedTable, known: Option<&EncodedTable>) -> bool {
    let is_known = |name: &str| {
        let known = known.and_then(|table| table.column(name));
        known.is_some_and(|column| column.written.has_encoded())
    };
    let mut columns = table.columns.iter();
    columns.any(|column| column.written.has_encoded() && !is_known(&column.name))
}

/// The body of an answer as its client is to see it; `None`: as it came.
fn show(
    coding: &mut Coding,
    of: &OnEncoded,
    reply: &Reply<'_>,
) -> Result<Option<Vec<u8>>, Unshown> {
    let (prelude, content) = strip_prelude(reply.header_flags, &reply.body)?;
    let changed = match reply.opcode {
        Opcode::Error => renamed(&of.table, content),
        Opcode::Result => match result_kind(content)? {
            ResultKind::Rows => shown(coding, &of.table, &of.shown, content, ANSWER_BYTES_MAX)?,
            ResultKind::Prepared => {
                let is_kept = |name: &str| of.table.hidden_by(name).is_none();
                without_result_columns(content, reply.version, |column| is_kept(column.name))?
            }
            _ => None,
        },
        _ => None,
    };
    Ok(changed.map(|changed| [prelude, &changed].concat()))
}

/// An error with the names that clients know; `None` if it names no other.
fn renamed(table: &EncodedTable, content: &[u8]) -> Option<Vec<u8>> {
    let error = ErrorBody::parse(content).ok()?;
    let names = |message: &str| table.columns.iter().any(|of| message.contains(&of.hidden));
    if !names(error.message) {
        return None;
    }
    let rename =
        |text: String, of: &crate::encodings::EncodedColumn| text.replace(&of.hidden, &of.name);
    let message = table.columns.iter().fold(error.message.to_owned(), rename);
    let mut out = Vec::with_capacity(content.len());
    let message = &*message;
    ErrorBody { message, ..error }.write(&mut out);
    Some(out)
}

/// What a request asks.
struct Asked<'a> {
    options: Options<'a>,
    /// Names of the markers of what is prepared.
    names: Option<&'a [Box<str>]>,
}

impl<'a> Asked<'a> {
    fn of(arrival: &Arrival<'a>, analysis: &'a Analysis<'_>) -> Option<Asked<'a>> {
        let (content, version) = (arrival.content, arrival.version);
        match arrival.opcode {
            Opcode::Query => Some(Asked {
                options: QueryView::parse(content, version).ok()?.options,
                names: None,
            }),
            Opcode::Execute => Some(Asked {
                options: ExecuteView::parse(content, version).ok()?.options,
                names: Some(&analysis.prepared.as_deref()?.names),
            }),
            _ => None,
        }
    }
}

/// A request as it came, but that the columns of its result are asked for; `None` if they are.
fn with_columns(arrival: &Arrival<'_>) -> Option<(Opcode, Vec<u8>)> {
    let (content, version) = (arrival.content, arrival.version);
    let options = match arrival.opcode {
        Opcode::Query => QueryView::parse(content, version).ok()?.options,
        Opcode::Execute => ExecuteView::parse(content, version).ok()?.options,
        _ => return None,
    };
    if options.flags & query_flags::SKIP_METADATA == 0 {
        return None;
    }
    let mut body = arrival.body.to_vec();
    let begin = arrival.payload().len() + options.begins_at();
    ask_for_columns(&mut body, begin, version);
    Some((arrival.opcode, body))
}

/// Takes back that the columns are left out. `begin`: where the options begin.
fn ask_for_columns(body: &mut [u8], begin: usize, version: Version) {
    // Behind the consistency level are one byte of flags until v4, four in v5.
    let last_of_flags = match version {
        Version::V5 => begin + 5,
        _ => begin + 2,
    };
    if let Some(flags) = body.get_mut(last_of_flags) {
        *flags &= !(query_flags::SKIP_METADATA as u8);
    }
}

/// The encoded values of a request, in the order in which they are sent.
fn made_values(
    coding: &mut Coding,
    table: &Arc<EncodedTable>,
    changed: &Changed<Statement>,
    values: &[ValueRef<'_>],
) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut made = Vec::new();
    for source in &changed.sources {
        let Source::Encoded(at, column) = source else {
            continue;
        };
        made.push(match values.get(usize::from(*at)) {
            Some(ValueRef::Set(bytes)) => {
                let text = std::str::from_utf8(bytes).map_err(|_| not_utf8(table, *column))?;
                coding.encode(table, *column, text)
            }
            _ => Vec::new(),
        });
    }
    Ok(made)
}

/// As a node says it.
fn not_utf8(table: &EncodedTable, column: usize) -> Refusal {
    let column = table.columns.get(column);
    let name = column.map_or("", |column| column.name.as_str());
    Refusal::invalid(format!(
        "Exception while binding column {name}: String didn't validate."
    ))
}

/// The values that are sent. `made`: those that are encoded.
fn referred<'v>(
    changed: &Changed<Statement>,
    values: &[ValueRef<'v>],
    made: &'v [Vec<u8>],
) -> Vec<ValueRef<'v>> {
    let mut made = made.iter();
    let own = |at: u16| {
        values
            .get(usize::from(at))
            .copied()
            .unwrap_or(ValueRef::Null)
    };
    let sources = changed.sources.iter().map(|source| match source {
        Source::Own(at) => own(*at),
        Source::Encoded(at, _) => match (own(*at), made.next()) {
            (ValueRef::Set(_), Some(made)) => ValueRef::Set(made),
            (other, _) => other,
        },
        Source::Emptied(at) => match own(*at) {
            ValueRef::Unset => ValueRef::Unset,
            ValueRef::Set(_) | ValueRef::Null => ValueRef::Null,
        },
    });
    sources.collect()
}

/// A value that is kept until all statements of a batch are known.
enum Value {
    Set(Vec<u8>),
    Null,
    Unset,
}

impl Value {
    fn of(value: ValueRef<'_>) -> Value {
        match value {
            ValueRef::Set(bytes) => Value::Set(bytes.to_vec()),
            ValueRef::Null => Value::Null,
            ValueRef::Unset => Value::Unset,
        }
    }

    fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Set(bytes) => ValueRef::Set(bytes),
            Value::Null => ValueRef::Null,
            Value::Unset => ValueRef::Unset,
        }
    }
}

/// A statement of a batch.
#[derive(Default)]
struct Child {
    /// If it has encoded columns.
    table: Option<Arc<EncodedTable>>,
    is_changed: bool,
    text: Box<str>,
    prepared: Option<Arc<Prepared>>,
    values: Vec<Value>,
}

impl Child {
    fn as_sent<'a>(&'a self, own: &'a BatchChild<'a>) -> (BatchStatement<'a>, Vec<ValueRef<'a>>) {
        let refs = |values: &Values<'a>| values.iter().map(|(_, value)| value).collect();
        if !self.is_changed {
            return match own {
                BatchChild::Text(text, values) => (BatchStatement::Text(text), refs(values)),
                BatchChild::Prepared(id, values) => (BatchStatement::Prepared(id), refs(values)),
            };
        }
        let statement = match &self.prepared {
            Some(prepared) => BatchStatement::Prepared(&prepared.id),
            None => BatchStatement::Text(&self.text),
        };
        (statement, self.values.iter().map(Value::as_ref).collect())
    }
}

/// Why a definition is refused: it takes a column away, or needs values that nodes cannot read.
fn definition_refused(statement: &Statement, table: &EncodedTable) -> Option<String> {
    let text = &statement.text;
    let mut words = words(text);
    let (verb, what) = (words.next()?, words.next().unwrap_or_default());
    if is_one_of(verb, &["drop"]) || is_one_of(verb, &["create"]) && is_one_of(what, &["table"]) {
        return None;
    }
    let column = table
        .columns
        .iter()
        .find(|of| names(text, &of.name) || names(text, &of.hidden))?;
    Some(format!(
        "{}.{}.{} is stored encoded, so it cannot be altered, renamed, dropped, masked or indexed: take that back \
         first (helenus payload disable {}.{} {})",
        table.keyspace, table.name, column.name, table.keyspace, table.name, column.name
    ))
}

/// Whether a text names something so.
fn names(text: &str, name: &str) -> bool {
    Lexer::new(text).any(|token| {
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::QuotedName);
        let word = text.get(token.start..token.end).unwrap_or_default();
        is_name && fold_identifier(word) == name
    })
}

/// Why a statement that is not understood, or defines something of an unknown table, is refused: it names a
/// table with encoded columns.
fn opaque_refused(
    statement: &Statement,
    in_force: Option<&str>,
    encodings: &Encodings,
) -> Option<String> {
    let Facts { kind, .. } = statement.facts;
    let text = &statement.text;
    let mut words = words(text);
    let (verb, what) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let is_view = is_one_of(verb, &["create"]) && is_one_of(what, &["materialized"]);
    if kind == Kind::Ddl && !is_view {
        return None;
    }
    let named = |keyspace: &str, table: &str| {
        names(text, table) && (in_force == Some(keyspace) || names(text, keyspace))
    };
    let mut tables = encodings
        .tables
        .iter()
        .flat_map(|(keyspace, tables)| tables.keys().map(move |table| (keyspace, table)));
    let (keyspace, table) = tables.find(|(keyspace, table)| named(keyspace, table))?;
    Some(match is_view {
        true => format!(
            "{keyspace}.{table} has encoded columns, which a view would not follow: take that back first \
             (helenus payload disable {keyspace}.{table} COLUMN)"
        ),
        false => format!(
            "Helenus does not understand this statement, which names {keyspace}.{table}, a table with encoded \
             columns: write it another way"
        ),
    })
}

#[cfg(test)]
mod tests;
