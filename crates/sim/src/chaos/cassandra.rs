//! The modelled cluster: coordinators, and replicas whose cells have timestamps.
//!
//! A write reaches as many replicas as its level asks for at once, and the others later or, if they
//! are down, never. A read asks as many as its level asks for, and takes the newest cell. Counters and
//! conditional writes are executed as a whole, in the order in which they come.

mod conditional;
mod derived;
mod pages;
mod replicas;
mod rows;
mod serve;
mod served;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub(super) use self::derived::{Derived, live};
pub(super) use self::rows::{Table, tables};
pub(super) use self::served::{Served, asked_of, dropped, error_saying, kind_of, result, said};
pub(super) use self::views::Owners;
use self::views::Views;
use super::checks::{Once, Span};
use super::cql;
use super::ledger::Ledger;
use super::lists::{Change, Lists};
use super::wide::Partition;
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
    /// The view of the ring that it has come to.
    view: usize,
    /// It takes no clients: it is joining, or has left.
    pub closed: bool,
    /// It may join, and has never done so.
    pub is_new: bool,
    /// It never comes back.
    pub is_lost: bool,
    /// Texts that it has prepared.
    known: BTreeSet<String>,
    /// The schema as far as it has heard.
    pub schema: usize,
    cells: BTreeMap<i64, Cell>,
    /// Partitions of the tables with clustering columns, by number of the table.
    rows: BTreeMap<(usize, i64), Partition>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    timestamp: i64,
    value: i64,
}

pub(super) struct Cluster {
    pub nodes: Vec<Node>,
    views: Views,
    /// Keys by token.
    by_token: BTreeMap<i64, i64>,
    pub conditional: BTreeMap<i64, i64>,
    /// What each of these keys has had, and since when.
    conditional_since: BTreeMap<i64, Vec<(u64, i64)>>,
    /// All that was ever written to any replica.
    pub applied: BTreeSet<i64>,
    pub lists: Lists,
    pub once: Once,
    /// What clients have asked to write.
    pub ledger: Ledger,
    /// In a hundred requests, those that are answered with an error.
    pub errors_percent: u64,
    /// Columns that were added, on any node.
    pub schema: usize,
    /// Schema changes that were carried out, whatever came of them.
    pub altered: u64,
    /// The table with clustering columns, and its layouts.
    pub tables: Vec<Table>,
    /// Writes of several rows that were ever applied to any replica: partition and timestamp.
    pub updated: BTreeSet<(i64, i64)>,
    /// Statements that were executed and cannot be copied to layouts.
    pub uncopied: u64,
    /// If its layouts are in a keyspace of their own.
    pub derived: Option<Derived>,
    /// Reads of layouts, and writes of a table together with them.
    pub layout_reads: u64,
    pub copied: u64,
}

/// How far a connection to a node has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// STARTUP is to come.
    #[default]
    Fresh,
    /// A token is to come.
    Asked,
    Ready,
    /// The node has said that it belongs to another cluster.
    Foreign,
}

/// What a node knows of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    pub stage: Stage,
    pub role: Option<String>,
    pub keyspace: Option<String>,
}

/// What is written to one partition of a replica, as a whole.
#[derive(Clone, Debug)]
pub(super) struct Mutation {
    pub node: usize,
    written: Written,
}

#[derive(Clone, Debug)]
enum Written {
    Cell(i64, Cell),
    Rows(Rc<rows::Update>),
}

fn token_of(key: i64) -> i64 {
    helenus_policy::token::murmur3_token(&key.to_be_bytes())
}

impl Cluster {
    /// `newcomers`: nodes that may join later.
    pub(super) fn new(owners: Owners, newcomers: usize, keys: i64) -> Cluster {
        let nodes = owners.members.len();
        let node = |at: usize| Node {
            health: match at < nodes {
                true => Health::Up,
                false => Health::Down,
            },
            view: 0,
            closed: at >= nodes,
            is_new: at >= nodes,
            is_lost: false,
            known: BTreeSet::new(),
            schema: 0,
            cells: BTreeMap::new(),
            rows: BTreeMap::new(),
        };
        let mut cluster = Cluster {
            nodes: (0..nodes + newcomers).map(node).collect(),
            views: Views::new(owners),
            by_token: (0..keys).map(|key| (token_of(key), key)).collect(),
            conditional: (0..keys).map(|key| (key, 0)).collect(),
            conditional_since: (0..keys).map(|key| (key, vec![(0, 0)])).collect(),
            applied: BTreeSet::new(),
            lists: Lists::new(),
            once: Once::default(),
            ledger: Ledger::default(),
            errors_percent: 0,
            schema: 0,
            altered: 0,
            tables: Vec::new(),
            updated: BTreeSet::new(),
            uncopied: 0,
            derived: None,
            layout_reads: 0,
            copied: 0,
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

    pub(super) fn apply(&mut self, mutation: Mutation) {
        let node = &mut self.nodes[mutation.node];
        if node.health == Health::Down {
            return;
        }
        match mutation.written {
            Written::Cell(key, new) => {
                let cell = node.cells.entry(key).or_default();
                *cell = new.max(*cell);
                self.applied.insert(new.value);
            }
            Written::Rows(update) => {
                update.apply(&mut node.rows);
                if update.is_of_table() {
                    self.updated.insert(update.id());
                }
            }
        }
    }

    /// A node starts anew, without what it had prepared.
    pub(super) fn restart(&mut self, node: usize) {
        let newest = self.newest_view();
        self.hear_of(node, newest);
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

    /// Whether a key that is written on conditions had a value at any time of a span.
    pub(super) fn had_conditional(&self, key: i64, value: i64, span: Span) -> bool {
        let all = self.conditional_since.get(&key).map_or(&[][..], |all| all);
        let ends = all.iter().skip(1).map(|(since_us, _)| *since_us);
        let ends = ends.chain([u64::MAX]);
        let mut spans = all.iter().zip(ends);
        spans.any(|((since_us, had), end_us)| {
            *had == value && *since_us <= span.ended_us && end_us >= span.begun_us
        })
    }

    /// Carries out a change of a list.
    fn change_list(&mut self, change: Change, now_us: u64) {
        self.lists.execute(change, now_us);
        self.once.execute(change.id);
    }

    /// How many values such a key has had.
    pub(super) fn conditional_values(&self, key: i64) -> usize {
        self.conditional_since.get(&key).map_or(0, Vec::len)
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
}

/// What a key holds before anybody has written to it.
pub(super) fn first_value(key: i64) -> i64 {
    key * 1_000_000_000
}
