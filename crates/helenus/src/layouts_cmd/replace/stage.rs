//! How far a command is with a table: what is said, in its partition of `helenus.copies`, of all lists together.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use helenus_layout::insync::{COPIES_MAX, Copies, LISTED_MAX, Members, Stored, TABLE};
use helenus_rows::TableName;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlValue;

use super::super::catalogue::{self, Partition};
use super::super::lists::{self, CopiesRow};
use super::nodes::Groups;
use super::ring;
use crate::online::cluster::Cluster;
use crate::online::compare_and_set::{later_than, now_ms, place};

/// Attempts at a change whose answer is missing.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::layouts_cmd) enum Stage {
    /// Rows are copied to the copies; there are no lists.
    Filling,
    /// There are lists, with the table itself in sync; the copies come back.
    Joining,
    /// Copies alone are in sync; the table still has rows.
    Open,
    /// The table is empty.
    InUse,
    /// Rows are copied back to the table, which then joins, while copies are in sync.
    Returning,
    /// The table itself alone is in sync; the copies are about to be dropped.
    Closing,
    /// Rows are copied back, and nobody uses table or copies; there are no lists.
    Draining,
}

impl Stage {
    const ALL: [Stage; 7] = [
        Stage::Filling,
        Stage::Joining,
        Stage::Open,
        Stage::InUse,
        Stage::Returning,
        Stage::Closing,
        Stage::Draining,
    ];

    pub(in crate::layouts_cmd) fn name(self) -> &'static str {
        match self {
            Stage::Filling => "filling",
            Stage::Joining => "joining",
            Stage::Open => "open",
            Stage::InUse => "in use",
            Stage::Returning => "returning",
            Stage::Closing => "closing",
            Stage::Draining => "draining",
        }
    }

    fn of_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// What is stored.
#[derive(Debug, Default)]
pub(in crate::layouts_cmd) struct Standing {
    /// The number of the command at work, or of the last one.
    pub created: Option<i64>,
    stage: Option<String>,
    /// While it is draining: copies that had all that was acknowledged,
    pub sources: Vec<usize>,
    /// and the starts of nodes in which they had it.
    pub boots: BTreeMap<String, i32>,
    /// and who owned what then ([`ring::number`]).
    pub ring: Option<i64>,
    /// When the filling of what is to come in sync began, in milliseconds since 1970: what was deleted since then may
    /// have been copied before.
    pub begun: Option<i64>,
    pub lists: Vec<CopiesRow>,
}

impl Standing {
    #[cfg(test)]
    pub(super) fn of(created: i64, stage: Stage, lists: Vec<CopiesRow>) -> Standing {
        Standing {
            created: Some(created),
            stage: Some(stage.name().to_owned()),
            lists,
            ..Standing::default()
        }
    }

    /// None if no command has been at work, or lists were made by hand.
    pub(in crate::layouts_cmd) fn stage(&self, table: &TableName) -> Result<Option<Stage>> {
        let Some(name) = &self.stage else {
            return Ok(None);
        };
        match Stage::of_name(name) {
            Some(stage) => Ok(Some(stage)),
            None => bail!(
                "the stage {name:?} of {table} in helenus.copies is unknown: use the version of helenus that has \
                 written it"
            ),
        }
    }

    /// A number for the next command.
    pub(super) fn next(&self, known: &Partition) -> i64 {
        let numbers = known.entries.iter().map(|entry| entry.created);
        later_than(numbers.chain(self.created).max().unwrap_or_default())
    }

    /// The conditions under which it is still the same.
    pub(super) fn conditions(&self) -> String {
        let created = self.created.map(|created| created.to_string());
        let stage = self.stage.as_deref().map(helenus_rows::literal);
        let or_null = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
        format!(
            "created = {} AND stage = {}",
            or_null(created),
            or_null(stage)
        )
    }

    pub(super) fn is(&self, created: Option<i64>, stage: Option<Stage>) -> bool {
        self.created == created && self.stage.as_deref() == stage.map(Stage::name)
    }
}

/// After all changes that were ever agreed on.
pub(in crate::layouts_cmd) async fn read(cluster: &Cluster, table: &TableName) -> Result<Standing> {
    type Row = (
        Option<i64>,
        Option<String>,
        Option<Vec<i32>>,
        Option<CqlValue>,
        Option<i64>,
        Option<i64>,
    );
    if !catalogue::exists(cluster).await? {
        return Ok(Standing::default());
    }
    lists::complete(cluster).await?;
    let mut select = Statement::new(format!(
        "SELECT created, stage, sources, boots, ring, begun FROM helenus.copies WHERE {} LIMIT 1",
        place(table)
    ));
    select.set_consistency(Consistency::Serial);
    let rows: Vec<Row> = cluster.rows(select).await?;
    let (created, stage, sources, boots, ring, begun) = rows.into_iter().next().unwrap_or_default();
    let sources = sources.unwrap_or_default().into_iter();
    let boots = boots.as_ref().and_then(CqlValue::as_map).into_iter();
    let boot = |(host, boot): &(CqlValue, CqlValue)| Some((lists::uuid_text(host), boot.as_int()?));
    Ok(Standing {
        created,
        stage,
        sources: sources
            .filter_map(|copy| usize::try_from(copy).ok())
            .collect(),
        boots: boots.flatten().filter_map(boot).collect(),
        ring,
        begun,
        lists: lists::read_copies(cluster, table).await?,
    })
}

/// Takes over, or begins: this command is the one at work, in that stage.
pub(in crate::layouts_cmd) async fn claim(
    cluster: &Cluster,
    table: &TableName,
    (known, stage): (&Standing, Stage),
    created: i64,
) -> Result<()> {
    let begun = begun(known, stage, now_ms());
    let begun = begun.map(|begun| format!(", begun = {begun}"));
    let set = format!(
        "created = {created}, stage = '{}'{}",
        stage.name(),
        begun.unwrap_or_default()
    );
    let update = update(table, &set, known);
    change(cluster, table, &update, |now| {
        now.is(Some(created), Some(stage))
    })
    .await
}

/// When the filling has begun, if that is to be noted with this stage: only the first command begins it.
fn begun(known: &Standing, stage: Stage, now_ms: i64) -> Option<i64> {
    let goes_on = known.stage.as_deref() == Some(stage.name()) && known.begun.is_some();
    let is_filling = matches!(stage, Stage::Filling | Stage::Returning);
    (is_filling && !goes_on).then_some(now_ms)
}

/// What is to come in sync is empty: its filling begins now.
pub(super) async fn begin_anew(
    cluster: &Cluster,
    table: &TableName,
    known: &Standing,
) -> Result<()> {
    let begun = now_ms();
    let update = update(table, &format!("begun = {begun}"), known);
    let is_done = |now: &Standing| now.created == known.created && now.begun == Some(begun);
    change(cluster, table, &update, is_done).await
}

/// Adds the lists: one for each of these groups of owners, with these members in sync and the others out.
pub(in crate::layouts_cmd) async fn open(
    cluster: &Cluster,
    table: &TableName,
    known: &Standing,
    ring: (&Groups, &BTreeMap<String, i32>),
    (in_sync, stage): (Members, Stage),
) -> Result<()> {
    let batch = opening(table, known, ring, (in_sync, stage))?;
    let created = known.created;
    let count = ring.0.len();
    let is_done = |now: &Standing| now.is(created, Some(stage)) && now.lists.len() == count;
    change(cluster, table, &batch, is_done).await
}

/// Takes the lists away that nobody goes by yet.
pub(super) async fn unlist(cluster: &Cluster, table: &TableName, known: &Standing) -> Result<()> {
    let set = format!("stage = '{}'", Stage::Filling.name());
    let mut batch = format!("BEGIN BATCH {}; ", update(table, &set, known));
    batch.push_str(&without_lists(table, known)?);
    batch.push_str("APPLY BATCH");
    let is_done =
        |now: &Standing| now.is(known.created, Some(Stage::Filling)) && now.lists.is_empty();
    change(cluster, table, &batch, is_done).await
}

/// The lists begin with a version that no earlier list of the table has had, so that nothing that is known of one, or
/// under way for one, is taken for something of these.
fn opening(
    table: &TableName,
    known: &Standing,
    (groups, boots): (&Groups, &BTreeMap<String, i32>),
    (in_sync, stage): (Members, Stage),
) -> Result<String> {
    let version = now_ms().max(known.created.unwrap_or_default());
    let version = u64::try_from(version).unwrap_or_default();
    let mut batch = format!(
        "BEGIN BATCH {}; ",
        update(table, &format!("stage = '{}'", stage.name()), known)
    );
    let (keyspace, name) = (
        helenus_rows::literal(&table.keyspace),
        helenus_rows::literal(&table.table),
    );
    for (owners, ranges) in groups {
        let (mut since, mut boot) = ([0; LISTED_MAX], [0; LISTED_MAX]);
        for (copy, owner) in owners.iter().enumerate().take(COPIES_MAX) {
            let told = boots.get(owner).and_then(|boot| u32::try_from(*boot).ok());
            let Some(told) = told else {
                bail!("a node that owns a part of the ring does not tell when it was started");
            };
            (since[copy], boot[copy]) = (version, told);
        }
        // Nobody asks for the start of the table itself.
        since[TABLE] = if in_sync.contains(TABLE) { version } else { 0 };
        let list = Copies::from_parts(version, in_sync, Members::EMPTY, since, boot);
        let list = Stored::of(&list, owners.len());
        // Copies that are out have what there was when their filling began.
        let out = (0..owners.len()).filter(|copy| !in_sync.contains(*copy));
        let left = out.filter_map(|copy| Some(format!("{copy}: {}", known.begun?)));
        let left: Vec<String> = left.filter(|_| stage == Stage::Joining).collect();
        let bounds = ranges.stored();
        let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
        batch.push_str(&format!(
            "INSERT INTO helenus.copies (keyspace_name, table_name, owners, version, in_sync, joining, since, boot, \
             ranges, left, changed) VALUES ({keyspace}, {name}, [{}], {version}, {{{}}}, {{}}, [{}], [{}], [{}], {{{}}}, \
             {}) IF NOT EXISTS; ",
            owners.join(", "),
            in_commas(&list.in_sync),
            in_commas(&list.since),
            in_commas(&list.boot),
            bounds.join(", "),
            left.join(", "),
            now_ms()
        ));
    }
    batch.push_str("APPLY BATCH");
    Ok(batch)
}

fn in_commas(items: &[impl ToString]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// The table is empty.
pub(in crate::layouts_cmd) async fn use_them(
    cluster: &Cluster,
    table: &TableName,
    known: &Standing,
) -> Result<()> {
    let set = format!("stage = '{}'", Stage::InUse.name());
    let update = update(table, &set, known);
    change(cluster, table, &update, |now| {
        now.is(known.created, Some(Stage::InUse))
    })
    .await
}

/// Takes the lists away if they are still what is known, and notes which copies had all that was acknowledged. From
/// then on, and the length of the lists' lease, nothing is acknowledged any more.
pub(in crate::layouts_cmd) async fn drain(
    cluster: &Cluster,
    table: &TableName,
    known: &Standing,
    (created, sources, boots): (i64, &[usize], &BTreeMap<String, i32>),
) -> Result<()> {
    let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
    let boots = boots.iter().map(|(host, boot)| format!("{host}: {boot}"));
    // No ring has the number 0: lists that do not tell their ranges are not brought back.
    let ring = ring::number_of(&known.lists).unwrap_or_default();
    let set = format!(
        "created = {created}, stage = '{}', sources = {{{}}}, boots = {{{}}}, ring = {ring}",
        Stage::Draining.name(),
        sources.join(", "),
        boots.collect::<Vec<_>>().join(", ")
    );
    let mut batch = format!("BEGIN BATCH {}; ", update(table, &set, known));
    batch.push_str(&without_lists(table, known)?);
    batch.push_str("APPLY BATCH");
    let is_done = |now: &Standing| now.is(Some(created), Some(Stage::Draining));
    change(cluster, table, &batch, is_done).await
}

/// No command is at work any more, and nobody goes by the lists that are left.
pub(in crate::layouts_cmd) async fn forget(
    cluster: &Cluster,
    table: &TableName,
    known: &Standing,
) -> Result<()> {
    let set =
        "created = null, stage = null, sources = null, boots = null, ring = null, begun = null";
    let mut batch = format!("BEGIN BATCH {}; ", update(table, set, known));
    batch.push_str(&without_lists(table, known)?);
    batch.push_str("APPLY BATCH");
    change(cluster, table, &batch, |now| now.is(None, None)).await
}

/// Takes the lists away as they are known.
fn without_lists(table: &TableName, known: &Standing) -> Result<String> {
    let mut statements = String::new();
    for row in &known.lists {
        let version = match &row.list {
            Ok(list) => list.version(),
            Err(why) => bail!("a list of copies of {table} cannot be as it is: {why}"),
        };
        statements.push_str(&format!(
            "DELETE FROM helenus.copies WHERE {} AND owners = [{}] IF version = {version}; ",
            place(table),
            row.owners.join(", ")
        ));
    }
    Ok(statements)
}

pub(super) fn update(table: &TableName, set: &str, known: &Standing) -> String {
    format!(
        "UPDATE helenus.copies SET {set} WHERE {} IF {}",
        place(table),
        known.conditions()
    )
}

async fn change(
    cluster: &Cluster,
    table: &TableName,
    statement: &str,
    is_done: impl Fn(&Standing) -> bool,
) -> Result<()> {
    let mut why = None;
    for _ in 0..ATTEMPTS {
        match cluster.is_applied(statement).await {
            Ok(true) => return Ok(()),
            answer => {
                // It may have been carried out, or be carried out by whoever comes next; reading tells.
                if is_done(&read(cluster, table).await?) {
                    return Ok(());
                }
                match answer {
                    Ok(_) => bail!(
                        "somebody else changes the lists of copies of {table} at the same time, proxies perhaps: \
                         look with `helenus layouts status {table}` and run this again"
                    ),
                    Err(error) => why = Some(error),
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    let why = why.map_or_else(String::new, |why| why.to_string());
    bail!("the lists of copies of {table} cannot be changed: {why}")
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::Ranges;

    use super::*;

    #[test]
    fn lists_begin_at_a_version_that_no_earlier_one_has_had() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let created = i64::MAX / 2;
        let draining = Standing {
            created: Some(created),
            stage: Some("draining".to_owned()),
            ..Standing::default()
        };
        let owners = vec!["a".to_owned(), "b".to_owned()];
        let boots = BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 8)]);
        let of = |owners: &Vec<String>| {
            let groups = [(owners.clone(), Ranges::new([(-3, 9), (20, 30)]))].into();
            let with = (Members::of(1), Stage::Open);
            opening(&table, &draining, (&groups, &boots), with)
        };
        let text = of(&owners).expect("a batch");
        let row = format!(
            "[a, b], {created}, {{1}}, {{}}, [{created}, {created}], [7, 8], [-3, 9, 20, 30], {{}}, "
        );
        assert!(text.contains(&row), "{text}");
        assert!(text.contains("SET stage = 'open'"), "{text}");
        assert!(
            of(&vec!["a".to_owned(), "c".to_owned()]).is_err(),
            "it has no start"
        );
    }

    #[test]
    fn lists_with_the_table_alone_tell_since_when_its_copies_are_being_filled() {
        let table: TableName = "shop.orders".parse().expect("a name");
        let created = i64::MAX / 2;
        let filling = Standing {
            begun: Some(77),
            ..Standing::of(created, Stage::Filling, Vec::new())
        };
        let owners = vec!["a".to_owned(), "b".to_owned()];
        let boots = BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 8)]);
        let groups = [(owners, Ranges::new([(-3, 9)]))].into();
        let with = (Members::of(TABLE), Stage::Joining);
        let text = opening(&table, &filling, (&groups, &boots), with).expect("a batch");
        let row = format!(
            "[a, b], {created}, {{5}}, {{}}, [{created}, {created}, 0, 0, 0, {created}], [7, 8, 0, 0, 0, 0], [-3, 9], \
             {{0: 77, 1: 77}}, "
        );
        assert!(text.contains(&row), "{text}");
    }

    #[test]
    fn the_filling_began_with_the_first_command() {
        let of = |stage: Stage, begun| Standing {
            begun,
            ..Standing::of(5, stage, Vec::new())
        };
        assert_eq!(begun(&Standing::default(), Stage::Filling, 99), Some(99));
        assert_eq!(
            begun(&of(Stage::Filling, Some(7)), Stage::Filling, 99),
            None
        );
        assert_eq!(
            begun(&of(Stage::Filling, None), Stage::Filling, 99),
            Some(99)
        );
        assert_eq!(
            begun(&of(Stage::InUse, Some(7)), Stage::Returning, 99),
            Some(99)
        );
        assert_eq!(
            begun(&of(Stage::Returning, Some(7)), Stage::Returning, 99),
            None
        );
        assert_eq!(
            begun(&of(Stage::Filling, Some(7)), Stage::Joining, 99),
            None
        );
    }

    #[test]
    fn a_stage_is_changed_only_as_it_was_read() {
        let none = Standing::default();
        assert_eq!(none.conditions(), "created = null AND stage = null");
        let table: TableName = "shop.orders".parse().expect("a name");
        assert_eq!(none.stage(&table).expect("none"), None);
        let filling = Standing {
            created: Some(7),
            stage: Some("filling".to_owned()),
            ..Standing::default()
        };
        assert_eq!(
            update(&table, "stage = 'open'", &filling),
            "UPDATE helenus.copies SET stage = 'open' WHERE keyspace_name = 'shop' AND table_name = 'orders' IF \
             created = 7 AND stage = 'filling'"
        );
        assert!(filling.is(Some(7), Some(Stage::Filling)));
        assert!(!filling.is(Some(8), Some(Stage::Filling)));
        assert!(!filling.is(Some(7), None));
        for stage in Stage::ALL {
            assert_eq!(Stage::of_name(stage.name()), Some(stage));
        }
        let unknown = Standing {
            stage: Some("melting".to_owned()),
            ..Standing::default()
        };
        assert!(unknown.stage(&table).is_err());
    }
}
