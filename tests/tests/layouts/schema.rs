//! Random tables with layouts.

use std::cell::Cell;

use helenus_catalogue::change::Change;
use helenus_catalogue::{self as catalogue, Feature, Flag, LayoutState, TableKey};
use helenus_cql::quote_identifier;
use helenus_layout::Layout;
use helenus_layout::plan::{
    ClusteringColumn, Column, Copy, LogicalTable, may_hold_time, partition_name,
};
use helenus_tests::catalogue::{Run, change};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::values::Type;

#[derive(Debug)]
pub(crate) struct TestTable {
    pub logical: LogicalTable,
    pub partition_key: Vec<(String, Type)>,
    pub clustering: Vec<(String, Type)>,
    /// It has the columns of [`ADDED`] by now.
    pub is_altered: Cell<bool>,
}

/// Columns that some tables get while they are in use: a regular and a static one.
pub(crate) const ADDED: [(&str, Type); 2] = [("more", Type::Int), ("Added", Type::Text)];

/// The columns outside of the key: name, type, static.
const OTHERS: [(&str, &str, bool); 10] = [
    ("v", "int", false),
    ("w", "double", false),
    ("X", "text", false),
    ("dec", "decimal", false),
    ("l", "list<int>", false),
    ("st", "set<int>", false),
    ("m", "map<int, text>", false),
    ("fz", "frozen<list<int>>", false),
    ("s", "int", true),
    ("a static", "text", true),
];

/// As a proxy finds it out.
fn may_hold_times(partition_key: &[(String, Type)], clustering: &[(String, Type)]) -> bool {
    let keys = partition_key.iter().chain(clustering);
    let mut types = keys
        .map(|(_, of)| of.name())
        .chain(OTHERS.map(|(_, of, _)| of));
    types.any(may_hold_time)
}

impl TestTable {
    pub(crate) fn random(rng: &mut ChaCha8Rng, keyspace: &str, name: &str) -> TestTable {
        let mut partition_key = vec![("k".to_owned(), Type::Int)];
        if rng.random_bool(0.3) {
            partition_key.push(("K 2".to_owned(), Type::Boolean));
        }
        let names = ["c", "Up", "b", "a\"b"];
        let count = rng.random_range(2..=names.len());
        let mut typed = |name: &&str| ((*name).to_owned(), *Type::ALL.choose(rng).expect("types"));
        let clustering: Vec<(String, Type)> = names[..count].iter().map(&mut typed).collect();
        let columns = clustering.iter().map(|(name, of)| ClusteringColumn {
            name: name.clone(),
            cql_type: of.name().to_owned(),
            descending: rng.random_bool(0.5),
        });
        let columns: Vec<ClusteringColumn> = columns.collect();
        let others = OTHERS.map(|(name, cql_type, is_static)| Column {
            name: name.to_owned(),
            cql_type: cql_type.to_owned(),
            is_static,
        });
        let own: Vec<usize> = (0..clustering.len()).collect();
        let mut orders: Vec<Layout> = Layout::all(own.len(), &own);
        orders.remove(0);
        orders.shuffle(rng);
        let copy = |(at, layout): (usize, Layout)| Copy {
            keyspace: None,
            physical: format!("{name}__layout_{at}"),
            layout,
            readable: true,
            further: Vec::new(),
            outlived: Vec::new(),
        };
        let copies = orders.into_iter().take(4).enumerate().map(copy).collect();
        TestTable {
            logical: LogicalTable {
                keyspace: keyspace.to_owned(),
                name: name.to_owned(),
                partition_key: partition_key.iter().map(|(name, _)| name.clone()).collect(),
                clustering: columns,
                columns: others.to_vec(),
                indexed: false,
                may_hold_times: may_hold_times(&partition_key, &clustering),
                copies,
                distinct: Default::default(),
                rows: None,
            },
            partition_key,
            clustering,
            is_altered: Cell::new(false),
        }
    }

    /// The columns that it has got since it was created.
    pub(crate) fn added(&self) -> &'static [(&'static str, Type)] {
        if self.is_altered.get() { &ADDED } else { &[] }
    }

    /// Gives it these columns, in this keyspace.
    pub(crate) fn alter(&self, keyspace: &str) -> String {
        let [(regular, of), (fixed, of_fixed)] =
            ADDED.map(|(name, of)| (quote_identifier(name), of.name()));
        let name = &self.logical.name;
        format!("ALTER TABLE {keyspace}.{name} ADD ({regular} {of}, {fixed} {of_fixed} static)")
    }

    /// Its layouts are in this keyspace.
    pub(crate) fn derived(mut self, keyspace: &str) -> TestTable {
        for copy in &mut self.logical.copies {
            copy.keyspace = Some(keyspace.to_owned());
        }
        self
    }

    /// The table as if its rows had been counted: few in a partition, so that most answers may be sorted, even with
    /// a LIMIT.
    pub(crate) fn counted(mut self) -> TestTable {
        let table = &mut self.logical;
        let key = table.partition_key.iter().map(String::as_str);
        let partitions = (partition_name(key), 4.0);
        let columns = table.clustering.iter().map(|c| (c.name.clone(), 6.0));
        table.distinct = columns.chain([partitions]).collect();
        table.rows = Some(100.0);
        self
    }

    /// Creates the table alone, in this keyspace.
    pub(crate) fn create_in(&self, keyspace: &str) -> String {
        let own = Layout::own(self.clustering.len());
        self.create_as(keyspace, &self.logical.name, &own)
    }

    /// Creates the table and its layouts.
    pub(crate) fn create(&self) -> Vec<String> {
        let keyspace = self.logical.keyspace.as_str();
        let mut texts = vec![self.create_in(keyspace)];
        let copies = self.logical.copies.iter();
        texts.extend(copies.map(|copy| {
            let keyspace = self.logical.keyspace_of(copy);
            self.create_as(keyspace, &copy.physical, &copy.layout)
        }));
        texts
    }

    fn create_as(&self, keyspace: &str, name: &str, layout: &Layout) -> String {
        let keys = self.partition_key.iter().chain(&self.clustering);
        let keys = keys.map(|(name, of)| (name.as_str(), of.name(), ""));
        let others =
            OTHERS.map(|(name, of, is_static)| (name, of, if is_static { " static" } else { "" }));
        let columns = keys.chain(others);
        let columns =
            columns.map(|(name, of, kind)| format!("{} {of}{kind}", quote_identifier(name)));
        let columns: Vec<String> = columns.collect();
        let names = |columns: Vec<&str>| {
            let quoted: Vec<_> = columns.into_iter().map(quote_identifier).collect();
            quoted.join(", ")
        };
        let partition = names(
            self.partition_key
                .iter()
                .map(|(name, _)| name.as_str())
                .collect(),
        );
        let sorted: Vec<&ClusteringColumn> = layout
            .columns()
            .map(|at| &self.logical.clustering[at])
            .collect();
        let clustering = names(sorted.iter().map(|c| c.name.as_str()).collect());
        let orders: Vec<String> = sorted
            .iter()
            .map(|c| {
                let direction = if c.descending { "DESC" } else { "ASC" };
                format!("{} {direction}", quote_identifier(&c.name))
            })
            .collect();
        format!(
            "CREATE TABLE {keyspace}.{name} ({}, PRIMARY KEY (({partition}), {clustering})) \
             WITH CLUSTERING ORDER BY ({})",
            columns.join(", "),
            orders.join(", ")
        )
    }

    /// Puts the layouts into the catalogue, as complete, and flags the table.
    pub(crate) fn register(&self, mut run: impl Run) {
        let table = &self.logical;
        let layout = |(at, copy): (usize, &Copy)| {
            let columns = copy.layout.columns();
            catalogue::Layout {
                name: format!("l{at}"),
                keyspace: copy.keyspace.clone(),
                physical: copy.physical.clone(),
                clustering: columns
                    .map(|at| table.clustering[at].name.clone())
                    .collect(),
                state: LayoutState::Ready.name().to_owned(),
                created: 1,
            }
        };
        let layouts: Vec<_> = table.copies.iter().enumerate().map(layout).collect();
        let flag = Flag {
            feature: Feature::Layouts,
            table: TableKey::new(&table.keyspace, &table.name),
            number: 1,
        };
        let counts = table.distinct.iter();
        let distinct: Vec<(String, u64)> =
            counts.map(|(name, n)| (name.clone(), *n as u64)).collect();
        let mut changes = vec![Change::Begin(flag.feature, flag.number)];
        changes.extend(layouts.iter().map(Change::PutLayout));
        changes.extend(table.rows.map(|rows| Change::Count {
            rows: rows as u64,
            distinct: &distinct,
        }));
        change(&mut run, &flag.table, &changes);
        run(&flag.create());
    }
}

/// Where proxies find the layouts.
pub(crate) const CATALOGUE: [&str; 2] = [
    "CREATE KEYSPACE helenus WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}",
    catalogue::stored::CREATE,
];
