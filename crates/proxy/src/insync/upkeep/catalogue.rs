//! What the upkeep asks of the catalogue.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use helenus_layout::insync::{Copies, Known, PROXIES_MAX};
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
pub(super) async fn connect(common: &Process) -> Result<Reader, Trouble> {
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
    lists: (&Copies, &Copies),
    renewed: Option<usize>,
) -> Result<(), Trouble> {
    change_by(&mut connect(common).await?, name, lists, renewed).await
}

/// The same, over a connection that there is already: it is sent at once.
pub(super) async fn change_by(
    reader: &mut Reader,
    name: &CopyName,
    (known, list): (&Copies, &Copies),
    renewed: Option<usize>,
) -> Result<(), Trouble> {
    let mut group = GroupChange::new(&name.owners, known, list);
    group.left.extend(renewed);
    group.was_empty = renewed;
    let change = CopiesChange {
        table: name.table.clone(),
        groups: vec![group],
    };
    let text = rows::change_copies(&change, now_ms());
    let answer = reader.rows(&text, Consistency::QUORUM).await;
    match rows::is_applied(&answer.map_err(Trouble::Catalogue)?) {
        true => Ok(()),
        false => Err(Trouble::Changed),
    }
}

/// When a copy was last in sync, in milliseconds since 1970 by the clock of who has taken it out. What the copy does
/// while it is not in sync does not change it. None if that is not known. The end of time if it had no rows when it came into
/// its state with version `since`: it has heard of all that was deleted after that, and nothing else counts.
pub(super) async fn left_ms(
    common: &Process,
    name: &CopyName,
    since: u64,
) -> Result<Option<i64>, Trouble> {
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
    Ok(row.and_then(|row| rows::left_ms(&found, row, (name.copy, since))))
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
    let unclean = unclean(proxies, clean, now_us);
    if unclean.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = connect(common).await?;
    let read = reader.rows(rows::SELECT_PROXIES, Consistency::SERIAL).await;
    let (version, rows) = rows::proxies(&read.map_err(Trouble::Catalogue)?);
    if u64::try_from(version) != Ok(known.version()) {
        return Err(Trouble::Changed);
    }
    let mut all = Vec::new();
    for (number, since) in unclean {
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

/// Numbers of starts that are gone, with since when they are out, but for those that are known to have left nothing. Of
/// other starts nothing is known any more.
fn unclean(
    proxies: &Known<PROXIES_MAX>,
    clean: &mut BTreeSet<(usize, u64)>,
    now_us: u64,
) -> Vec<(usize, u64)> {
    let since = |number: usize| proxies.list(now_us).map_or(0, |list| list.since(number));
    let numbers = (0..PROXIES_MAX).map(|number| (number, since(number)));
    let gone = numbers.filter(|(number, since)| *since > 0 && proxies.is_gone(*number, now_us));
    let gone: BTreeSet<(usize, u64)> = gone.collect();
    clean.retain(|one| gone.contains(one));
    gone.difference(clean).copied().collect()
}

/// Takes the intents away that a start which is gone has left, all at once. That is later by any clock than the numbers
/// of the changes that have recorded them.
pub(super) async fn forget(common: &Process, start: Start) -> Result<(), Trouble> {
    let mut reader = connect(common).await?;
    let done = reader.run(&rows::forget(start), Consistency::QUORUM).await;
    done.map_err(Trouble::Catalogue)
}

#[cfg(test)]
mod tests {
    use helenus_layout::insync::{Members, Proxies};

    use super::*;
    use crate::insync::member::TIMING;

    #[test]
    fn a_start_that_has_left_nothing_is_not_asked_about_again() {
        let mut proxies = Known::new(TIMING);
        let three = Proxies::new(Members::first(3), [0; PROXIES_MAX]);
        let out = three.evict(1).and_then(|list| list.evict(2));
        let out = out.expect("one stays");
        proxies.adopt(out, 0, 0);
        let mut clean = BTreeSet::new();
        let later_us = 60_000_000;
        proxies.adopt(out, later_us, later_us);
        let look = |proxies: &Known<PROXIES_MAX>, clean: &mut BTreeSet<(usize, u64)>| {
            unclean(proxies, clean, later_us)
        };
        assert_eq!(look(&proxies, &mut clean), [(1, 2), (2, 3)]);
        clean.insert((1, 2));
        assert_eq!(look(&proxies, &mut clean), [(2, 3)]);
        // Another start takes the number, and is evicted.
        let again = out.join(1, 0).and_then(|list| list.evict(1));
        proxies.adopt(again.expect("out again"), later_us, later_us);
        let much_later_us = 2 * later_us;
        proxies.adopt(again.expect("out again"), much_later_us, much_later_us);
        let look = unclean(&proxies, &mut clean, much_later_us);
        assert_eq!((look, clean.len()), (vec![(1, 5), (2, 3)], 0));
    }
}
