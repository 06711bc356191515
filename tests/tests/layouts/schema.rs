//! Random tables with layouts.

use std::cell::Cell;

use helenus_cql::quote_identifier;
use helenus_layout::Layout;
use helenus_layout::plan::{
    ClusteringColumn, Column, Copy, LogicalTable, may_hold_time, partition_name,
};
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
            physical: format!("{name}__layout_{at}"),
            layout,
            readable: true,
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

    /// The same as if its rows had been counted: few in a partition, so that most answers may be sorted, even
    /// with a LIMIT.
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
        texts.extend(copies.map(|copy| self.create_as(keyspace, &copy.physical, &copy.layout)));
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

    /// Puts the layouts into the catalogue, as complete.
    pub(crate) fn register(&self) -> Vec<String> {
        let table = &self.logical;
        let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
        let distinct = table.distinct.iter();
        let distinct: Vec<String> = distinct
            .map(|(name, count)| format!("{}: {count}", text(name)))
            .collect();
        let rows = table
            .rows
            .map_or("null".to_owned(), |rows| rows.to_string());
        let row = |(at, copy): (usize, &Copy)| {
            let names = copy.layout.columns();
            let names = names.map(|at| text(&table.clustering[at].name));
            format!(
                "INSERT INTO helenus.layouts (keyspace_name, table_name, layout, version, physical, \
                 clustering, state, distinct_values, rows) VALUES \
                 ('{}', '{}', 'l{at}', 1, '{}', [{}], 'ready', {{{}}}, {rows})",
                table.keyspace,
                table.name,
                copy.physical,
                names.collect::<Vec<_>>().join(", "),
                distinct.join(", ")
            )
        };
        table.copies.iter().enumerate().map(row).collect()
    }
}

/// Where proxies find the layouts.
pub(crate) const CATALOGUE: [&str; 2] = [
    "CREATE KEYSPACE helenus WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE helenus.layouts (keyspace_name text, table_name text, layout text, \
     version bigint static, distinct_values map<text, bigint> static, rows bigint static, \
     physical text, clustering list<text>, state text, created timestamp, \
     PRIMARY KEY ((keyspace_name, table_name), layout))",
];
