//! The tables of the arms: the same orders, held in different ways.

use super::orders::{CLUSTERING, COLUMNS, Orders, PARTITION};
use crate::endpoint::Endpoint;
use crate::kv::create_keyspace;
use anyhow::{Context, Result};
use scylla::client::session::Session;

/// The keyspace and the table of Helenus's catalogue of layouts.
const CATALOGUE: &str = "helenus";
const CATALOGUE_TABLE: &str = "CREATE TABLE IF NOT EXISTS helenus.layouts (\
    keyspace_name text, table_name text, layout text, version bigint static, \
    distinct_values map<text, bigint> static, rows bigint static, physical text, \
    clustering list<text>, state text, created timestamp, \
    PRIMARY KEY ((keyspace_name, table_name), layout))";

/// What keeps the further copies of the orders, if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A single table.
    Plain,
    /// A single table with an SAI index for each of the paper's columns.
    Indexed,
    /// Materialized views.
    Views,
    /// The client, which writes all tables in an unlogged batch.
    HandCopied,
    /// Helenus: the client knows the first table only.
    Layouts,
}

/// A clustering order, by places in [`CLUSTERING`].
pub type ClusteringOrder = Vec<usize>;

/// One way of holding all orders, in a keyspace of its own.
#[derive(Clone, Debug)]
pub struct Copies {
    pub keyspace: String,
    pub form: Form,
    /// The clustering order of each copy; the first is the table itself.
    pub orders: Vec<ClusteringOrder>,
    /// The copy that the client asks for each kind of query.
    pub reads: [usize; 2],
}

impl Copies {
    /// The full name of a copy.
    pub(super) fn table(&self, copy: usize) -> String {
        format!("{}.{}", self.keyspace, self.name(copy))
    }

    fn name(&self, copy: usize) -> String {
        match (copy, self.form) {
            (0, _) => "orders".into(),
            (_, Form::Layouts) => format!("orders__layout_{}", layout_name(copy)),
            _ => format!("orders_{}", layout_name(copy)),
        }
    }

    /// The tables that the client writes.
    pub(super) fn written(&self) -> Vec<String> {
        let count = match self.form {
            Form::HandCopied => self.orders.len(),
            _ => 1,
        };
        (0..count).map(|copy| self.table(copy)).collect()
    }

    pub(super) fn all(&self) -> Vec<String> {
        (0..self.orders.len())
            .map(|copy| self.table(copy))
            .collect()
    }

    /// What creates the tables, indexes and views, in this order.
    fn statements(&self) -> Vec<String> {
        let columns: Vec<String> = COLUMNS.map(|(name, kind)| format!("{name} {kind}")).into();
        let columns = columns.join(", ");
        let not_null: Vec<String> = [PARTITION]
            .iter()
            .chain(&CLUSTERING)
            .map(|column| format!("{column} IS NOT NULL"))
            .collect();
        let not_null = not_null.join(" AND ");
        let mut statements = Vec::new();
        for (copy, table) in self.all().into_iter().enumerate() {
            let key = primary_key(&self.orders[copy]);
            statements.push(match (copy, self.form) {
                (1.., Form::Views) => format!(
                    "CREATE MATERIALIZED VIEW {table} AS SELECT * FROM {} WHERE {not_null} {key}",
                    self.table(0)
                ),
                _ => format!("CREATE TABLE {table} ({columns}, {key})"),
            });
        }
        if self.form == Form::Indexed {
            let table = self.table(0);
            let columns = CLUSTERING[..3].iter();
            statements
                .extend(columns.map(|c| format!("CREATE INDEX ON {table} ({c}) USING 'sai'")));
        }
        statements
    }

    /// What tells Helenus of its layouts: readable at once, because the tables are still empty.
    fn catalogue_rows(&self, orders: &Orders) -> Vec<String> {
        let distinct = CLUSTERING.iter().zip(orders.distinct());
        let distinct: Vec<String> = distinct
            .map(|(column, count)| format!("'{column}': {count}"))
            .collect();
        let row = |copy: usize| {
            let columns = self.orders[copy].iter().map(|&at| CLUSTERING[at]);
            let columns: Vec<String> = columns.map(|name| format!("'{name}'")).collect();
            format!(
                "INSERT INTO helenus.layouts (keyspace_name, table_name, layout, version, \
                 distinct_values, rows, physical, clustering, state, created) VALUES \
                 ('{}', '{}', '{}', 1, {{{}}}, {}, '{}', [{}], 'ready', toTimestamp(now()))",
                self.keyspace,
                self.name(0),
                layout_name(copy),
                distinct.join(", "),
                orders.rows.len(),
                self.name(copy),
                columns.join(", ")
            )
        };
        (1..self.orders.len()).map(row).collect()
    }
}

/// Creates everything anew, in the order of `all`. Proxies must be started afterwards: then they know the
/// layouts before the first row is written.
pub async fn create(
    all: &[Copies],
    orders: &Orders,
    endpoint: &Endpoint,
    replication: usize,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let session = endpoint.connect().await?;
    if all.iter().any(|copies| copies.form == Form::Layouts) {
        create_keyspace(&session, CATALOGUE, replication).await?;
        run(&session, CATALOGUE_TABLE).await?;
    }
    for copies in all {
        say(format!("creating {}", copies.keyspace));
        run(
            &session,
            &format!("DROP KEYSPACE IF EXISTS {}", copies.keyspace),
        )
        .await?;
        create_keyspace(&session, &copies.keyspace, replication).await?;
        let mut statements = copies.statements();
        if copies.form == Form::Layouts {
            statements.extend(copies.catalogue_rows(orders));
        }
        for statement in statements {
            run(&session, &statement).await?;
        }
    }
    Ok(())
}

pub(super) async fn run(session: &Session, statement: &str) -> Result<()> {
    let done = session.query_unpaged(statement, ()).await;
    done.with_context(|| format!("cannot run: {statement}"))?;
    Ok(())
}

/// Such as `PRIMARY KEY ((branch), clerk, custkey, orderdate, orderkey)`.
pub fn primary_key(order: &[usize]) -> String {
    let columns: Vec<&str> = order.iter().map(|&column| CLUSTERING[column]).collect();
    format!("PRIMARY KEY (({PARTITION}), {})", columns.join(", "))
}

/// a, b, c …
fn layout_name(copy: usize) -> char {
    char::from(b'a' + (copy as u8).saturating_sub(1) % 26)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(form: Form) -> Copies {
        Copies {
            keyspace: "k".into(),
            form,
            orders: vec![vec![0, 1, 2, 3], vec![2, 1, 0, 3]],
            reads: [1, 0],
        }
    }

    #[test]
    fn each_form_has_its_tables() {
        let texts = |form| copies(form).statements();
        let own = "PRIMARY KEY ((branch), custkey, orderdate, clerk, orderkey)";
        let other = "PRIMARY KEY ((branch), clerk, orderdate, custkey, orderkey)";
        let hand_copied = texts(Form::HandCopied);
        assert_eq!(hand_copied.len(), 2);
        assert!(hand_copied[0].starts_with("CREATE TABLE k.orders (branch int, "));
        assert!(hand_copied[0].contains(own) && hand_copied[1].contains(other));
        let views = texts(Form::Views);
        assert!(
            views[1].starts_with("CREATE MATERIALIZED VIEW k.orders_a AS SELECT * FROM k.orders")
        );
        assert!(views[1].contains("orderkey IS NOT NULL") && views[1].ends_with(other));
        assert!(texts(Form::Layouts)[1].starts_with("CREATE TABLE k.orders__layout_a ("));
        let indexed = texts(Form::Indexed);
        assert_eq!(indexed[2..].len(), 3);
        assert!(indexed[4].contains("ON k.orders (clerk) USING 'sai'"));
    }

    #[test]
    fn only_hand_copied_tables_are_all_written_by_the_client() {
        assert_eq!(
            copies(Form::HandCopied).written(),
            ["k.orders", "k.orders_a"]
        );
        for form in [Form::Plain, Form::Indexed, Form::Views, Form::Layouts] {
            assert_eq!(copies(form).written(), ["k.orders"]);
        }
    }

    #[test]
    fn the_catalogue_knows_every_layout_but_not_the_table() {
        let orders = Orders::generate(0.001, 2).unwrap();
        let rows = copies(Form::Layouts).catalogue_rows(&orders);
        assert_eq!(rows.len(), 1);
        for part in [
            "'k', 'orders', 'a', 1",
            "'orderkey': 1500",
            "'orders__layout_a', ['clerk', 'orderdate', 'custkey', 'orderkey'], 'ready'",
        ] {
            assert!(rows[0].contains(part), "{part} is missing in {}", rows[0]);
        }
    }
}
