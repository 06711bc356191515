//! What the upkeep asks of the catalogue.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use helenus_layout::insync::{Copies, PROXIES_MAX};
use helenus_wire::Consistency;
use tokio::time::timeout;

use super::trouble::Trouble;
use crate::boot_time::now_us;
use crate::catalogue::reader::Reader;
use crate::conn::ConnError;
use crate::control;
use crate::insync::asked::{CopiesChange, CopyName, GroupChange, ProxyRow, Start};
use crate::insync::rows;
use crate::process::Process;
use crate::uuid;
use crate::wall_clock::now_ms;
use helenus_rows::literal;

/// For a connection to one node, with its login.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// To the first node that answers.
async fn connect(common: &Process) -> Result<Reader, Trouble> {
    let (snapshot, config) = (common.snapshot.load_full(), common.settings.load_full());
    let dialer = (**common.dialer.load()).clone();
    // No node is the lost one.
    let none = SocketAddr::from(([0, 0, 0, 0], 0));
    let mut failure = ConnError::Closed;
    for address in control::in_order(&snapshot, &config, none) {
        let connecting = Reader::connect(&config, &dialer, address, snapshot.version);
        let connected = timeout(CONNECT_MAX, connecting).await;
        match connected.unwrap_or(Err(ConnError::Timeout(CONNECT_MAX))) {
            Ok(reader) => return Ok(reader),
            Err(why) => failure = why,
        }
    }
    Err(Trouble::Catalogue(failure))
}

/// Changes the list of the group of a copy, if it is still the known one. `renewed`: a copy that has nothing of before.
pub(super) async fn change(
    common: &Process,
    name: &CopyName,
    (known, list): (&Copies, &Copies),
    renewed: Option<usize>,
) -> Result<(), Trouble> {
    let mut group = GroupChange::new(&name.owners, known, list);
    group.left.extend(renewed);
    let change = CopiesChange {
        table: name.table.clone(),
        groups: vec![group],
    };
    let text = rows::change_copies(&change, now_ms());
    let mut reader = connect(common).await?;
    let answer = reader.rows(&text, Consistency::QUORUM).await;
    match rows::is_applied(&answer.map_err(Trouble::Catalogue)?) {
        true => Ok(()),
        false => Err(Trouble::Changed),
    }
}

/// When a copy was last in sync, in milliseconds since 1970 by the clock of who has taken it out. What the copy does
/// while it is not in sync does not change it. None if that is not known.
pub(super) async fn left_ms(common: &Process, name: &CopyName) -> Result<Option<i64>, Trouble> {
    let (keyspace, table) = &name.table;
    let owners = name.owners.iter().map(|owner| uuid::text(*owner));
    let text = format!(
        "SELECT left FROM helenus.copies WHERE keyspace_name = {} AND table_name = {} AND owners = [{}]",
        literal(keyspace),
        literal(table),
        owners.collect::<Vec<_>>().join(", ")
    );
    let mut reader = connect(common).await?;
    let found = reader.rows(&text, Consistency::SERIAL).await;
    let found = found.map_err(Trouble::Catalogue)?;
    let row = found.rows.first();
    Ok(row.and_then(|row| rows::left_ms(&found, row, name.copy)))
}

/// The buckets that starts which are gone have left. `clean`: those that have left none, by their numbers and since
/// which version they are out; nothing comes of them any more.
pub(super) async fn left(
    common: &Process,
    clean: &mut BTreeSet<(usize, u64)>,
) -> Result<Vec<(Start, usize)>, Trouble> {
    // Before anything is read: what is read after they were gone is all that they have left.
    let now_us = now_us();
    let lists = common.lists.load_full();
    let proxies = lists.proxies.as_ref().ok_or(Trouble::Changed)?;
    let known = *proxies.list(now_us).ok_or(Trouble::Changed)?;
    let is_gone = |number: usize| known.since(number) > 0 && proxies.is_gone(number, now_us);
    let gone: BTreeSet<(usize, u64)> = (0..PROXIES_MAX)
        .filter(|number| is_gone(*number))
        .map(|number| (number, known.since(number)))
        .collect();
    clean.retain(|one| gone.contains(one));
    if gone.is_subset(clean) {
        return Ok(Vec::new());
    }
    let mut reader = connect(common).await?;
    let read = reader.rows(rows::SELECT_PROXIES, Consistency::SERIAL).await;
    let (version, rows) = rows::proxies(&read.map_err(Trouble::Catalogue)?);
    if u64::try_from(version) != Ok(known.version()) {
        return Err(Trouble::Changed);
    }
    let mut all = Vec::new();
    for (number, since) in gone {
        if clean.contains(&(number, since)) {
            continue;
        }
        let is_it = |row: &&ProxyRow| usize::try_from(row.number) == Ok(number);
        let start = rows.iter().find(is_it).map(|row| row.start);
        let mut left = Vec::new();
        if let Some(start) = start {
            let select = rows::select_intents(start);
            let read = reader.rows(&select, Consistency::QUORUM).await;
            left = rows::intents(&read.map_err(Trouble::Catalogue)?);
        }
        if left.is_empty() {
            clean.insert((number, since));
        }
        let left = left.into_iter();
        all.extend(left.filter_map(|(of, bucket)| Some((of, usize::try_from(bucket).ok()?))));
    }
    Ok(all)
}

/// Takes the intents away that a start which is gone has left, all at once. That is later by any clock than the numbers
/// of the changes that have recorded them.
pub(super) async fn forget(common: &Process, start: Start) -> Result<(), Trouble> {
    let mut reader = connect(common).await?;
    let done = reader.run(&rows::forget(start), Consistency::QUORUM).await;
    done.map_err(Trouble::Catalogue)
}
