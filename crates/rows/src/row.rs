//! Rows with the times at which they were written, and as bytes: whatever the types are, what a node
//! has sent is what it gets.

use ring::digest::{SHA256, digest};

use crate::table::{Column, Shape, Table};

/// Why what a node has sent is not the row that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node's answer cannot be read: {0}")]
pub struct Misread(&'static str);

pub type Bytes = Option<Vec<u8>>;

/// The value of a column besides the keys, or of one element of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its place among the table's static or regular columns.
    pub column: usize,
    /// An element of a set, the key of an entry in a map.
    pub element: Bytes,
    /// Nothing for an element of a set.
    pub value: Vec<u8>,
    /// In microseconds; not known of a column of several cells, but for sets and maps since 5.0.
    pub timestamp: Option<i64>,
    /// Time to live that was left when it was read, in seconds; 0 if it does not expire.
    pub ttl: i32,
}

impl Cell {
    /// True if it is a value of the same column or element.
    pub(crate) fn is_of(&self, other: &Cell) -> bool {
        (self.column, &self.element) == (other.column, &other.element)
    }
}

/// A row, or the static columns of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub partition: Vec<Bytes>,
    /// None: the static columns.
    pub clustering: Option<Vec<Bytes>>,
    /// In the order of columns and, within one, as nodes sort elements.
    pub cells: Vec<Cell>,
}

/// The selection from a table, or from a layout of it, for [`Rows::read`]: the same columns in the same order.
fn selection(table: &Table) -> String {
    let mut selected: Vec<String> = table.keys().map(|column| column.to_cql()).collect();
    for column in table.others() {
        let name = column.to_cql();
        if column.shape != Shape::Untimed {
            selected.push(format!("WRITETIME({name})"));
            selected.push(format!("TTL({name})"));
        }
        selected.push(name);
    }
    selected.join(", ")
}

/// The SELECTs of a table, or of a layout of it, with markers for values.
#[derive(Clone, Debug)]
pub struct Selects {
    /// Of the tokens above the first value, up to and with the second.
    pub range: String,
    /// Of a row's key.
    pub row: String,
    /// Of the key of a partition: its static columns.
    pub statics: String,
}

impl Selects {
    /// `from`: a full name in CQL.
    pub fn new(table: &Table, from: &str) -> Selects {
        let names = |columns: &[Column]| columns.iter().map(Column::to_cql).collect();
        let partition: Vec<String> = names(&table.partition);
        let keys: Vec<String> = table.keys().map(Column::to_cql).collect();
        let is = |names: &[String]| -> String {
            let terms: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
            terms.join(" AND ")
        };
        let select = format!("SELECT {} FROM {from} WHERE", selection(table));
        let token = format!("token({})", partition.join(", "));
        Selects {
            range: format!("{select} {token} > ? AND {token} <= ?"),
            row: format!("{select} {}", is(&keys)),
            statics: format!("{select} {} LIMIT 1", is(&partition)),
        }
    }
}

/// Reads rows one after the other, as a range of tokens brings them.
pub struct Rows<'a> {
    table: &'a Table,
    /// The partition of the last row.
    partition: Option<Vec<Bytes>>,
}

impl<'a> Rows<'a> {
    pub fn new(table: &'a Table) -> Self {
        Rows {
            table,
            partition: None,
        }
    }

    /// The row, and before the first row of a partition its static columns, if there are any.
    pub fn read(&mut self, cells: impl IntoIterator<Item = Bytes>) -> Result<Vec<Row>, Misread> {
        let mut cells = cells.into_iter();
        let partition: Vec<Bytes> = cells.by_ref().take(self.table.partition.len()).collect();
        let clustering: Vec<Bytes> = cells.by_ref().take(self.table.clustering.len()).collect();
        let mut statics = Vec::new();
        for (at, column) in self.table.statics.iter().enumerate() {
            read_column(&mut statics, &mut cells, at, column.shape)?;
        }
        let mut regulars = Vec::new();
        for (at, column) in self.table.regulars.iter().enumerate() {
            read_column(&mut regulars, &mut cells, at, column.shape)?;
        }
        let mut rows = Vec::new();
        if self.partition.as_ref() != Some(&partition) {
            self.partition = Some(partition.clone());
            if !statics.is_empty() {
                rows.push(Row {
                    partition: partition.clone(),
                    clustering: None,
                    cells: statics,
                });
            }
        }
        // A partition with nothing but static columns has one row without a key.
        if clustering.iter().all(Option::is_some) {
            rows.push(Row {
                partition,
                clustering: Some(clustering),
                cells: regulars,
            });
        }
        Ok(rows)
    }
}

/// Reads what [`selection`] has asked for of one column.
fn read_column(
    into: &mut Vec<Cell>,
    cells: &mut impl Iterator<Item = Bytes>,
    column: usize,
    shape: Shape,
) -> Result<(), Misread> {
    let mut next = || cells.next().ok_or(Misread("a row is too short"));
    let (times, lives) = match shape {
        Shape::Untimed => (None, None),
        _ => (next()?, next()?),
    };
    let Some(value) = next()? else {
        return Ok(());
    };
    let mut push = |element, value, timestamp: Option<&[u8]>, ttl: Option<&[u8]>| {
        let bad = |_| Misread("a time has another size");
        let timestamp = timestamp.map(|bytes| bytes.try_into().map(i64::from_be_bytes));
        let ttl = ttl.map(|bytes| bytes.try_into().map(i32::from_be_bytes));
        into.push(Cell {
            column,
            element,
            value,
            timestamp: timestamp.transpose().map_err(bad)?,
            ttl: ttl.transpose().map_err(bad)?.unwrap_or(0),
        });
        Ok(())
    };
    match shape {
        Shape::Untimed => push(None, value, None, None),
        Shape::Single => {
            let time = times.ok_or(Misread("a value without a time of writing"))?;
            push(None, value, Some(&time), lives.as_deref())
        }
        Shape::Set | Shape::Map => {
            let times = elements(times.as_deref(), 1)?;
            let lives = elements(lives.as_deref(), 1)?;
            let per_element = if shape == Shape::Map { 2 } else { 1 };
            let parts = elements(Some(&value), per_element)?;
            if parts.len() != times.len() * per_element || times.len() != lives.len() {
                let why = "a collection and the times of its elements do not fit together";
                return Err(Misread(why));
            }
            let parts = parts.chunks(per_element);
            for ((parts, time), ttl) in parts.zip(times).zip(lives) {
                let part = |at: usize| parts.get(at).copied().flatten().map(<[u8]>::to_vec);
                let time = time.ok_or(Misread("an element without a time of writing"))?;
                push(part(0), part(1).unwrap_or_default(), Some(time), ttl)?;
            }
            Ok(())
        }
    }
}

/// The parts of a collection, `per_element` of each element.
fn elements(bytes: Option<&[u8]>, per_element: usize) -> Result<Vec<Option<&[u8]>>, Misread> {
    let short = Misread("a collection is too short");
    let mut rest = bytes.ok_or(Misread("a collection is missing"))?;
    let number = |rest: &mut &[u8]| -> Result<i32, Misread> {
        let (first, others) = rest.split_first_chunk().ok_or(short)?;
        *rest = others;
        Ok(i32::from_be_bytes(*first))
    };
    let count = usize::try_from(number(&mut rest)?).map_err(|_| short)?;
    let count = count.saturating_mul(per_element);
    let mut found = Vec::new();
    for _ in 0..count {
        let part = match usize::try_from(number(&mut rest)?) {
            Err(_) => None,
            Ok(len) => {
                let (part, others) = rest.split_at_checked(len).ok_or(short)?;
                rest = others;
                Some(part)
            }
        };
        found.push(part);
    }
    if !rest.is_empty() {
        return Err(Misread("a collection is too long"));
    }
    Ok(found)
}

/// A collection of these parts.
pub(crate) fn collection(count: usize, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = (count as i32).to_be_bytes().to_vec();
    for part in parts {
        bytes.extend((part.len() as i32).to_be_bytes());
        bytes.extend(*part);
    }
    bytes
}

impl Row {
    /// Names the row among those of its table.
    pub fn key_hash(&self) -> u128 {
        let mut bytes = Vec::new();
        self.put_key(&mut bytes);
        hash(&bytes)
    }

    /// Differs between rows that differ, but for the time that is left to values that expire.
    pub(crate) fn hash(&self) -> u128 {
        let mut bytes = Vec::new();
        self.put_key(&mut bytes);
        for cell in &self.cells {
            bytes.extend((cell.column as u64).to_be_bytes());
            put(&mut bytes, cell.element.as_ref());
            put(&mut bytes, Some(&cell.value));
            bytes.extend(cell.timestamp.unwrap_or(0).to_be_bytes());
            bytes.push(u8::from(cell.ttl > 0));
        }
        hash(&bytes)
    }

    fn put_key(&self, bytes: &mut Vec<u8>) {
        for value in &self.partition {
            put(bytes, value.as_ref());
        }
        match &self.clustering {
            None => bytes.push(0),
            Some(clustering) => {
                bytes.push(1);
                clustering
                    .iter()
                    .for_each(|value| put(bytes, value.as_ref()));
            }
        }
    }

    /// The values of its primary key.
    pub fn key(&self) -> Vec<Bytes> {
        let clustering = self.clustering.iter().flatten();
        self.partition.iter().chain(clustering).cloned().collect()
    }

    pub fn is_static(&self) -> bool {
        self.clustering.is_none()
    }

    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        let keys = self
            .partition
            .iter()
            .chain(self.clustering.iter().flatten());
        let keys = keys.flatten().map(Vec::len);
        let cells = self.cells.iter().map(|cell| {
            let element = cell.element.as_ref().map_or(0, Vec::len);
            std::mem::size_of::<Cell>() + element + cell.value.len()
        });
        keys.chain(cells).sum()
    }

    /// Its key, and the times of its cells without their values: enough to delete them.
    pub fn times_alone(mut self) -> Row {
        for cell in &mut self.cells {
            cell.value = Vec::new();
        }
        self
    }

    /// Its key alone.
    pub fn without_values(self) -> Row {
        Row {
            cells: Vec::new(),
            ..self
        }
    }
}

fn put(bytes: &mut Vec<u8>, value: Option<&Vec<u8>>) {
    let len = value.map_or(-1, |value| value.len() as i64);
    bytes.extend(len.to_be_bytes());
    bytes.extend(value.into_iter().flatten());
}

fn hash(bytes: &[u8]) -> u128 {
    let digest = digest(&SHA256, bytes);
    let first = digest.as_ref().first_chunk().copied();
    u128::from_be_bytes(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_have_other_hashes() {
        let cell = |column: usize, value: &[u8], timestamp: i64| Cell {
            column,
            element: None,
            value: value.to_vec(),
            timestamp: Some(timestamp),
            ttl: 0,
        };
        let row = |partition: &[u8], clustering: Option<&[u8]>, cells: Vec<Cell>| Row {
            partition: vec![Some(partition.to_vec())],
            clustering: clustering.map(|key| vec![Some(key.to_vec())]),
            cells,
        };
        let one = row(b"a", Some(b"b"), vec![cell(0, b"x", 1)]);
        let expires = |seconds: i32| {
            let mut row = one.clone();
            row.cells[0].ttl = seconds;
            row
        };
        assert_eq!(
            expires(5).hash(),
            expires(90).hash(),
            "what is left to it does not count"
        );
        let mut element = one.clone();
        element.cells[0].element = Some(Vec::new());
        let others = [
            row(b"ab", Some(b""), vec![cell(0, b"x", 1)]),
            row(b"a", None, vec![cell(0, b"x", 1)]),
            row(b"a", Some(b"b"), vec![cell(1, b"x", 1)]),
            row(b"a", Some(b"b"), vec![cell(0, b"x", 2)]),
            row(b"a", Some(b"b"), vec![cell(0, b"", 1)]),
            expires(5),
            element,
        ];
        for other in others {
            assert_ne!(one.hash(), other.hash(), "{other:?}");
        }
        let changed = row(b"a", Some(b"b"), Vec::new());
        assert_eq!(one.key_hash(), changed.key_hash());
    }

    #[test]
    fn sets_and_maps_are_read_with_the_times_of_their_elements() {
        let number = |n: i64| n.to_be_bytes();
        let times = collection(2, &[&number(5), &number(6)]);
        let mut lives = 2i32.to_be_bytes().to_vec();
        lives.extend((-1i32).to_be_bytes());
        lives.extend(4i32.to_be_bytes());
        lives.extend(60i32.to_be_bytes());
        let map = collection(2, &[b"k", b"v", b"l", b""]);
        let read = |shape: Shape, value: &[u8]| {
            let cells = [&times, &lives, value].map(|bytes: &[u8]| Some(bytes.to_vec()));
            let mut into = Vec::new();
            read_column(&mut into, &mut cells.into_iter(), 3, shape).map(|()| into)
        };
        let found = read(Shape::Map, &map).expect("a map");
        let found: Vec<_> = found
            .iter()
            .map(|c| (&c.element, &*c.value, c.timestamp, c.ttl))
            .collect();
        let (k, l) = (Some(b"k".to_vec()), Some(b"l".to_vec()));
        assert_eq!(found, [(&k, &b"v"[..], Some(5), 0), (&l, b"", Some(6), 60)]);
        let set = collection(2, &[b"k", b"l"]);
        assert_eq!(read(Shape::Set, &set).expect("a set")[1].element, l);
        assert!(read(Shape::Map, &set).is_err());
        assert!(read(Shape::Set, &map[..map.len() - 1]).is_err());
        assert!(read(Shape::Set, &collection(1, &[b"k"])).is_err());
        assert!(read(Shape::Set, b"\x7f\xff\xff\xff").is_err());
    }
}
