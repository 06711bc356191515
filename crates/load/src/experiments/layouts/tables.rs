//! The tables of the arms: the same orders, held in different ways.

use super::orders::{CLUSTERING, COLUMNS, Orders, PARTITION};
use crate::client::endpoint::Endpoint;
use anyhow::{Context, Result, bail};
use helenus_catalogue::change::{Change, batch};
use helenus_catalogue::{Feature, Flag, KEYSPACE, Layout, LayoutState, TableKey, stored};
use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::Row;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// Compare-and-sets of the catalogue that others get ahead of.
const ATTEMPTS: u32 = 5;

/// The keeper of the further copies of the orders, if there are any.
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
    /// The layouts have keyspaces of their own, with one replica each.
    pub derived: Option<Derived>,
}

/// Where a table and its derived layouts are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived {
    /// All nodes hold them, with so many replicas of the table.
    Together(usize),
    /// A data centre each, [`data_center`], with one replica of the table.
    Apart,
}

fn simple(replicas: usize) -> String {
    format!("{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")
}

/// A replica in each of the data centres of some copies.
fn in_data_centers(copies: Range<usize>) -> String {
    let replicas = copies.map(|copy| format!(", '{}': 1", data_center(copy)));
    let replicas: String = replicas.collect();
    format!("{{'class': 'NetworkTopologyStrategy'{replicas}}}")
}

/// The data centre of a copy if copies are held apart.
pub fn data_center(copy: usize) -> String {
    format!("dc{}", copy + 1)
}

impl Copies {
    /// The full name of a copy.
    pub(super) fn table(&self, copy: usize) -> String {
        format!("{}.{}", self.keyspace_of(copy), self.name(copy))
    }

    fn keyspace_of(&self, copy: usize) -> String {
        match (self.derived, copy) {
            (None, _) | (_, 0) => self.keyspace.clone(),
            (Some(Derived::Together(_)), _) => format!("{}__layouts", self.keyspace),
            (Some(Derived::Apart), _) => {
                format!("{}__layouts_{}", self.keyspace, layout_name(copy))
            }
        }
    }

    pub(super) fn keyspaces(&self) -> Vec<String> {
        let mut names: Vec<_> = (0..self.orders.len())
            .map(|of| self.keyspace_of(of))
            .collect();
        names.dedup();
        names
    }

    /// The replication of each keyspace; `own`: that of tables that say nothing else.
    fn replication(&self, own: &str) -> Vec<String> {
        let keyspaces = self.keyspaces().into_iter().enumerate();
        let of_keyspace = keyspaces.map(|(at, _)| match (self.derived, at) {
            (None, _) => own.to_owned(),
            (Some(Derived::Together(of_table)), 0) => simple(of_table),
            (Some(Derived::Together(_)), _) => simple(1),
            (Some(Derived::Apart), copy) => in_data_centers(copy..copy + 1),
        });
        of_keyspace.collect()
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

    /// CQL that creates the tables, indexes and views, in this order.
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

    /// Entries of the layouts in Helenus's catalogue: readable at once, because the tables are still empty.
    fn layouts(&self) -> Vec<Layout> {
        let layout = |copy: usize| {
            let columns = self.orders[copy].iter().map(|&at| CLUSTERING[at]);
            Layout {
                name: layout_name(copy).into(),
                keyspace: self.derived.map(|_| self.keyspace_of(copy)),
                physical: self.name(copy),
                clustering: columns.map(str::to_owned).collect(),
                state: LayoutState::Ready.name().to_owned(),
                created: 1,
            }
        };
        (1..self.orders.len()).map(layout).collect()
    }

    /// Puts the layouts into the catalogue, and has the table flagged.
    async fn announce(&self, orders: &Orders, session: &Session) -> Result<()> {
        let distinct = CLUSTERING.iter().zip(orders.distinct());
        let distinct: Vec<(String, u64)> = distinct
            .map(|(column, count)| ((*column).to_owned(), count))
            .collect();
        let flag = Flag {
            feature: Feature::Layouts,
            table: TableKey::new(&self.keyspace, &self.name(0)),
            number: SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64,
        };
        let layouts = self.layouts();
        let mut changes = vec![Change::Begin(flag.feature, flag.number)];
        changes.extend(layouts.iter().map(Change::PutLayout));
        changes.push(Change::Count {
            rows: orders.rows.len() as u64,
            distinct: &distinct,
        });
        for _ in 0..ATTEMPTS {
            let version = version(session).await?;
            let new = flag.number.max(version + 1);
            let batch = batch(version, new, &flag.table, &changes);
            if is_applied(session, &batch).await? {
                return run(session, &flag.create()).await;
            }
        }
        bail!("others change the catalogue all the time")
    }
}

/// The version of the catalogue.
async fn version(session: &Session) -> Result<i64> {
    let mut select = Statement::new(stored::SELECT);
    select.set_consistency(Consistency::Serial);
    let answer = session.query_unpaged(select, ()).await?;
    let row = answer.into_rows_result()?.maybe_first_row::<Row>()?;
    let version = row.and_then(|row| row.columns.into_iter().next().flatten());
    Ok(version.and_then(|of| of.as_bigint()).unwrap_or(0))
}

async fn is_applied(session: &Session, batch: &str) -> Result<bool> {
    let answer = session.query_unpaged(batch, ()).await?;
    let row = answer.into_rows_result()?.first_row::<Row>()?;
    let applied = row.columns.into_iter().next().flatten();
    Ok(applied.and_then(|of| of.as_boolean()) == Some(true))
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
    let is_apart = |copies: &Copies| copies.derived == Some(Derived::Apart);
    let own = match all.iter().any(is_apart) {
        true => in_data_centers(0..replication),
        false => simple(replication),
    };
    if all.iter().any(|copies| copies.form == Form::Layouts) {
        let text = format!("CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {own}");
        run(&session, &text).await?;
        run(&session, stored::CREATE).await?;
        run(&session, stored::CREATE_DOUBTS).await?;
    }
    for copies in all {
        say(format!("creating {}", copies.keyspace));
        let replication = copies.replication(&own);
        for (keyspace, replication) in copies.keyspaces().iter().zip(replication) {
            run(&session, &format!("DROP KEYSPACE IF EXISTS {keyspace}")).await?;
            let create = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}");
            run(&session, &create).await?;
        }
        for statement in copies.statements() {
            run(&session, &statement).await?;
        }
        if copies.form == Form::Layouts {
            copies.announce(orders, &session).await?;
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
            derived: None,
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
    fn derived_layouts_have_keyspaces_of_their_own() {
        let keyspaces = |derived| {
            let copies = Copies {
                orders: vec![vec![0, 1, 2, 3], vec![2, 1, 0, 3], vec![1, 0, 2, 3]],
                derived,
                ..copies(Form::Layouts)
            };
            let replication = copies.replication("as others").into_iter();
            let replication = replication.map(|map| map.replace(['\'', '{', '}'], ""));
            let keyspaces = copies.keyspaces().into_iter().zip(replication);
            let told = keyspaces.map(|(name, replication)| format!("{name} {replication}"));
            (told.collect::<Vec<_>>(), copies.all())
        };
        let (own, tables) = keyspaces(None);
        assert_eq!(own, ["k as others"]);
        assert_eq!(tables[2], "k.orders__layout_b");
        let (together, tables) = keyspaces(Some(Derived::Together(2)));
        assert_eq!(
            together,
            [
                "k class: SimpleStrategy, replication_factor: 2",
                "k__layouts class: SimpleStrategy, replication_factor: 1",
            ]
        );
        assert_eq!(tables[2], "k__layouts.orders__layout_b");
        let (apart, tables) = keyspaces(Some(Derived::Apart));
        assert_eq!(
            apart,
            [
                "k class: NetworkTopologyStrategy, dc1: 1",
                "k__layouts_a class: NetworkTopologyStrategy, dc2: 1",
                "k__layouts_b class: NetworkTopologyStrategy, dc3: 1",
            ]
        );
        assert_eq!(tables[2], "k__layouts_b.orders__layout_b");
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
        let layouts = copies(Form::Layouts).layouts();
        assert_eq!(layouts.len(), 1);
        let layout = &layouts[0];
        assert_eq!(
            (&*layout.name, &*layout.physical),
            ("a", "orders__layout_a")
        );
        assert_eq!(
            layout.clustering,
            ["clerk", "orderdate", "custkey", "orderkey"]
        );
        assert_eq!(layout.state(), Some(LayoutState::Ready));
    }
}
