//! The lists in CQL: what is asked of the catalogue, and what its rows say.

use helenus_layout::insync::{BitChange, Change as Regrouped, Ranges, State, Stored};
use helenus_wire::Reader;

use super::asked::{Beats, Change, CopiesChange, GroupRow, Owners, ProxyRow, Start, TableName};
use crate::rows::Rows;
use crate::uuid;
use helenus_rows::literal;

/// At QUORUM.
pub(super) const SELECT_BEATS: &str =
    "SELECT version, start, beat FROM helenus.proxies WHERE name = 'proxies'";
/// At SERIAL.
pub(super) const SELECT_PROXIES: &str = "SELECT version, start, number, state, since, address \
                                         FROM helenus.proxies WHERE name = 'proxies'";
/// At QUORUM.
pub(super) const SELECT_INTENTS: &str = "SELECT start, bucket, recorded FROM helenus.intents";

/// At QUORUM.
pub(super) fn select_intents(start: Start) -> String {
    format!("{SELECT_INTENTS} WHERE start = {}", uuid::text(start))
}

/// At QUORUM.
pub(super) fn select_versions(table: &TableName) -> String {
    select_copies("owners, version", table)
}

/// At SERIAL.
pub(super) fn select_lists(table: &TableName) -> String {
    let columns = "owners, version, in_sync, joining, since, boot, ranges";
    select_copies(columns, table)
}

/// At SERIAL: all that is known of a table's lists.
pub(super) fn select_all_of_lists(table: &TableName) -> String {
    let columns = "owners, version, in_sync, joining, since, boot, ranges, left";
    select_copies(columns, table)
}

fn select_copies(columns: &str, (keyspace, table): &TableName) -> String {
    format!(
        "SELECT {columns} FROM helenus.copies WHERE keyspace_name = {} AND table_name = {}",
        literal(keyspace),
        literal(table)
    )
}

/// A sign of life. Its number is its timestamp, so the last one counts whatever the nodes' clocks say; and it is older
/// than any removal of the row, which it cannot bring back.
pub(super) fn update_beat(start: Start, beat: i64) -> String {
    format!(
        "UPDATE helenus.proxies USING TIMESTAMP {beat} SET beat = {beat} WHERE name = 'proxies' AND start = {}",
        uuid::text(start)
    )
}

/// A compare-and-set of the list of proxies, at `now_ms` since 1970.
pub(super) fn change(change: &Change, address: &str, release: &str, now_ms: i64) -> String {
    let place = |start| format!("name = 'proxies' AND start = {}", uuid::text(start));
    let known = match change.known {
        0 => "null".to_owned(),
        known => known.to_string(),
    };
    // Who joins says who it is.
    let identity = match change.state {
        State::Joining => format!(
            "number = {}, address = {}, release = {}, ",
            change.number,
            literal(address),
            literal(release)
        ),
        State::InSync | State::Out => String::new(),
    };
    let version = change.version;
    let mut batch = format!(
        "BEGIN BATCH UPDATE helenus.proxies SET version = {version} WHERE name = 'proxies' IF version = {known}; \
         UPDATE helenus.proxies SET {identity}state = {}, since = {version}, changed = {now_ms} WHERE {}; ",
        literal(change.state.name()),
        place(change.start)
    );
    if let Some(replaced) = change.replaces {
        batch.push_str(&format!(
            "DELETE FROM helenus.proxies WHERE {}; ",
            place(replaced)
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// A compare-and-set of lists of copies, at `now_ms` since 1970.
pub(super) fn change_copies(change: &CopiesChange, now_ms: i64) -> String {
    let (keyspace, table) = &change.table;
    let (keyspace, table) = (literal(keyspace), literal(table));
    let mut batch = "BEGIN BATCH ".to_owned();
    for group in &change.groups {
        let owners = group.owners.iter().map(|owner| uuid::text(*owner));
        let (list, known) = (&group.list, group.known);
        let left = group.left.iter();
        let left = left.map(|copy| format!(", left[{copy}] = {now_ms}"));
        let empty = group.was_empty.iter();
        let empty = empty.map(|copy| format!(", left[{}] = {}", empty_key(*copy), list.version));
        batch.push_str(&format!(
            "UPDATE helenus.copies SET {}, changed = {now_ms}{} WHERE keyspace_name = {keyspace} AND table_name = {table} \
             AND owners = [{}] IF version = {known}; ",
            list.assignments(),
            left.chain(empty).collect::<String>(),
            owners.collect::<Vec<_>>().join(", ")
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// A compare-and-set of lists whose ranges have other owners, at `now_ms` since 1970: of all of them, or of none.
pub(super) fn regroup((keyspace, table): &TableName, change: &Regrouped, now_ms: i64) -> String {
    let place = |owners: &Owners| {
        let owners: Vec<String> = owners.iter().map(|owner| uuid::text(*owner)).collect();
        format!(
            "keyspace_name = {} AND table_name = {} AND owners = [{}]",
            literal(keyspace),
            literal(table),
            owners.join(", ")
        )
    };
    let mut batch = "BEGIN BATCH ".to_owned();
    for group in &change.groups {
        let known = group.known.map(|known| known.to_string());
        let bounds = group.ranges.stored();
        let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
        let left = group.left_ms.iter();
        let left: Vec<String> = left.map(|(copy, ms)| format!("{copy}: {ms}")).collect();
        batch.push_str(&format!(
            "UPDATE helenus.copies SET {}, ranges = [{}], left = {{{}}}, changed = {now_ms} WHERE {} IF version = {}; ",
            Stored::of(&group.list, group.owners.len()).assignments(),
            bounds.join(", "),
            left.join(", "),
            place(&group.owners),
            known.as_deref().unwrap_or("null")
        ));
    }
    for (owners, version) in &change.forgotten {
        let place = place(owners);
        batch.push_str(&format!(
            "DELETE FROM helenus.copies WHERE {place} IF version = {version}; "
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Intents of one start, in one partition. Each change has its number as its timestamp, so that the last one of a
/// bucket counts in whatever order they arrive.
pub(super) fn record(start: Start, changes: &[BitChange]) -> String {
    let start = uuid::text(start);
    let mut batch = "BEGIN UNLOGGED BATCH ".to_owned();
    for BitChange {
        bucket,
        set,
        number,
    } in changes
    {
        batch.push_str(&format!(
            "UPDATE helenus.intents USING TIMESTAMP {number} SET recorded = {set} WHERE start = {start} \
             AND bucket = {bucket}; "
        ));
    }
    batch.push_str("APPLY BATCH");
    batch
}

/// Takes away all intents of a start that leaves. Later by any clock than the numbers of its changes.
pub(super) fn forget(start: Start) -> String {
    let start = uuid::text(start);
    format!("DELETE FROM helenus.intents WHERE start = {start}")
}

/// Whether the answer to a compare-and-set says that it was carried out.
pub(super) fn is_applied(rows: &Rows) -> bool {
    let row = rows.rows.first();
    row.and_then(|row| rows.cell(row, "[applied]")) == Some(&[1])
}

pub(super) fn beats(rows: &Rows) -> Beats {
    let beat =
        |row: &Vec<Option<Vec<u8>>>| Some((rows.uuid(row, "start")?, rows.bigint(row, "beat")?));
    Beats {
        version: version(rows),
        beats: rows.rows.iter().filter_map(beat).collect(),
    }
}

/// Version and rows. A row without a number is none.
pub(super) fn proxies(rows: &Rows) -> (i64, Vec<ProxyRow>) {
    let proxy = |row: &Vec<Option<Vec<u8>>>| {
        Some(ProxyRow {
            start: rows.uuid(row, "start")?,
            number: rows.int(row, "number")?,
            state: rows.text(row, "state").unwrap_or_default(),
            since: rows.bigint(row, "since").unwrap_or_default(),
            address: rows.text(row, "address").unwrap_or_default(),
        })
    };
    (version(rows), rows.rows.iter().filter_map(proxy).collect())
}

/// The version that all rows of a partition have in common; 0 if there is none.
fn version(rows: &Rows) -> i64 {
    let row = rows.rows.first();
    row.and_then(|row| rows.bigint(row, "version"))
        .unwrap_or_default()
}

pub(super) fn versions(rows: &Rows) -> Vec<(Owners, i64)> {
    let group = |row: &Vec<Option<Vec<u8>>>| {
        let version = rows.bigint(row, "version").unwrap_or_default();
        Some((owners(rows, row)?, version))
    };
    rows.rows.iter().filter_map(group).collect()
}

pub(super) fn copies(rows: &Rows) -> Vec<GroupRow> {
    rows.rows
        .iter()
        .filter_map(|row| group(rows, row))
        .collect()
}

/// None if the row is about no copies.
pub(super) fn group(rows: &Rows, row: &[Option<Vec<u8>>]) -> Option<GroupRow> {
    let ints = |name| all(rows.cell(row, name), i32::from_be_bytes).unwrap_or_default();
    let bigints = |name| all(rows.cell(row, name), i64::from_be_bytes).unwrap_or_default();
    let list = Stored {
        version: rows.bigint(row, "version").unwrap_or_default(),
        in_sync: ints("in_sync"),
        joining: ints("joining"),
        since: bigints("since"),
        boot: ints("boot"),
    };
    Some(GroupRow {
        owners: owners(rows, row)?,
        ranges: Ranges::of_stored(&bigints("ranges")),
        list,
    })
}

/// The key in the column `left` at which stands with which version a copy has joined that had no rows.
fn empty_key(copy: usize) -> i64 {
    -1 - i64::try_from(copy).unwrap_or(i64::MAX - 1)
}

/// When this copy of the row's group left those in sync, by the column `left`: the end of time if it has come into its
/// state with version `since` without rows.
pub(super) fn left_ms(
    rows: &Rows,
    row: &[Option<Vec<u8>>],
    (copy, since): (usize, u64),
) -> Option<i64> {
    let mut reader = Reader::new(rows.cell(row, "left")?);
    let (mut left, mut was_empty) = (None, false);
    for _ in 0..reader.i32().ok()? {
        let of: [u8; 4] = reader.bytes().ok()??.try_into().ok()?;
        let at: [u8; 8] = reader.bytes().ok()??.try_into().ok()?;
        let (of, at) = (i64::from(i32::from_be_bytes(of)), i64::from_be_bytes(at));
        if usize::try_from(of) == Ok(copy) {
            left = Some(at);
        }
        was_empty |= of == empty_key(copy) && u64::try_from(at) == Ok(since);
    }
    match was_empty {
        true => Some(i64::MAX),
        false => left,
    }
}

/// Starts with the buckets in which they have recorded intents.
pub(super) fn intents(rows: &Rows) -> Vec<(Start, i32)> {
    let recorded = |row: &Vec<Option<Vec<u8>>>| {
        let is_recorded = rows.cell(row, "recorded") == Some(&[1]);
        let bucket = (rows.uuid(row, "start")?, rows.int(row, "bucket")?);
        is_recorded.then_some(bucket)
    };
    rows.rows.iter().filter_map(recorded).collect()
}

fn owners(rows: &Rows, row: &[Option<Vec<u8>>]) -> Option<Owners> {
    all(rows.cell(row, "owners"), |id: [u8; 16]| id)
}

/// The items of a list or set with items of one size. None if the cell is not one.
fn all<const SIZE: usize, T>(
    cell: Option<&[u8]>,
    item: impl Fn([u8; SIZE]) -> T,
) -> Option<Vec<T>> {
    let mut reader = Reader::new(cell?);
    let count = reader.i32().ok()?;
    let mut next = || {
        let bytes = reader.bytes().ok().flatten()?;
        Some(item(bytes.try_into().ok()?))
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::testing;
    use crate::insync::asked::GroupChange;
    use helenus_layout::insync::{Copies, Members, NewGroup};

    const START: Start = [0x11; 16];

    fn collection(items: &[&[u8]]) -> Vec<u8> {
        let mut cell = (items.len() as i32).to_be_bytes().to_vec();
        for item in items {
            cell.extend((item.len() as i32).to_be_bytes());
            cell.extend(*item);
        }
        cell
    }

    #[test]
    fn who_joins_says_who_it_is_and_others_are_only_moved() {
        let join = Change {
            known: 0,
            version: 1,
            start: START,
            number: 3,
            state: State::Joining,
            replaces: Some([0x22; 16]),
        };
        assert_eq!(
            change(&join, "10.0.0.1:9042", "0.1's", 77),
            "BEGIN BATCH UPDATE helenus.proxies SET version = 1 WHERE name = 'proxies' IF version = null; \
             UPDATE helenus.proxies SET number = 3, address = '10.0.0.1:9042', release = '0.1''s', \
             state = 'joining', since = 1, changed = 77 WHERE name = 'proxies' AND \
             start = 11111111-1111-1111-1111-111111111111; \
             DELETE FROM helenus.proxies WHERE name = 'proxies' AND \
             start = 22222222-2222-2222-2222-222222222222; APPLY BATCH"
        );
        let evict = Change {
            known: 8,
            version: 9,
            state: State::Out,
            replaces: None,
            ..join
        };
        assert_eq!(
            change(&evict, "", "", 78),
            "BEGIN BATCH UPDATE helenus.proxies SET version = 9 WHERE name = 'proxies' IF version = 8; \
             UPDATE helenus.proxies SET state = 'out', since = 9, changed = 78 WHERE name = 'proxies' AND \
             start = 11111111-1111-1111-1111-111111111111; APPLY BATCH"
        );
    }

    #[test]
    fn lists_of_copies_change_together_and_only_as_they_were_read() {
        let group = |owner: u8, known| GroupChange {
            owners: vec![[owner; 16], [0x22; 16]],
            known,
            list: Stored {
                version: known as i64 + 1,
                in_sync: vec![1],
                joining: Vec::new(),
                since: vec![known as i64 + 1, 1],
                boot: vec![7, 8],
            },
            left: if known == 4 { vec![0] } else { Vec::new() },
            was_empty: (known == 6).then_some(1),
        };
        let change = CopiesChange {
            table: ("shop".to_owned(), "it's".to_owned()),
            groups: vec![group(0x11, 4), group(0x33, 6)],
        };
        assert_eq!(
            change_copies(&change, 77),
            "BEGIN BATCH \
             UPDATE helenus.copies SET version = 5, in_sync = {1}, joining = {}, since = [5, 1], boot = [7, 8], \
             changed = 77, left[0] = 77 WHERE keyspace_name = 'shop' AND table_name = 'it''s' AND owners = \
             [11111111-1111-1111-1111-111111111111, 22222222-2222-2222-2222-222222222222] IF version = 4; \
             UPDATE helenus.copies SET version = 7, in_sync = {1}, joining = {}, since = [7, 1], boot = [7, 8], \
             changed = 77, left[-2] = 7 WHERE keyspace_name = 'shop' AND table_name = 'it''s' AND owners = \
             [33333333-3333-3333-3333-333333333333, 22222222-2222-2222-2222-222222222222] IF version = 6; \
             APPLY BATCH"
        );
    }

    #[test]
    fn lists_of_ranges_with_other_owners_are_made_together_and_only_from_what_was_read() {
        let list = Copies::new(Members::of(1), [7, 8, 0, 0, 0, 0]);
        let group = |owner: u8, known, left_ms: &[(usize, i64)]| NewGroup {
            owners: vec![[owner; 16], [0x22; 16]],
            ranges: Ranges::new([(-5, 9), (20, 30)]),
            known,
            list,
            left_ms: left_ms.to_vec(),
        };
        let change = Regrouped {
            groups: vec![group(0x11, Some(4), &[(0, 50)]), group(0x33, None, &[])],
            forgotten: vec![(vec![[0x44; 16]], 6)],
        };
        let table = ("shop".to_owned(), "it's".to_owned());
        let set = "version = 1, in_sync = {1}, joining = {}, since = [0, 1], boot = [7, 8], ranges = [-5, 9, 20, 30]";
        let place = "keyspace_name = 'shop' AND table_name = 'it''s' AND owners =";
        let id = "-2222-2222-2222-222222222222".replace('2', "1");
        assert_eq!(
            regroup(&table, &change, 77),
            format!(
                "BEGIN BATCH UPDATE helenus.copies SET {set}, left = {{0: 50}}, changed = 77 WHERE {place} [11111111{id}, \
                 22222222-2222-2222-2222-222222222222] IF version = 4; UPDATE helenus.copies SET {set}, left = {{}}, \
                 changed = 77 WHERE {place} [33333333-3333-3333-3333-333333333333, \
                 22222222-2222-2222-2222-222222222222] IF version = null; DELETE FROM helenus.copies WHERE {place} \
                 [44444444-4444-4444-4444-444444444444] IF version = 6; APPLY BATCH"
            )
        );
    }

    #[test]
    fn intents_are_written_together_each_with_its_number_as_timestamp() {
        let change = |bucket, set, number| BitChange {
            bucket,
            set,
            number,
        };
        assert_eq!(
            record(START, &[change(7, true, 12), change(9, false, 11)]),
            "BEGIN UNLOGGED BATCH UPDATE helenus.intents USING TIMESTAMP 12 SET recorded = true WHERE start = \
             11111111-1111-1111-1111-111111111111 AND bucket = 7; \
             UPDATE helenus.intents USING TIMESTAMP 11 SET recorded = false WHERE start = \
             11111111-1111-1111-1111-111111111111 AND bucket = 9; APPLY BATCH"
        );
    }

    #[test]
    fn rows_are_lists_as_they_are_stored() {
        let names = [
            "owners", "version", "in_sync", "joining", "since", "boot", "ranges",
        ];
        let mut found = testing::rows(&names, &[&["", "", "", "null", "", "", ""]]);
        let row = &mut found.rows[0];
        row[0] = Some(collection(&[&[1; 16], &[2; 16]]));
        row[1] = Some(7i64.to_be_bytes().to_vec());
        row[2] = Some(collection(&[&0i32.to_be_bytes()]));
        row[4] = Some(collection(&[&1i64.to_be_bytes(), &7i64.to_be_bytes()]));
        row[5] = Some(collection(&[&4i32.to_be_bytes(), &5i32.to_be_bytes()]));
        row[6] = Some(collection(&[&3i64.to_be_bytes(), &9i64.to_be_bytes()]));
        let list = Stored {
            version: 7,
            in_sync: vec![0],
            joining: Vec::new(),
            since: vec![1, 7],
            boot: vec![4, 5],
        };
        let owners = vec![[1; 16], [2; 16]];
        let expected = GroupRow {
            owners: owners.clone(),
            ranges: Some(Ranges::new([(3, 9)])),
            list,
        };
        assert_eq!(copies(&found), [expected]);
        assert_eq!(versions(&found), [(owners, 7)]);
        // Lengths that are not there, items of another size, counts that are far too large.
        for cell in [
            &b"\x00\x00\x00\x02\x00\x00\x00\x01a"[..],
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff\x00",
            b"",
        ] {
            found.rows[0][4] = Some(cell.to_vec());
            found.rows[0][6] = Some(cell.to_vec());
            let read = &copies(&found)[0];
            assert_eq!((read.list.since.len(), &read.ranges), (0, &None));
        }
    }

    #[test]
    fn when_a_copy_left_is_told_for_each_or_not_known() {
        let mut found = testing::rows(&["left"], &[&["null"]]);
        assert_eq!(left_ms(&found, &found.rows[0], (1, 9)), None);
        let times = [
            &1i32.to_be_bytes()[..],
            &55i64.to_be_bytes(),
            &3i32.to_be_bytes(),
            &77i64.to_be_bytes(),
            // It had no rows when it joined with version 9.
            &(-4i32).to_be_bytes(),
            &9i64.to_be_bytes(),
        ];
        let mut cell = collection(&times);
        cell[..4].copy_from_slice(&3i32.to_be_bytes());
        found.rows[0] = vec![Some(cell.clone())];
        let told = [(0, 9), (1, 9), (3, 8), (3, 9)];
        let told = told.map(|copy| left_ms(&found, &found.rows[0], copy));
        assert_eq!(told, [None, Some(55), Some(77), Some(i64::MAX)]);
        // Cut off.
        found.rows[0] = vec![Some(cell[..30].to_vec())];
        assert_eq!(left_ms(&found, &found.rows[0], (3, 8)), None);
    }

    #[test]
    fn a_row_without_a_number_is_no_proxy() {
        let names = [
            "version", "start", "number", "state", "since", "address", "beat",
        ];
        let texts = ["", "", "", "joining", "", "10.0.0.1:9042", ""];
        let none = ["", "", "null", "null", "null", "null", ""];
        let mut found = testing::rows(&names, &[&texts, &none]);
        for (at, row) in found.rows.iter_mut().enumerate() {
            row[0] = Some(2i64.to_be_bytes().to_vec());
            row[1] = Some(vec![at as u8 + 1; 16]);
            row[6] = Some(9i64.to_be_bytes().to_vec());
        }
        found.rows[0][2] = Some(5i32.to_be_bytes().to_vec());
        found.rows[0][4] = Some(2i64.to_be_bytes().to_vec());
        let expected = ProxyRow {
            start: [1; 16],
            number: 5,
            state: "joining".to_owned(),
            since: 2,
            address: "10.0.0.1:9042".to_owned(),
        };
        assert_eq!(proxies(&found), (2, vec![expected]));
        let told = beats(&found);
        assert_eq!(
            (told.version, told.beats),
            (2, vec![([1; 16], 9), ([2; 16], 9)])
        );
        assert_eq!(proxies(&testing::rows(&names, &[])), (0, Vec::new()));
    }
}
