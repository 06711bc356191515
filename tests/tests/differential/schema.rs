//! The tables that the generator believes to exist, and the statements that make them.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::values::{KEY_TYPES, Ty};

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub name: String,
    pub partition: Vec<Column>,
    pub clustering: Vec<Column>,
    pub regular: Vec<Column>,
    /// Conditional updates bring timestamps of the nodes, so WRITETIME is not asked there.
    pub lwt: bool,
    pub counter: bool,
    /// Always written at ALL, so that it can be read at ONE.
    pub of_one: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub ty: Ty,
    pub is_static: bool,
}

fn column(name: String, ty: Ty) -> Column {
    Column {
        name,
        ty,
        is_static: false,
    }
}

impl Table {
    /// A table of a random shape and the statement that makes it.
    pub(crate) fn random(name: String, rng: &mut ChaCha8Rng, vectors: bool) -> (Table, String) {
        let key = |prefix: &str, count: usize, rng: &mut ChaCha8Rng| -> Vec<Column> {
            (0..count)
                .map(|i| {
                    let ty = Ty::Native(KEY_TYPES.choose(rng).unwrap());
                    column(format!("{prefix}{i}"), ty)
                })
                .collect()
        };
        let partition_len = [1, 1, 1, 2, 3].choose(rng).copied().unwrap();
        let partition = key("p", partition_len, rng);
        let clustering_len = rng.random_range(0..4);
        let clustering = key("c", clustering_len, rng);
        let counter = rng.random_bool(0.12);
        let mut regular = Vec::new();
        for i in 0..rng.random_range(1..7) {
            let mut ty = match counter {
                true => Ty::Counter,
                false => Ty::random(rng),
            };
            if !vectors && matches!(ty, Ty::Vector(_)) {
                ty = Ty::Native("int");
            }
            regular.push(Column {
                is_static: !clustering.is_empty() && i > 0 && rng.random_bool(0.2),
                ..column(format!("r{i}"), ty)
            });
        }
        if rng.random_bool(0.2) {
            regular[0].name = "\"Mixed Case\"".to_owned();
        }
        let table = Table {
            name,
            partition,
            clustering,
            regular,
            lwt: !counter && rng.random_bool(0.3),
            counter,
            of_one: rng.random_bool(0.3),
        };
        let text = table.create(rng);
        (table, text)
    }

    fn create(&self, rng: &mut ChaCha8Rng) -> String {
        let mut columns = Vec::new();
        for c in self.columns() {
            let suffix = if c.is_static { " static" } else { "" };
            columns.push(format!("{} {}{suffix}", c.name, c.ty.cql()));
        }
        let names = |list: &[Column]| -> String {
            let names: Vec<&str> = list.iter().map(|c| c.name.as_str()).collect();
            names.join(", ")
        };
        let mut key = format!("({})", names(&self.partition));
        let mut with = format!(" WITH comment = 'table {}'", self.name);
        if !self.clustering.is_empty() {
            key = format!("{key}, {}", names(&self.clustering));
            let orders: Vec<String> = self
                .clustering
                .iter()
                .map(|c| {
                    let order = ["ASC", "DESC"].choose(rng).unwrap();
                    format!("{} {order}", c.name)
                })
                .collect();
            with.push_str(&format!(" AND CLUSTERING ORDER BY ({})", orders.join(", ")));
        }
        let columns = columns.join(", ");
        let name = &self.name;
        format!("CREATE TABLE {{ks}}.{name} ({columns}, PRIMARY KEY ({key})){with}")
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.partition
            .iter()
            .chain(&self.clustering)
            .chain(&self.regular)
    }
}
