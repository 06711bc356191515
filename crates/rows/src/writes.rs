//! The statements that make a row of a layout what a row of the table is, with its times.
//!
//! A row is more than its cells: an INSERT leaves a marker that keeps it visible without any value, an
//! UPDATE does not, and CQL does not tell of it. Here each row gets a marker, with the time of its oldest
//! value, because that is what the INSERT that made most rows has left. A row without values has a marker
//! for certain, of unknown time: it gets the time 0, so that whatever deletes the row in the table
//! deletes it here. So does the marker of a row whose oldest value expires: an UPDATE may have given it its
//! time to live, and a marker that lives longer, which a client's INSERT has left here, must win.

use std::time::Duration;

use crate::row::{Bytes, Cell, Row, collection};
use crate::table::{Column, Shape, Table};

/// A statement's effect on a row. Columns are places among the table's regular or static ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Writes a row's marker and these columns, of one cell each.
    Insert(Vec<usize>),
    /// Writes these columns; elements are added to those that have some.
    Update(Vec<usize>),
    /// Writes these static columns, in the same way.
    Static(Vec<usize>),
    DeleteRow,
    Delete {
        column: usize,
        is_static: bool,
        /// Only one element of it.
        is_element: bool,
    },
}

/// A statement and its values.
#[derive(Clone, Debug)]
pub struct Write {
    pub kind: Kind,
    pub values: Vec<Bytes>,
}

/// Time of a row without values.
const UNKNOWN_TIME: i64 = 0;

impl Kind {
    /// Its text for one of the tables.
    pub fn text(&self, table: &Table, into: &str) -> String {
        let chosen = |columns: &[usize], is_static: bool| -> Vec<&Column> {
            let all = table.columns_of(is_static);
            columns.iter().filter_map(|at| all.get(*at)).collect()
        };
        let set = |columns: &[usize], is_static: bool| {
            let terms = chosen(columns, is_static).into_iter().map(|column| {
                let name = column.to_cql();
                match column.shape.has_elements() {
                    true => format!("{name} = {name} + ?"),
                    false => format!("{name} = ?"),
                }
            });
            terms.collect::<Vec<_>>().join(", ")
        };
        let is = |names: &[String]| {
            let terms: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
            terms.join(" AND ")
        };
        let keys: Vec<String> = table.keys().map(Column::to_cql).collect();
        let partition: Vec<String> = table.partition.iter().map(Column::to_cql).collect();
        match self {
            Kind::Insert(columns) => {
                let columns = chosen(columns, false).into_iter().map(Column::to_cql);
                let all: Vec<String> = keys.into_iter().chain(columns).collect();
                let markers = vec!["?"; all.len()].join(", ");
                format!(
                    "INSERT INTO {into} ({}) VALUES ({markers}) USING TIMESTAMP ? AND TTL ?",
                    all.join(", ")
                )
            }
            Kind::Update(columns) => format!(
                "UPDATE {into} USING TIMESTAMP ? AND TTL ? SET {} WHERE {}",
                set(columns, false),
                is(&keys)
            ),
            Kind::Static(columns) => format!(
                "UPDATE {into} USING TIMESTAMP ? AND TTL ? SET {} WHERE {}",
                set(columns, true),
                is(&partition)
            ),
            Kind::DeleteRow => format!("DELETE FROM {into} USING TIMESTAMP ? WHERE {}", is(&keys)),
            Kind::Delete {
                column,
                is_static,
                is_element,
            } => {
                let named = chosen(&[*column], *is_static)
                    .into_iter()
                    .map(Column::to_cql);
                let element = if *is_element { "[?]" } else { "" };
                format!(
                    "DELETE {}{element} FROM {into} USING TIMESTAMP ? WHERE {}",
                    named.collect::<String>(),
                    is(if *is_static { &partition } else { &keys })
                )
            }
        }
    }
}

/// Cells written at the same time, for the same time.
struct Group<'a> {
    timestamp: i64,
    ttl: i32,
    cells: Vec<&'a Cell>,
}

/// The writes that make a layout's row like this one, which was read `age` ago. Values that have expired since are
/// left out, and none lives longer than in the table.
pub fn copy(table: &Table, row: &Row, age: Duration) -> Vec<Write> {
    let mut groups = groups(row, age);
    if !row.is_static() {
        if groups.is_empty() && !row.cells.is_empty() {
            return Vec::new();
        }
        if groups.is_empty() {
            groups.push(Group {
                timestamp: UNKNOWN_TIME,
                ttl: 0,
                cells: Vec::new(),
            });
        }
    }
    let groups = groups.iter().enumerate();
    let writes =
        groups.flat_map(|(at, group)| write(table, row, group, at == 0 && !row.is_static()));
    writes.collect()
}

/// The oldest first, and of these the one that lives longest: its statement writes the marker.
fn groups(row: &Row, age: Duration) -> Vec<Group<'_>> {
    let age_s = i32::try_from(age.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in &row.cells {
        let ttl = match cell.ttl {
            0 => 0,
            left if left > age_s => left - age_s,
            _ => continue,
        };
        let timestamp = cell.timestamp.unwrap_or(UNKNOWN_TIME);
        let same = groups
            .iter_mut()
            .find(|group| (group.timestamp, group.ttl) == (timestamp, ttl));
        match same {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group {
                timestamp,
                ttl,
                cells: vec![cell],
            }),
        }
    }
    let life = |ttl: i32| if ttl == 0 { i32::MAX } else { ttl };
    if !row.is_static() {
        groups.sort_by_key(|group| (group.timestamp, std::cmp::Reverse(life(group.ttl))));
    }
    groups
}

/// One statement or, if the marker is to be written and has a time of its own or there are elements, two: an INSERT
/// of a collection would delete what there is of it.
fn write(table: &Table, row: &Row, group: &Group<'_>, with_marker: bool) -> Vec<Write> {
    let columns = table.columns_of(row.is_static());
    let mut whole: Vec<(usize, Bytes)> = Vec::new();
    let mut added: Vec<(usize, Bytes)> = Vec::new();
    for of_column in group.cells.chunk_by(|a, b| a.column == b.column) {
        let Some((first, column)) = of_column
            .first()
            .and_then(|first| Some((first, columns.get(first.column)?)))
        else {
            continue;
        };
        let elements = of_column
            .iter()
            .map(|cell| cell.element.as_deref().unwrap_or_default());
        let entries = of_column.iter().flat_map(|cell| {
            let element = cell.element.as_deref().unwrap_or_default();
            [element, cell.value.as_slice()]
        });
        match column.shape {
            Shape::Set => {
                let elements: Vec<&[u8]> = elements.collect();
                let value = collection(of_column.len(), &elements);
                added.push((first.column, Some(value)));
            }
            Shape::Map => {
                let entries: Vec<&[u8]> = entries.collect();
                let value = collection(of_column.len(), &entries);
                added.push((first.column, Some(value)));
            }
            _ => whole.push((first.column, Some(first.value.clone()))),
        }
    }
    let times = vec![
        Some(group.timestamp.to_be_bytes().to_vec()),
        Some(group.ttl.to_be_bytes().to_vec()),
    ];
    let mut writes = Vec::new();
    if with_marker && group.ttl > 0 {
        let times = vec![
            Some(UNKNOWN_TIME.to_be_bytes().to_vec()),
            Some(group.ttl.to_be_bytes().to_vec()),
        ];
        writes.push(Write {
            kind: Kind::Insert(Vec::new()),
            values: [row.key(), times].concat(),
        });
    } else if with_marker {
        let (columns, values): (Vec<usize>, Vec<Bytes>) =
            std::mem::take(&mut whole).into_iter().unzip();
        writes.push(Write {
            kind: Kind::Insert(columns),
            values: [row.key(), values, times.clone()].concat(),
        });
    }
    whole.extend(added);
    whole.sort_unstable_by_key(|(column, _)| *column);
    if !whole.is_empty() {
        let (columns, values): (Vec<usize>, Vec<Bytes>) = whole.into_iter().unzip();
        writes.push(Write {
            kind: match row.is_static() {
                true => Kind::Static(columns),
                false => Kind::Update(columns),
            },
            values: [times, values, row.key()].concat(),
        });
    }
    writes
}

/// A write as several statements of one column each: there are fewer of them to prepare.
pub fn apart(table: &Table, write: Write) -> Vec<Write> {
    let Write { kind, values } = write;
    let (columns, is_static, is_insert) = match &kind {
        Kind::Insert(columns) => (columns.clone(), false, true),
        Kind::Update(columns) => (columns.clone(), false, false),
        Kind::Static(columns) => (columns.clone(), true, false),
        _ => (Vec::new(), false, false),
    };
    let keys = match is_static {
        true => table.partition.len(),
        false => table.partition.len() + table.clustering.len(),
    };
    // Keys, values, times; or times, values, keys.
    let first = if is_insert { keys } else { 2 };
    let (head, rest) = values.split_at(first.min(values.len()));
    let (each, tail) = rest.split_at(columns.len().min(rest.len()));
    let (times, key) = if is_insert {
        (tail, head)
    } else {
        (head, tail)
    };
    if columns.is_empty() {
        return vec![Write { kind, values }];
    }
    let mut writes = Vec::new();
    if is_insert {
        writes.push(Write {
            kind: Kind::Insert(Vec::new()),
            values: [key, times].concat(),
        });
    }
    for (column, value) in columns.into_iter().zip(each) {
        writes.push(Write {
            kind: match is_static {
                true => Kind::Static(vec![column]),
                false => Kind::Update(vec![column]),
            },
            values: [times, std::slice::from_ref(value), key].concat(),
        });
    }
    writes
}

/// True if the row may expire, and CQL does not tell when: it has nothing but its key.
pub fn expires_untold(table: &Table, row: &Row) -> bool {
    table.default_ttl > 0 && !row.is_static() && row.cells.is_empty()
}

/// The writes that delete from a layout what the table's row does not have: with the time of what is deleted, never
/// later, so that nothing written since is lost. None of it if that time is not known.
pub fn remove(extra: &Row, own: Option<&Row>) -> Vec<Write> {
    let bytes = |timestamp: i64| Some(timestamp.to_be_bytes().to_vec());
    if own.is_none() && !extra.is_static() {
        let mut times = extra.cells.iter().map(|cell| cell.timestamp);
        // Without values: only what has written the marker of unknown time here.
        let newest = times.try_fold(UNKNOWN_TIME, |newest, time| Some(newest.max(time?)));
        let delete = |newest| Write {
            kind: Kind::DeleteRow,
            values: [vec![bytes(newest)], extra.key()].concat(),
        };
        return newest.into_iter().map(delete).collect();
    }
    let own = own.map(|row| row.cells.as_slice()).unwrap_or_default();
    let extras = extra.cells.iter().filter_map(|cell| {
        let timestamp = cell.timestamp?;
        let is_extra = !own.iter().any(|own| own.is_of(cell));
        is_extra.then_some((cell, timestamp))
    });
    let deletes = extras.map(|(cell, timestamp)| Write {
        kind: Kind::Delete {
            column: cell.column,
            is_static: extra.is_static(),
            is_element: cell.element.is_some(),
        },
        values: [
            cell.element.iter().cloned().map(Some).collect(),
            vec![bytes(timestamp)],
            extra.key(),
        ]
        .concat(),
    });
    deletes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::TableName;

    /// Columns `k`, `a`, `b`, and regular or static ones of these shapes.
    fn table(shapes: &[Shape]) -> Table {
        let column = |name: String, shape: Shape| Column {
            name,
            cql_type: "int".to_owned(),
            descending: false,
            shape,
        };
        let key = |name: &str| column(name.to_owned(), Shape::Single);
        let shapes = shapes.iter().enumerate();
        let others: Vec<Column> = shapes
            .map(|(at, shape)| column(format!("c{at}"), *shape))
            .collect();
        let name: TableName = "s.t".parse().expect("a name");
        Table {
            name,
            partition: vec![key("k")],
            clustering: vec![key("a"), key("b")],
            statics: others.clone(),
            regulars: others,
            default_ttl: 0,
            gc_grace_seconds: 1,
            is_odd: false,
        }
    }

    const SINGLE: [Shape; 3] = [Shape::Single; 3];

    fn cell(column: usize, element: Option<&[u8]>, timestamp: i64, ttl: i32) -> Cell {
        Cell {
            column,
            element: element.map(<[u8]>::to_vec),
            value: vec![column as u8],
            timestamp: Some(timestamp),
            ttl,
        }
    }

    fn of_cells(cells: Vec<Cell>) -> Row {
        Row {
            partition: vec![Some(vec![7])],
            clustering: Some(vec![Some(vec![8]), Some(vec![9])]),
            cells,
        }
    }

    /// Time of writing and of living of each column.
    fn row(cells: &[Option<(i64, i32)>]) -> Row {
        let cells = cells.iter().enumerate();
        let cells =
            cells.filter_map(|(at, times)| times.map(|(time, ttl)| cell(at, None, time, ttl)));
        of_cells(cells.collect())
    }

    /// Kind, time and time to live of each statement.
    fn written(row: &Row, age_ms: u64) -> Vec<(Kind, i64, i32)> {
        let writes = copy(&table(&SINGLE), row, Duration::from_millis(age_ms));
        let times = |write: Write| {
            let values: Vec<Vec<u8>> = write.values.into_iter().flatten().collect();
            let at = match write.kind {
                Kind::Insert(_) => values.len() - 2,
                _ => 0,
            };
            let number = |at: usize| values[at].clone();
            let timestamp = i64::from_be_bytes(number(at).try_into().expect("a bigint"));
            let ttl = i32::from_be_bytes(number(at + 1).try_into().expect("an int"));
            (write.kind, timestamp, ttl)
        };
        writes.into_iter().map(times).collect()
    }

    #[test]
    fn a_row_is_written_in_the_groups_in_which_it_was() {
        let insert = |columns: &[usize]| Kind::Insert(columns.to_vec());
        let update = |columns: &[usize]| Kind::Update(columns.to_vec());
        let whole = row(&[Some((5, 0)), None, Some((5, 0))]);
        assert_eq!(written(&whole, 0), [(insert(&[0, 2]), 5, 0)]);
        let changed = row(&[Some((9, 0)), Some((5, 0)), Some((9, 60))]);
        let expected = [
            (insert(&[1]), 5, 0),
            (update(&[0]), 9, 0),
            (update(&[2]), 9, 60),
        ];
        assert_eq!(written(&changed, 0), expected);
        // The marker lives as long as the longest value of its time.
        let fading = row(&[Some((5, 60)), Some((5, 0)), Some((5, 90))]);
        let expected = [
            (insert(&[1]), 5, 0),
            (update(&[2]), 5, 90),
            (update(&[0]), 5, 60),
        ];
        assert_eq!(written(&fading, 0), expected);
        assert_eq!(written(&row(&[]), 0), [(insert(&[]), UNKNOWN_TIME, 0)]);
        // Its INSERT may have had no time to live: what it has left in the layout must win.
        let updated = row(&[Some((5, 60)), Some((7, 0))]);
        let expected = [
            (insert(&[]), UNKNOWN_TIME, 60),
            (update(&[0]), 5, 60),
            (update(&[1]), 7, 0),
        ];
        assert_eq!(written(&updated, 0), expected);
        let mut statics = row(&[Some((5, 0)), Some((6, 0))]);
        statics.clustering = None;
        let expected = [(Kind::Static(vec![0]), 5, 0), (Kind::Static(vec![1]), 6, 0)];
        assert_eq!(written(&statics, 0), expected);
    }

    #[test]
    fn elements_are_added_and_never_replace_others() {
        let table = table(&[Shape::Single, Shape::Set, Shape::Map]);
        let row = of_cells(vec![
            cell(0, None, 5, 0),
            cell(1, Some(b"x"), 5, 0),
            cell(1, Some(b"y"), 6, 0),
            cell(2, Some(b"k"), 6, 0),
            cell(2, Some(b"l"), 5, 0),
        ]);
        let writes = copy(&table, &row, Duration::ZERO);
        let texts: Vec<String> = writes
            .iter()
            .map(|write| write.kind.text(&table, "s.l"))
            .collect();
        let update = "UPDATE s.l USING TIMESTAMP ? AND TTL ? SET c1 = c1 + ?, c2 = c2 + ? WHERE k = ? AND a = ? AND b = ?";
        let insert =
            "INSERT INTO s.l (k, a, b, c0) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?";
        assert_eq!(texts, [insert, update, update]);
        let added = |at: usize| writes[at].values[2..4].to_vec();
        let set = |element: &[u8]| Some(collection(1, &[element]));
        let map = |key: &[u8]| Some(collection(1, &[key, &[2]]));
        assert_eq!(added(1), [set(b"x"), map(b"l")]);
        assert_eq!(added(2), [set(b"y"), map(b"k")]);
    }

    #[test]
    fn nothing_lives_longer_in_a_layout() {
        let fading = row(&[Some((5, 60)), Some((6, 3))]);
        assert_eq!(written(&fading, 1)[0].2, 59);
        assert_eq!(written(&fading, 2_000)[2].2, 1);
        let expected = [
            (Kind::Insert(vec![]), UNKNOWN_TIME, 57),
            (Kind::Update(vec![0]), 5, 57),
        ];
        assert_eq!(written(&fading, 2_001), expected);
        assert_eq!(written(&fading, 100_000), [], "not even its key");
    }

    #[test]
    fn what_is_too_much_is_deleted_with_its_own_time() {
        let table = table(&[Shape::Single, Shape::Set, Shape::Map]);
        let deleted = |extra: &Row, own: Option<&Row>| {
            let text = |write: Write| {
                let time = write.values.iter().flatten().find(|value| value.len() == 8);
                let time = time.expect("a time").clone().try_into().expect("a bigint");
                let text = write.kind.text(&table, "s.l");
                let (what, _) = text.split_once(" FROM").expect("a DELETE");
                format!("{what} {}", i64::from_be_bytes(time))
            };
            remove(extra, own).into_iter().map(text).collect::<Vec<_>>()
        };
        let one = cell(0, None, 5, 0);
        let (x, k) = (cell(1, Some(b"x"), 8, 0), cell(2, Some(b"k"), 9, 0));
        let extra = of_cells(vec![one.clone(), x.clone(), k]);
        assert_eq!(deleted(&extra, None), ["DELETE 9"]);
        let own = of_cells(vec![x]);
        assert_eq!(
            deleted(&extra, Some(&own)),
            ["DELETE c0 5", "DELETE c2[?] 9"]
        );
        assert_eq!(deleted(&own, Some(&extra)), [""; 0]);
        assert_eq!(deleted(&of_cells(Vec::new()), None), ["DELETE 0"]);
        let mut timeless = of_cells(vec![one]);
        timeless.cells[0].timestamp = None;
        assert_eq!(deleted(&timeless, None), [""; 0]);
    }

    #[test]
    fn taken_apart_it_says_the_same() {
        let table = table(&SINGLE);
        let row = row(&[Some((5, 0)), None, Some((5, 0))]);
        let mut writes = copy(&table, &row, Duration::ZERO);
        let parts = apart(&table, writes.remove(0));
        let kinds: Vec<Kind> = parts.iter().map(|write| write.kind.clone()).collect();
        let update = |column| Kind::Update(vec![column]);
        assert_eq!(kinds, [Kind::Insert(vec![]), update(0), update(2)]);
        let key = row.key();
        let times = parts[0].values[3..].to_vec();
        assert_eq!(parts[0].values[..3], key);
        assert_eq!(parts[2].values, [times, vec![Some(vec![2])], key].concat());
        let again = apart(&table, parts[0].clone());
        assert_eq!(again[0].kind, Kind::Insert(vec![]));
    }
}
