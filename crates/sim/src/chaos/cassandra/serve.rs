//! What nodes are asked, and what they do.

use std::collections::BTreeMap;

use helenus_wire::{
    BatchChild, BatchView, ExecuteView, Header, Opcode, Options, PrepareView, QueryView, Version,
    code, query_flags, write,
};

use super::derived::Proposed;
use super::pages::row;
use super::rows::Changes;
use super::served::{NOT_PREPARED, Served, error, error_saying, result};
use super::{Cell, Cluster, Peer, Stage};
use crate::chaos::coverage::Kind;
use crate::chaos::cql::{self, Asked, Metadata};
use crate::chaos::ledger;
use crate::chaos::wide::{Action, Change};
use crate::dice::Dice;

/// How a statement comes to a node.
struct Arrival {
    node: usize,
    now_us: u64,
    /// The id of the columns of its result, where the proxy knows another.
    changed: Option<[u8; 16]>,
    fails: bool,
}

impl Cluster {
    /// Serves a request that a node has got over a connection of a role.
    pub(in crate::chaos) fn serve(
        &mut self,
        at: (usize, u64),
        header: &Header,
        body: &[u8],
        peer: &mut Peer,
        dice: &mut Dice,
    ) -> Served {
        let (node, now_us) = at;
        self.views.coordinate(node, now_us);
        let version = Version::from_number(header.version).unwrap_or(Version::V4);
        let opcode = Opcode::from_number(header.opcode);
        assert!(
            peer.stage == Stage::Ready,
            "the proxy sends {opcode:?} over a connection that is {:?}",
            peer.stage
        );
        let fails = dice.below(100) < self.errors_percent;
        let arrival = Arrival {
            node,
            now_us,
            changed: None,
            fails,
        };
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
                if cql::is_about_rows(text)
                    && let Err(served) = self.check_table(cql::table(text))
                {
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
                self.execute(arrival, view.text, &view.options, peer, dice)
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
                let changed = changed.map(|_| id);
                let arrival = Arrival { changed, ..arrival };
                self.execute(arrival, &text, &view.options, peer, dice)
            }
            Some(Opcode::Batch) => {
                let view = BatchView::parse(body, version).expect("a BATCH");
                let served = self.batch(node, now_us, &view, peer, fails, dice);
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
        arrival: Arrival,
        text: &str,
        options: &Options<'_>,
        peer: &mut Peer,
        dice: &mut Dice,
    ) -> Served {
        let asked = cql::read(text, &options.values);
        if let Some(asked) = &asked {
            self.compare(asked, options, peer.role.as_deref(), arrival.now_us);
        }
        let kind = asked.map(|asked| asked.kind());
        let served = self.execute_kind(arrival, text, options, peer, dice);
        Served { kind, ..served }
    }

    fn execute_kind(
        &mut self,
        arrival: Arrival,
        text: &str,
        options: &Options<'_>,
        peer: &mut Peer,
        dice: &mut Dice,
    ) -> Served {
        let Arrival { node, now_us, .. } = arrival;
        let Some(asked) = cql::read(text, &options.values) else {
            return error(code::INVALID, &[]);
        };
        if arrival.fails {
            return self.fail_all(std::slice::from_ref(&asked), options, now_us, dice);
        }
        let metadata = match (arrival.changed, options.flags & query_flags::SKIP_METADATA) {
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
            Asked::TimedWrite(..) => panic!("{text} outside of a batch"),
            Asked::Write(key, value) => {
                let timestamp = options.timestamp.unwrap_or(now_us as i64);
                self.write(key, Cell { timestamp, value }, options.consistency, dice)
            }
            Asked::Add(_, amount) => {
                self.once.execute(amount);
                result(vec![0, 0, 0, 1])
            }
            Asked::ReadList(key) => {
                let list = cql::list(self.lists.now(key));
                result(rows(&[vec![list]]))
            }
            Asked::List(change) => {
                self.change_list(change, now_us);
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
                let since = self.conditional_since.entry(key).or_default();
                since.push((now_us, value));
                self.once.execute(value);
                let row = vec![vec![1]];
                result(cql::rows(text, cql::APPLIED, &[row], None, &Metadata::Full))
            }
            Asked::Count(above, up_to) => {
                let keys = self.keys_in(above, up_to).count();
                result(rows(&[vec![bytes(keys as i64)]]))
            }
            Asked::Scan(above, up_to) | Asked::Filter(above, up_to) => {
                self.page(text, above, up_to, options, &metadata, &columns)
            }
            Asked::Alter => self.alter(node),
            Asked::Rows(of) if !of.is_in(options.keyspace.or(peer.keyspace.as_deref())) => {
                error(code::INVALID, &[])
            }
            Asked::Rows(statement) => self.rows(&statement, now_us, options, text, &metadata, dice),
        }
    }

    /// Whether a node is asked for a write as its client was.
    fn compare(&mut self, asked: &Asked, options: &Options<'_>, role: Option<&str>, now_us: u64) {
        let (value, timestamp) = match asked {
            Asked::Write(_, value) | Asked::Add(_, value) | Asked::Cas(_, value, _) => {
                (*value, options.timestamp)
            }
            Asked::List(change) => (change.id, options.timestamp),
            Asked::TimedWrite(_, value, timestamp) => (*value, Some(*timestamp)),
            _ => return,
        };
        let asked = ledger::Asked {
            role,
            timestamp,
            level: options.consistency,
        };
        self.ledger.compare(value, asked, now_us);
    }

    /// Executes all of a batch, or nothing of it.
    fn batch(
        &mut self,
        node: usize,
        now_us: u64,
        batch: &BatchView<'_>,
        peer: &Peer,
        fails: bool,
        dice: &mut Dice,
    ) -> Served {
        let keyspace = batch.options.keyspace.or(peer.keyspace.as_deref());
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
                Some(Asked::Rows(of)) if !of.is_in(keyspace) => return error(code::INVALID, &[]),
                Some(asked) => all.push(asked),
                None => return error(code::INVALID, &[]),
            }
        }
        let options = &batch.options;
        for asked in &all {
            self.compare(asked, options, peer.role.as_deref(), now_us);
        }
        if fails {
            return self.fail_all(&all, options, now_us, dice);
        }
        let level = options.consistency;
        let timestamp = options.timestamp.unwrap_or(now_us as i64);
        for asked in &all {
            if let Asked::Write(key, _) | Asked::TimedWrite(key, ..) = asked
                && let Err(served) = self.can_write(*key, level)
            {
                return served;
            }
        }
        let changes = match self.changes_by_time(&all) {
            Ok(changes) => changes,
            Err(served) => return served,
        };
        let mut all_changes = changes.values();
        if let Some(served) = all_changes.find_map(|of| self.cannot_write_rows(of, level)) {
            return served;
        }
        let mut served = result(vec![0, 0, 0, 1]);
        for (own, changes) in changes {
            let timestamp = own.unwrap_or(timestamp);
            let of_time = self.write_rows(changes, timestamp, level, dice);
            served.later.extend(of_time.later);
        }
        for asked in all {
            match asked {
                Asked::Write(key, value) => {
                    let of_key = self.write(key, Cell { timestamp, value }, level, dice);
                    served.later.extend(of_key.later);
                }
                Asked::TimedWrite(key, value, timestamp) => {
                    assert_eq!(options.timestamp, None, "two timestamps of one write");
                    let of_key = self.write(key, Cell { timestamp, value }, level, dice);
                    served.later.extend(of_key.later);
                }
                Asked::Add(_, amount) => self.once.execute(amount),
                Asked::List(change) => self.change_list(change, now_us),
                Asked::Rows(statement) => {
                    let is_uncopied = matches!(
                        statement.action,
                        Action::Uncopied | Action::Slice(_) | Action::If(..)
                    ) && statement.change(self.is_derived()).is_none();
                    self.uncopied += u64::from(is_uncopied);
                }
                _ => return error(code::INVALID, &[]),
            }
        }
        served
    }

    /// The same by the time that the statements have, if they have one.
    fn changes_by_time(&self, all: &[Asked]) -> Result<BTreeMap<Option<i64>, Changes>, Served> {
        let mut found: BTreeMap<Option<i64>, Changes> = BTreeMap::new();
        for asked in all {
            let Asked::Rows(statement) = asked else {
                continue;
            };
            let of_time = found.entry(statement.timestamp).or_default();
            for (partition, changes) in self.changes_of(std::slice::from_ref(asked))? {
                of_time.entry(partition).or_default().extend(changes);
            }
        }
        Ok(found)
    }

    /// What statements write to partitions of the tables with clustering columns.
    fn changes_of(&self, all: &[Asked]) -> Result<Changes, Served> {
        let mut changes = Changes::new();
        for asked in all {
            let Asked::Rows(statement) = asked else {
                continue;
            };
            let table = self.check_table(&statement.table)?;
            if let Some(change) = statement.change(self.is_derived()) {
                let of_partition = changes.entry(statement.partition).or_default();
                of_partition.push((table, change));
            }
        }
        Ok(changes)
    }

    /// An error in place of an answer.
    fn fail_all(
        &mut self,
        all: &[Asked],
        options: &Options<'_>,
        now_us: u64,
        dice: &mut Dice,
    ) -> Served {
        if let [Asked::Rows(statement)] = all
            && self.is_derived()
        {
            match &statement.action {
                Action::If(row, value, expected) => {
                    let proposed = Proposed {
                        change: Change::Put(*row, *value),
                        timestamp: options.timestamp.unwrap_or(now_us as i64),
                    };
                    let asked = (statement.partition, proposed, *expected);
                    return self.fail_if(asked, options.consistency, dice);
                }
                Action::Select(_) if options.consistency.is_serial() => {
                    return self.fail_serial_read(statement.partition, &all[0], options, dice);
                }
                _ => {}
            }
        }
        let first = self.changes_by_time(all).ok();
        let mut first = first.into_iter().flatten();
        match first.find(|(_, changes)| !changes.is_empty()) {
            // Of several times, the others' are not written.
            Some((own, changes)) => {
                let timestamp = own.or(options.timestamp).unwrap_or(now_us as i64);
                self.fail_rows(changes, options, timestamp, dice)
            }
            // What is said of one of them is said of all.
            None => match all.len() {
                1 => self.fail(&all[0], options, now_us, dice),
                many => {
                    let at = dice.below(many as u64) as usize;
                    let is_merged = matches!(all[at], Asked::TimedWrite(..));
                    // One of them may be wrong, which says nothing of the others.
                    if is_merged && dice.below(3) == 0 {
                        return error(code::INVALID, &[]);
                    }
                    self.fail(&all[at], options, now_us, dice)
                }
            },
        }
    }

    /// Adds the next column; the other nodes hear of it later.
    pub(in crate::chaos) fn alter(&mut self, node: usize) -> Served {
        self.altered += 1;
        self.schema = (self.schema + 1).min(cql::SCHEMA_MAX);
        self.learn(node);
        result(cql::schema_changed())
    }
}
