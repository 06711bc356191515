//! The copies of a group of ranges, each on a connection to the node that holds it, and the table itself on one to any
//! node: reading and writing their rows.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use helenus_cql::Name;
use helenus_engine::snapshot::HostId;
use helenus_layout::insync::{Members, TABLE};
use helenus_layout::plan::LogicalTable;
use helenus_rows::{
    Cell, ColumnRow, Equalizing, Look, PAGE_ROWS_FIRST, Range, Row, Rows, Selects, Step, Table,
    TableName, Write, in_keyspace, literal, page_rows,
};

use super::node::{Bound, Node, Page};
use super::resting::Resting;
use super::trouble::{Check, Trouble};
use crate::process::Process;
use crate::rows::Rows as Told;
use crate::wall_clock::now_ms;

/// A row that is written to all the time, or cannot be made equal, is waited for this long between steps.
const PAUSE: Duration = Duration::from_millis(50);
/// So many rows are looked at before that time passes for all of them.
const ROWS_AT_ONCE: usize = 64;
/// What was written so long ago has arrived, or never will.
const PAST_US: i64 = 60_000_000;
/// From this release on nodes tell when the elements of collections were written.
const TELLS_ELEMENTS: u32 = 5;

/// One of the copies, or the table itself.
pub(super) struct Copy {
    /// [`TABLE`] for the table itself.
    pub number: usize,
    node: Node,
    /// Full name of its table in CQL.
    name: String,
    selects: Selects,
    /// Rows to ask for, by the size of those that have been read, and at most.
    page_rows: i32,
    page_rows_max: i32,
    resting: Resting,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Nothing was written: what differed was under way.
    WasEqual,
    /// The same, and it has values that are about to expire: these may be in some of the copies only.
    Expiring,
    Repaired,
    GivenUp,
}

/// Copies of the same rows, of which a list says that they are required.
pub(super) struct Copies {
    pub table: Table,
    pub copies: Vec<Copy>,
}

/// What a table is like and whether it can be compared, as one of its copies' nodes describes it.
pub(super) async fn describe(
    common: &Process,
    node: &mut Node,
    table: &LogicalTable,
    copy: usize,
) -> Result<Table, Trouble> {
    let (keyspace, physical) = place_of(table, copy)?;
    let name = TableName {
        keyspace: Name::from_stored(keyspace),
        table: Name::from_stored(physical),
    };
    let place = format!(
        "keyspace_name = {} AND table_name = {}",
        literal(keyspace),
        literal(physical)
    );
    let told = node
        .rows(&format!(
            "SELECT default_time_to_live, gc_grace_seconds FROM system_schema.tables WHERE {place}"
        ))
        .await?;
    let row = told.rows.first();
    let row = row.ok_or_else(|| Trouble::Unfit(format!("there is no table {name}: create it")))?;
    let options = |name: &str| told.int(row, name).unwrap_or_default();
    let options = (options("default_time_to_live"), options("gc_grace_seconds"));
    let told = node
        .rows(&format!(
            "SELECT column_name, type, kind, clustering_order, position FROM system_schema.columns WHERE {place}"
        ))
        .await?;
    let described = Table::of_columns(
        name,
        &columns(&told, table),
        &["compound".to_owned()],
        options,
        tell_elements(common),
    );
    if let Some(column) = masked(common, node, &place).await? {
        return Err(Trouble::Unfit(format!(
            "column {column} of {} is masked (ALTER TABLE ... MASKED), so the proxy's role may read other values than \
             are stored: drop the mask",
            described.name
        )));
    }
    match described.untimed() {
        Some(column) => Err(Trouble::Unfit(format!(
            "CQL does not tell when values of column {} of {} were written, so they cannot be compared",
            column.name, described.name
        ))),
        None => Ok(described),
    }
}

/// Keyspace and name of the table that holds a copy, or of the table itself.
fn place_of(table: &LogicalTable, member: usize) -> Result<(&str, &str), Trouble> {
    match member {
        TABLE => Ok((&table.keyspace, &table.name)),
        copy => {
            let copy = table.copies.get(copy).ok_or(Trouble::Changed)?;
            Ok((&copy.keyspace, &copy.physical))
        }
    }
}

/// The same of several copies, whose tables have to be alike.
async fn describe_all<'a>(
    common: &Process,
    table: &LogicalTable,
    nodes: impl Iterator<Item = (usize, &'a mut Node)>,
) -> Result<Table, Trouble> {
    let mut all: Option<Table> = None;
    for (number, node) in nodes {
        let described = describe(common, node, table, number).await?;
        all = Some(match all {
            Some(first) => alike(first, &described)?,
            None => described,
        });
    }
    all.ok_or(Trouble::Changed)
}

/// The first of two tables, if rows of one can be written to the other as they are; what was deleted is remembered by
/// both.
fn alike(first: Table, other: &Table) -> Result<Table, Trouble> {
    let keys = |table: &Table| -> Vec<(String, String)> {
        let keys = table.keys();
        keys.map(|column| (column.name.clone(), column.cql_type.clone()))
            .collect()
    };
    let is_alike = keys(&first) == keys(other)
        && (&first.statics, &first.regulars) == (&other.statics, &other.regulars)
        && first.default_ttl == other.default_ttl;
    if !is_alike {
        return Err(Trouble::Unfit(format!(
            "{} and {} differ in their columns or in default_time_to_live: make them alike",
            first.name, other.name
        )));
    }
    Ok(Table {
        gc_grace_seconds: first.gc_grace_seconds.min(other.gc_grace_seconds),
        ..first
    })
}

/// A copy's columns; those of the clustering key in the order of the table itself.
fn columns(told: &Told, table: &LogicalTable) -> Vec<ColumnRow> {
    let column = |row: &Vec<Option<Vec<u8>>>| -> Option<ColumnRow> {
        let text = |name: &str| told.text(row, name);
        let name = text("column_name")?;
        let own = table
            .clustering
            .iter()
            .position(|column| column.name == name);
        let position = match own {
            Some(own) => i32::try_from(own).ok(),
            None => told.int(row, "position"),
        };
        let order = text("clustering_order").unwrap_or_default();
        Some((
            name,
            text("type")?,
            text("kind")?,
            order,
            position.unwrap_or(0),
        ))
    };
    told.rows.iter().filter_map(column).collect()
}

/// A column with a mask, if there is one: nodes have them since the same release.
async fn masked(common: &Process, node: &mut Node, place: &str) -> Result<Option<String>, Trouble> {
    if !tell_elements(common) {
        return Ok(None);
    }
    let select = format!("SELECT column_name FROM system_schema.column_masks WHERE {place}");
    let told = node.rows(&select).await?;
    let row = told.rows.first();
    Ok(row.and_then(|row| told.text(row, "column_name")))
}

fn tell_elements(common: &Process) -> bool {
    let snapshot = common.snapshot.load();
    let mut nodes = snapshot.nodes.iter().filter(|node| !node.gone);
    nodes.all(|node| {
        let major = node.release_version.split('.').next();
        major.and_then(|major| major.parse().ok()) >= Some(TELLS_ELEMENTS)
    })
}

/// The catalogue's lists and its layouts do not fit together.
pub(super) fn unfit(table: &LogicalTable) -> Trouble {
    Trouble::Unfit(format!(
        "the lists of copies of {}.{} are not of the copies that the catalogue describes, or some of these do not fit: \
         see `helenus layouts status`",
        table.keyspace, table.name
    ))
}

impl Copies {
    /// `members`: which of the copies, and whether the table itself. So many rows are asked for at a time, at most.
    pub(super) async fn connect(
        common: &Process,
        table: &LogicalTable,
        owners: &[HostId],
        members: Members,
        page_rows_max: i32,
    ) -> Result<Copies, Trouble> {
        // With a copy that does not fit, the others would have wrong numbers.
        if table.copies.len() != owners.len() {
            return Err(unfit(table));
        }
        let nodes = members.iter().map(|number| {
            let owner = owners.get(number).copied();
            async move {
                let node = match number {
                    TABLE => Node::any(common).await?,
                    _ => Node::connect(common, owner.ok_or(Trouble::Changed)?).await?,
                };
                Ok::<_, Trouble>((number, node))
            }
        });
        let mut nodes = try_join_all(nodes).await?;
        let asked = nodes.iter_mut().map(|(number, node)| (*number, node));
        let described = describe_all(common, table, asked).await?;
        let copies = nodes.into_iter().map(|(number, node)| {
            let (keyspace, physical) = place_of(table, number)?;
            let name = in_keyspace(&Name::from_stored(keyspace), physical);
            // The table itself has none.
            let owner = owners.get(number).copied();
            Ok(Copy {
                number,
                node,
                resting: Resting::of(&common.common, owner),
                selects: Selects::new(&described, &name),
                name,
                page_rows: PAGE_ROWS_FIRST.min(page_rows_max),
                page_rows_max,
            })
        });
        Ok(Copies {
            copies: copies.collect::<Result<_, Trouble>>()?,
            table: described,
        })
    }

    /// Fails if one of the tables is no longer what it was when this was connected, or can be compared no more.
    pub(super) async fn look_at_tables(
        &mut self,
        common: &Process,
        table: &LogicalTable,
    ) -> Result<(), Trouble> {
        let copies = self.copies.iter_mut();
        let asked = copies.map(|copy| (copy.number, &mut copy.node));
        let described = describe_all(common, table, asked).await?;
        alike(described, &self.table).map(|_| ())
    }

    /// Where a copy is among these.
    pub(super) fn place(&self, number: usize) -> Result<usize, Trouble> {
        let mut copies = self.copies.iter();
        let at = copies.position(|copy| copy.number == number);
        at.ok_or(Trouble::Changed)
    }

    /// Makes rows with these keys, in which the copies at these places differ, the same in all of them; the first place
    /// is that of the source. What is to be written is written only while `check` says so.
    pub(super) async fn equalize(
        &mut self,
        places: [usize; 2],
        rows: &[Row],
        check: Check<'_>,
    ) -> Result<Vec<Settled>, Trouble> {
        let mut all = Vec::with_capacity(rows.len());
        for rows in rows.chunks(ROWS_AT_ONCE) {
            let mut open = Vec::new();
            for row in rows {
                let mut equalizing = Equalizing::default();
                let (step, settled) = self.look(&mut equalizing, (places, row), check).await?;
                match step {
                    Step::Equal => all.push(settled),
                    step => open.push((row, equalizing, step)),
                }
            }
            if !open.is_empty() {
                tokio::time::sleep(PAUSE).await;
            }
            for (row, equalizing, step) in open {
                let of = (places, row);
                all.push(self.settle((equalizing, step), of, check).await?);
            }
        }
        Ok(all)
    }

    /// Reads a row: what is next, and what it is if that is nothing.
    async fn look(
        &mut self,
        equalizing: &mut Equalizing,
        ([source, _], row): ([usize; 2], &Row),
        check: Check<'_>,
    ) -> Result<(Step, Settled), Trouble> {
        let (asked, asked_ms) = (Instant::now(), now_ms());
        let table = &self.table;
        let reads = self.copies.iter_mut();
        let reads = reads.map(|copy| copy.row_like(table, row));
        let rows = try_join_all(reads).await?;
        check()?;
        let look = Look {
            source,
            age: asked.elapsed(),
            past_us: asked_ms.saturating_mul(1_000).saturating_sub(PAST_US),
        };
        let settled = match differ_by_expiry(&rows) {
            true => Settled::Expiring,
            false => Settled::WasEqual,
        };
        Ok((equalizing.next(table, &rows, look), settled))
    }

    /// Goes on with a row, of which the first step is known and its pause over.
    async fn settle(
        &mut self,
        (mut equalizing, mut step): (Equalizing, Step),
        (places, row): ([usize; 2], &Row),
        check: Check<'_>,
    ) -> Result<Settled, Trouble> {
        let mut is_repaired = false;
        let mut settled = Settled::WasEqual;
        let mut is_first = true;
        loop {
            match step {
                Step::Equal if is_repaired => return Ok(Settled::Repaired),
                Step::Equal => return Ok(settled),
                Step::GiveUp => return Ok(Settled::GivenUp),
                Step::Again if is_first => {}
                Step::Again => tokio::time::sleep(PAUSE).await,
                Step::Write(writes) if writes.is_empty() => tokio::time::sleep(PAUSE).await,
                Step::Write(writes) => {
                    is_repaired = true;
                    self.write_all(places, &writes).await?;
                }
                Step::Mark(marker, lacking) => {
                    is_repaired = true;
                    self.write(|at| lacking.contains(&at), &[marker]).await?;
                }
            }
            is_first = false;
            (step, settled) = self.look(&mut equalizing, (places, row), check).await?;
        }
    }

    /// Writes of one partition, to all copies; last to those at these places, between which there is a difference: if
    /// this proxy ends meanwhile, another one finds that again, though not whether a marker was still to come.
    async fn write_all(&mut self, places: [usize; 2], writes: &[Write]) -> Result<(), Trouble> {
        self.write(|at| !places.contains(&at), writes).await?;
        self.write(|at| places.contains(&at), writes).await
    }

    /// The same, to some of them.
    pub(super) async fn write(
        &mut self,
        is_meant: impl Fn(usize) -> bool,
        writes: &[Write],
    ) -> Result<(), Trouble> {
        let table = &self.table;
        let copies = self.copies.iter_mut().enumerate();
        let sent = copies.filter(|(at, _)| is_meant(*at));
        let sent = sent.map(|(_, copy)| copy.write(table, writes));
        try_join_all(sent).await.map(|_| ())
    }

    /// Two of them, at these places.
    pub(super) fn pair(&mut self, places: [usize; 2]) -> Option<(&Table, [&mut Copy; 2])> {
        let pair = self.copies.get_disjoint_mut(places).ok()?;
        Some((&self.table, pair))
    }
}

/// Whether rows of one key count as equal because what differs is about to expire.
fn differ_by_expiry(rows: &[Option<Row>]) -> bool {
    let hash = |row: &Option<Row>| row.as_ref().map(Row::hash);
    let differ = rows.windows(2).any(|pair| hash(&pair[0]) != hash(&pair[1]));
    let mut cells = rows.iter().flatten().flat_map(|row| &row.cells);
    differ && cells.any(Cell::expires_soon)
}

/// Rows of the next page, after one of so many, by whose size it would be that: the next ones may be larger.
fn next_page_rows(last: i32, by_size: Option<i32>) -> i32 {
    by_size.map_or(last, |rows| rows.min(last.saturating_mul(2)))
}

impl Copy {
    /// Which start of its node answers; 0 if it may be any.
    pub(super) fn boot(&self) -> u32 {
        self.node.boot()
    }

    pub(super) fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    /// For how long to leave its node alone after a page for which that took so long.
    pub(super) fn rest(&mut self, took: Duration) -> Duration {
        self.resting.after(took)
    }

    pub(super) async fn page(
        &mut self,
        reading: &mut Rows<'_>,
        range: Range,
        from: Option<&[u8]>,
    ) -> Result<(Vec<Row>, Option<Vec<u8>>), Trouble> {
        let bounds = [range.after, range.end].map(|token| Some(token.to_be_bytes().to_vec()));
        let asked = (&*self.selects.range, &bounds[..]);
        let Page { rows, next } = self.node.page(asked, self.page_rows, from).await?;
        let mut read = Vec::with_capacity(rows.len());
        for cells in rows {
            read.extend(reading.read(cells)?);
        }
        self.page_rows = next_page_rows(self.page_rows, page_rows(&read)).min(self.page_rows_max);
        Ok((read, next))
    }

    /// The row with the key of that one.
    async fn row_like(&mut self, table: &Table, row: &Row) -> Result<Option<Row>, Trouble> {
        let (text, key) = match row.is_static() {
            true => (&self.selects.statics, row.partition.clone()),
            false => (&self.selects.row, row.key()),
        };
        let page = self.node.page((text, &key), 1, None).await?;
        let mut reading = Rows::new(table);
        for cells in page.rows {
            let found = reading.read(cells)?;
            if let Some(found) = found
                .into_iter()
                .find(|of| of.is_static() == row.is_static())
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn write(&mut self, table: &Table, writes: &[Write]) -> Result<(), Trouble> {
        let bound = writes.iter().map(|write| {
            let text = write.kind.text(table, &self.name);
            (text, write.values.clone())
        });
        let bound: Vec<Bound> = bound.collect();
        self.node.write(&bound).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ttl: i32, value: u8) -> Option<Row> {
        Some(Row {
            partition: vec![Some(vec![1])],
            clustering: Some(Vec::new()),
            cells: vec![Cell {
                column: 0,
                element: None,
                value: vec![value],
                timestamp: Some(5),
                ttl,
            }],
        })
    }

    #[test]
    fn what_only_expires_soon_is_looked_at_again() {
        assert!(differ_by_expiry(&[row(9, 1), None]));
        assert!(differ_by_expiry(&[None, row(9, 1)]));
        assert!(!differ_by_expiry(&[row(9, 1), row(8, 1)]));
        assert!(!differ_by_expiry(&[row(900, 1), row(900, 2)]), "under way");
        assert!(!differ_by_expiry(&[None, None]));
    }

    #[test]
    fn tables_of_copies_have_to_be_alike() {
        let table = |name: &str, columns: &[(&str, &str, &str)], options: (i32, i32)| {
            let columns: Vec<ColumnRow> = columns
                .iter()
                .map(|(name, of_type, kind)| {
                    let text = |text: &str| text.to_owned();
                    (text(name), text(of_type), text(kind), text("none"), 0)
                })
                .collect();
            let name = name.parse().expect("a name");
            let flags = ["compound".to_owned()];
            Table::of_columns(name, &columns, &flags, options, true)
        };
        let key = ("k", "int", "partition_key");
        let own = || table("a.t", &[key, ("v", "int", "regular")], (5, 90));
        let other = table("b.t", &[key, ("v", "int", "regular")], (5, 60));
        let both = alike(own(), &other).expect("alike");
        assert_eq!(both.gc_grace_seconds, 60);
        for other in [
            table("b.t", &[key, ("v", "text", "regular")], (5, 90)),
            table("b.t", &[key], (5, 90)),
            table("b.t", &[key, ("v", "int", "static")], (5, 90)),
            table(
                "b.t",
                &[("k", "text", "partition_key"), ("v", "int", "regular")],
                (5, 90),
            ),
            table("b.t", &[key, ("v", "int", "regular")], (0, 90)),
        ] {
            let why = alike(own(), &other).expect_err("not alike").to_string();
            assert!(why.contains("a.t and b.t"), "{why}");
        }
    }

    #[test]
    fn pages_grow_slowly_and_shrink_at_once() {
        assert_eq!(next_page_rows(50, Some(1_000)), 100);
        assert_eq!(next_page_rows(800, Some(1_000)), 1_000);
        assert_eq!(next_page_rows(800, Some(3)), 3);
        assert_eq!(next_page_rows(70, None), 70);
        assert_eq!(next_page_rows(i32::MAX, Some(1_000)), 1_000);
    }
}
