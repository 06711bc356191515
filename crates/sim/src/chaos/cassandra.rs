//! The modelled cluster: coordinators, and replicas whose cells have timestamps.
//!
//! A write reaches as many replicas as its level asks for at once, and the others later or, if they
//! are down, never. A read asks as many as its level asks for, and takes the newest cell. Counters and
//! conditional writes are executed as a whole, in the order in which they come.

use std::collections::{BTreeMap, BTreeSet};

use helenus_policy::ring::{ReplicaSets, Ring};
use helenus_wire::{
    BatchChild, BatchView, Consistency, ErrorBody, ExecuteView, Header, Opcode, Options, PageStart,
    PrepareView, QueryView, Version, code, query_flags, write,
};

use super::checks::Once;
use super::coverage::{Failure, Kind};
use super::cql::{self, Asked, Metadata};
use crate::dice::Dice;

/// What a node can do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Up,
    /// Nothing is read, executed or answered until then.
    Frozen(u64),
    Down,
}

pub(super) struct Node {
    pub health: Health,
    /// Texts that it has prepared.
    known: BTreeSet<String>,
    /// The schema as far as it has heard.
    pub schema: usize,
    cells: BTreeMap<i64, Cell>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    timestamp: i64,
    value: i64,
}

pub(super) struct Cluster {
    pub nodes: Vec<Node>,
    ring: Ring,
    replicas: ReplicaSets,
    /// Keys by token.
    by_token: BTreeMap<i64, i64>,
    pub conditional: BTreeMap<i64, i64>,
    /// All that was ever written to any replica.
    pub applied: BTreeSet<i64>,
    pub once: Once,
    /// In a hundred requests, those that are answered with an error.
    pub errors_percent: u64,
    /// Columns that were added, on any node.
    pub schema: usize,
    /// Schema changes that were carried out, whatever came of them.
    pub altered: u64,
}

/// What a node knows of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    pub role: Option<String>,
    pub keyspace: Option<String>,
}

/// Cells that reach a replica later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mutation {
    pub node: usize,
    pub key: i64,
    cell: Cell,
}

/// What comes of a request.
pub(super) struct Served {
    pub opcode: Opcode,
    pub body: Vec<u8>,
    pub later: Vec<Mutation>,
    /// What was asked, where the model knows it.
    pub kind: Option<Kind>,
}

impl Served {
    /// The error that it is.
    pub(super) fn failure(&self) -> Option<Failure> {
        if self.opcode != Opcode::Error {
            return None;
        }
        match ErrorBody::parse(&self.body).map(|error| error.code) {
            Ok(code::OVERLOADED) => Some(Failure::Overloaded),
            Ok(code::UNAVAILABLE) => Some(Failure::Unavailable),
            Ok(code::IS_BOOTSTRAPPING) => Some(Failure::Bootstrapping),
            Ok(code::WRITE_TIMEOUT | code::READ_TIMEOUT) => Some(Failure::TimedOut),
            Ok(code::UNPREPARED) => Some(Failure::Unprepared),
            _ => None,
        }
    }
}

fn result(body: Vec<u8>) -> Served {
    Served {
        opcode: Opcode::Result,
        body,
        later: Vec::new(),
        kind: None,
    }
}

/// What nodes say that cannot prepare anything now.
pub(super) const NOT_PREPARED: &str = "so the model, of a PREPARE";

fn error(code: i32, fields: &[u8]) -> Served {
    error_saying(code, "so the model", fields)
}

fn error_saying(code: i32, message: &str, fields: &[u8]) -> Served {
    let mut body = Vec::new();
    ErrorBody {
        code,
        message,
        fields,
    }
    .write(&mut body);
    Served {
        opcode: Opcode::Error,
        body,
        later: Vec::new(),
        kind: None,
    }
}

/// What a node says on stream 0 of what it drops.
pub(super) fn overloaded() -> Served {
    error(code::OVERLOADED, &[])
}

/// What a message asks a node for.
pub(super) fn kind_of(header: &Header, body: &[u8]) -> Option<Kind> {
    let version = Version::from_number(header.version)?;
    let asked = match Opcode::from_number(header.opcode)? {
        Opcode::Prepare => return Some(Kind::Prepare),
        Opcode::Batch => return Some(Kind::Batch),
        Opcode::Query => {
            let view = QueryView::parse(body, version).ok()?;
            cql::read(view.text, &view.options.values)
        }
        Opcode::Execute => {
            let view = ExecuteView::parse(body, version).ok()?;
            cql::read(std::str::from_utf8(view.id).ok()?, &view.options.values)
        }
        _ => None,
    };
    asked.map(|asked| asked.kind())
}

fn token_of(key: i64) -> i64 {
    helenus_policy::token::murmur3_token(&key.to_be_bytes())
}

impl Cluster {
    pub(super) fn new(nodes: usize, ring: Ring, replicas: ReplicaSets, keys: i64) -> Cluster {
        let node = || Node {
            health: Health::Up,
            known: BTreeSet::new(),
            schema: 0,
            cells: BTreeMap::new(),
        };
        let mut cluster = Cluster {
            nodes: (0..nodes).map(|_| node()).collect(),
            ring,
            replicas,
            by_token: (0..keys).map(|key| (token_of(key), key)).collect(),
            conditional: (0..keys).map(|key| (key, 0)).collect(),
            applied: BTreeSet::new(),
            once: Once::default(),
            errors_percent: 0,
            schema: 0,
            altered: 0,
        };
        for key in 0..keys {
            // What was there before anybody wrote.
            let cell = Cell {
                timestamp: 0,
                value: first_value(key),
            };
            for node in cluster.replicas_of(key) {
                cluster.nodes[node].cells.insert(key, cell);
            }
        }
        cluster
    }

    fn replicas_of(&self, key: i64) -> Vec<usize> {
        let slot = self.ring.slot_of_key(&key.to_be_bytes());
        let nodes = self.replicas.of_slot(slot.unwrap_or(0));
        nodes.iter().map(|node| node.as_usize()).collect()
    }

    pub(super) fn apply(&mut self, mutation: Mutation) {
        let node = &mut self.nodes[mutation.node];
        if node.health != Health::Down {
            let cell = node.cells.entry(mutation.key).or_default();
            *cell = mutation.cell.max(*cell);
            self.applied.insert(mutation.cell.value);
        }
    }

    /// A node starts anew, without what it had prepared.
    pub(super) fn restart(&mut self, node: usize) {
        self.nodes[node].health = Health::Up;
        self.nodes[node].known.clear();
        self.learn(node);
    }

    /// A node hears of the newest schema, and forgets what has other columns by it.
    pub(super) fn learn(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        if node.schema < self.schema && node.health != Health::Down {
            node.schema = self.schema;
            node.known.retain(|text| !cql::is_of_altered(text));
        }
    }

    /// Whether all nodes that are up have the same schema.
    pub(super) fn agrees(&self) -> bool {
        let up = self.nodes.iter().filter(|node| node.health != Health::Down);
        up.map(|node| node.schema)
            .all(|schema| schema == self.schema)
    }

    /// A node forgets one of its prepared statements.
    pub(super) fn evict(&mut self, node: usize, dice: &mut Dice) {
        let known = &mut self.nodes[node].known;
        let at = dice.below(known.len() as u64) as usize;
        if let Some(text) = known.iter().nth(at).cloned() {
            known.remove(&text);
        }
    }

    /// Serves a request that a node has got over a connection of a role.
    pub(super) fn serve(
        &mut self,
        at: (usize, u64),
        header: &Header,
        body: &[u8],
        peer: &mut Peer,
        dice: &mut Dice,
    ) -> Served {
        let (node, now_us) = at;
        let version = Version::from_number(header.version).unwrap_or(Version::V4);
        let opcode = Opcode::from_number(header.opcode);
        let fails = dice.below(100) < self.errors_percent;
        match opcode {
            Some(Opcode::Options) => {
                let mut out = Vec::new();
                write::u16(&mut out, 0);
                Served {
                    opcode: Opcode::Supported,
                    body: out,
                    later: Vec::new(),
                    kind: None,
                }
            }
            Some(Opcode::Prepare) => {
                let text = PrepareView::parse(body, version).map(|view| view.text);
                let text = text.expect("a PREPARE");
                let kind = Some(Kind::Prepare);
                if fails {
                    let codes = [code::IS_BOOTSTRAPPING, code::OVERLOADED];
                    let served = error_saying(codes[dice.below(2) as usize], NOT_PREPARED, &[]);
                    return Served { kind, ..served };
                }
                self.nodes[node].known.insert(text.to_owned());
                let served = result(cql::prepared(
                    text,
                    self.nodes[node].schema,
                    version == Version::V5,
                ));
                Served { kind, ..served }
            }
            Some(Opcode::Query) => {
                let view = QueryView::parse(body, version).expect("a QUERY");
                let at = (node, now_us, None);
                self.execute(at, view.text, &view.options, peer, fails, dice)
            }
            Some(Opcode::Execute) => {
                let view = ExecuteView::parse(body, version).expect("an EXECUTE");
                let text = String::from_utf8(view.id.to_vec()).expect("an id is its text");
                if !self.nodes[node].known.contains(&text) {
                    let mut fields = Vec::new();
                    write::short_bytes(&mut fields, view.id);
                    let kind = cql::read(&text, &view.options.values).map(|asked| asked.kind());
                    return Served {
                        kind,
                        ..error(code::UNPREPARED, &fields)
                    };
                }
                let id = cql::metadata_id(&text, self.nodes[node].schema);
                let changed = view.result_metadata_id.filter(|known| **known != id);
                let was = |known: &[u8]| {
                    (0..=self.schema).any(|schema| cql::metadata_id(&text, schema) == known)
                };
                if changed.is_some_and(|known| !was(known)) {
                    panic!("EXECUTE of {text} with the metadata id of another");
                }
                let at = (node, now_us, changed.map(|_| id));
                self.execute(at, &text, &view.options, peer, fails, dice)
            }
            Some(Opcode::Batch) => {
                let view = BatchView::parse(body, version).expect("a BATCH");
                let served = self.batch((node, now_us), &view, fails, dice);
                Served {
                    kind: Some(Kind::Batch),
                    ..served
                }
            }
            other => panic!("the proxy sent {other:?}"),
        }
    }

    fn execute(
        &mut self,
        at: (usize, u64, Option<[u8; 16]>),
        text: &str,
        options: &Options<'_>,
        peer: &mut Peer,
        fails: bool,
        dice: &mut Dice,
    ) -> Served {
        let kind = cql::read(text, &options.values).map(|asked| asked.kind());
        let served = self.execute_kind(at, text, options, peer, fails, dice);
        Served { kind, ..served }
    }

    fn execute_kind(
        &mut self,
        (node, now_us, changed): (usize, u64, Option<[u8; 16]>),
        text: &str,
        options: &Options<'_>,
        peer: &mut Peer,
        fails: bool,
        dice: &mut Dice,
    ) -> Served {
        let Some(asked) = cql::read(text, &options.values) else {
            return error(code::INVALID, &[]);
        };
        if fails {
            return self.fail(&asked, options, now_us, dice);
        }
        let metadata = match (changed, options.flags & query_flags::SKIP_METADATA) {
            (Some(id), _) => Metadata::Changed(id),
            (None, 0) => Metadata::Full,
            (None, _) => Metadata::Skipped,
        };
        let columns = cql::columns(text, self.nodes[node].schema);
        let rows = |rows: &[Vec<Vec<u8>>]| cql::rows(text, &columns, rows, None, &metadata);
        let row = |key: i64, value: i64| row(&columns, key, value);
        let bytes = |value: i64| value.to_be_bytes().to_vec();
        match asked {
            Asked::Who => {
                let role = peer.role.as_deref().unwrap_or("nobody");
                result(rows(&[vec![role.as_bytes().to_vec()]]))
            }
            Asked::Use => {
                peer.keyspace = Some("ks".to_owned());
                let mut body = Vec::new();
                write::i32(&mut body, 3);
                write::string(&mut body, "ks");
                result(body)
            }
            Asked::ReadHere(_) if options.keyspace.or(peer.keyspace.as_deref()) != Some("ks") => {
                error(code::INVALID, &[])
            }
            Asked::Read(key) | Asked::ReadHere(key) => {
                match self.read(key, options.consistency, dice) {
                    Ok(cell) => result(rows(cell.map(|c| row(key, c.value)).as_slice())),
                    Err(served) => served,
                }
            }
            Asked::ReadCas(key) => {
                let value = self.conditional.get(&key);
                result(rows(value.map(|v| row(key, *v)).as_slice()))
            }
            Asked::Many(mut keys) => {
                // In the order of their type, whatever their tokens.
                keys.sort_unstable();
                keys.dedup();
                let mut found = Vec::new();
                for key in keys {
                    match self.read(key, options.consistency, dice) {
                        Ok(cell) => found.extend(cell.map(|c| row(key, c.value))),
                        Err(served) => return served,
                    }
                }
                result(rows(&found))
            }
            Asked::Write(key, value) => {
                let timestamp = options.timestamp.unwrap_or(now_us as i64);
                self.write(key, Cell { timestamp, value }, options.consistency, dice)
            }
            Asked::Add(_, amount) => {
                self.once.execute(amount);
                result(vec![0, 0, 0, 1])
            }
            Asked::Cas(key, value, expected) => {
                let now = self.conditional.entry(key).or_default();
                if *now != expected {
                    let row = vec![vec![0], bytes(*now)];
                    return result(cql::rows(
                        text,
                        cql::NOT_APPLIED,
                        &[row],
                        None,
                        &Metadata::Full,
                    ));
                }
                *now = value;
                self.once.execute(value);
                let row = vec![vec![1]];
                result(cql::rows(text, cql::APPLIED, &[row], None, &Metadata::Full))
            }
            Asked::Count(above, up_to) => {
                let keys = self.keys_in(above, up_to).count();
                result(rows(&[vec![bytes(keys as i64)]]))
            }
            Asked::Scan(above, up_to) => {
                self.page(text, (above, up_to), options, &metadata, &columns)
            }
            Asked::Alter => self.alter(node),
        }
    }

    /// Executes all of a batch, or nothing of it.
    fn batch(
        &mut self,
        (node, now_us): (usize, u64),
        batch: &BatchView<'_>,
        fails: bool,
        dice: &mut Dice,
    ) -> Served {
        let mut all = Vec::new();
        for child in &batch.children {
            let asked = match child {
                BatchChild::Text(text, values) => cql::read(text, values),
                BatchChild::Prepared(id, values) => {
                    let text = std::str::from_utf8(id).expect("an id is its text");
                    if !self.nodes[node].known.contains(text) {
                        let mut fields = Vec::new();
                        write::short_bytes(&mut fields, id);
                        return error(code::UNPREPARED, &fields);
                    }
                    cql::read(text, values)
                }
            };
            match asked {
                Some(asked) => all.push(asked),
                None => return error(code::INVALID, &[]),
            }
        }
        let options = &batch.options;
        if fails {
            // What is said of one of them is said of all.
            let at = dice.below(all.len() as u64) as usize;
            return self.fail(&all[at], options, now_us, dice);
        }
        let level = options.consistency;
        let timestamp = options.timestamp.unwrap_or(now_us as i64);
        for asked in &all {
            if let Asked::Write(key, _) = asked {
                let (alive, factor) = self.alive(*key);
                let required = required(level, factor);
                if alive.len() < required {
                    return unavailable(level, required, alive.len());
                }
            }
        }
        let mut served = result(vec![0, 0, 0, 1]);
        for asked in all {
            match asked {
                Asked::Write(key, value) => {
                    let of_key = self.write(key, Cell { timestamp, value }, level, dice);
                    served.later.extend(of_key.later);
                }
                Asked::Add(_, amount) => self.once.execute(amount),
                _ => return error(code::INVALID, &[]),
            }
        }
        served
    }

    fn keys_in(&self, above: i64, up_to: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        let above = match above {
            i64::MIN => std::ops::Bound::Unbounded,
            above => std::ops::Bound::Excluded(above),
        };
        let empty = matches!(above, std::ops::Bound::Excluded(above) if above >= up_to);
        let range = self
            .by_token
            .range((above, std::ops::Bound::Included(up_to)));
        let range = range.map(|(token, key)| (*token, *key));
        range.take(if empty { 0 } else { usize::MAX })
    }

    fn page(
        &self,
        text: &str,
        (mut above, up_to): (i64, i64),
        options: &Options<'_>,
        metadata: &Metadata,
        columns: &[(&'static str, u16)],
    ) -> Served {
        let mut remaining = cql::limit(text).unwrap_or(i32::MAX as u32);
        if let Some(state) = options.paging_state {
            let Ok(start) = PageStart::parse(state) else {
                return error(code::PROTOCOL, &[]);
            };
            let key = i64::from_be_bytes(start.key.try_into().expect("a key"));
            above = above.max(token_of(key));
            remaining = start.remaining;
        }
        let size = options.page_size.filter(|size| *size > 0);
        let size = size.map_or(usize::MAX, |size| size as usize);
        let size = size.min(remaining as usize);
        let mut keys = self.keys_in(above, up_to);
        let page: Vec<i64> = keys.by_ref().map(|(_, key)| key).take(size).collect();
        let more = page.len() == size && keys.next().is_some() && size < remaining as usize;
        let rows: Vec<Vec<Vec<u8>>> = page
            .iter()
            .map(|key| row(columns, *key, self.newest(*key)))
            .collect();
        let last = page.last().map(|key| key.to_be_bytes()).unwrap_or_default();
        let remaining = remaining.saturating_sub(page.len() as u32);
        let state = more.then(|| PageStart::behind_partition(&last, remaining).write());
        result(cql::rows(text, columns, &rows, state.as_deref(), metadata))
    }

    /// Adds the next column; the other nodes hear of it later.
    fn alter(&mut self, node: usize) -> Served {
        self.altered += 1;
        self.schema = (self.schema + 1).min(cql::SCHEMA_MAX);
        self.learn(node);
        result(cql::schema_changed())
    }

    fn newest(&self, key: i64) -> i64 {
        let cells = self.nodes.iter().filter_map(|node| node.cells.get(&key));
        cells.max().map_or(0, |cell| cell.value)
    }

    fn alive(&self, key: i64) -> (Vec<usize>, usize) {
        let replicas = self.replicas_of(key);
        let factor = replicas.len();
        let is_up = |node: &usize| self.nodes[*node].health == Health::Up;
        (replicas.into_iter().filter(is_up).collect(), factor)
    }

    fn read(&self, key: i64, level: Consistency, dice: &mut Dice) -> Result<Option<Cell>, Served> {
        let (mut alive, factor) = self.alive(key);
        let required = required(level, factor);
        if alive.len() < required {
            return Err(unavailable(level, required, alive.len()));
        }
        let cells = (0..required).map(|_| {
            let at = dice.below(alive.len() as u64) as usize;
            self.nodes[alive.swap_remove(at)].cells.get(&key).copied()
        });
        Ok(cells.max().flatten())
    }

    fn write(&mut self, key: i64, cell: Cell, level: Consistency, dice: &mut Dice) -> Served {
        let (mut alive, factor) = self.alive(key);
        let required = required(level, factor);
        if alive.len() < required {
            return unavailable(level, required, alive.len());
        }
        for _ in 0..required {
            let at = dice.below(alive.len() as u64) as usize;
            let node = alive.swap_remove(at);
            self.apply(Mutation { node, key, cell });
        }
        let later = alive.into_iter().map(|node| Mutation { node, key, cell });
        Served {
            later: later.collect(),
            ..result(vec![0, 0, 0, 1])
        }
    }

    /// An error in place of an answer. Some of them leave it open whether anything was done.
    fn fail(
        &mut self,
        asked: &Asked,
        options: &Options<'_>,
        now_us: u64,
        dice: &mut Dice,
    ) -> Served {
        let mut fields = Vec::new();
        let timeout = |fields: &mut Vec<u8>, required: i32| {
            write::u16(fields, options.consistency.0);
            write::i32(fields, 0);
            write::i32(fields, required);
        };
        match dice.below(4) {
            0 => error(code::OVERLOADED, &[]),
            1 => unavailable(options.consistency, 2, 1),
            2 if asked.is_write() => {
                match *asked {
                    Asked::Write(key, value) => {
                        let timestamp = options.timestamp.unwrap_or(now_us as i64);
                        let node = self.replicas_of(key)[0];
                        let cell = Cell { timestamp, value };
                        self.apply(Mutation { node, key, cell });
                    }
                    Asked::Add(_, id) if dice.below(2) == 0 => self.once.execute(id),
                    _ => {}
                }
                timeout(&mut fields, 2);
                write::string(&mut fields, "SIMPLE");
                error(code::WRITE_TIMEOUT, &fields)
            }
            2 => {
                timeout(&mut fields, 2);
                fields.push(0);
                error(code::READ_TIMEOUT, &fields)
            }
            _ => error(code::IS_BOOTSTRAPPING, &[]),
        }
    }
}

/// The cells of a row, in the order of its columns.
fn row(columns: &[(&'static str, u16)], key: i64, value: i64) -> Vec<Vec<u8>> {
    let cell = |(name, _): &(&str, u16)| {
        let cell = match *name {
            "k" => key,
            "v" => value,
            name => cql::added_value(key, name).unwrap_or(value),
        };
        cell.to_be_bytes().to_vec()
    };
    columns.iter().map(cell).collect()
}

/// What a key holds before anybody has written to it.
pub(super) fn first_value(key: i64) -> i64 {
    key * 1_000_000_000
}

fn required(level: Consistency, factor: usize) -> usize {
    match level {
        Consistency::ONE => 1,
        _ => factor / 2 + 1,
    }
}

fn unavailable(level: Consistency, required: usize, alive: usize) -> Served {
    let mut fields = Vec::new();
    write::u16(&mut fields, level.0);
    write::i32(&mut fields, required as i32);
    write::i32(&mut fields, alive as i32);
    error(code::UNAVAILABLE, &fields)
}
