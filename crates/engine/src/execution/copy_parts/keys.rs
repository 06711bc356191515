//! The partition keys of a read with `IN`: in the order of their types, column by column, each once, as nodes take
//! them.

use std::cmp::Ordering;

use helenus_cql::{KeyColumnValues, Literal, Term, encode_literal};
use helenus_policy::token::composite_key;
use helenus_wire::{Reader, ValueRef};

use crate::snapshot::KeyColumn;
use crate::statement::order::Order;

/// All combinations of the values of the columns; the last column changes first.
#[derive(Debug)]
pub(crate) struct Keys {
    columns: Box<[Vec<Box<[u8]>>]>,
    count: usize,
}

/// Why the keys are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKeys {
    /// A value is missing, null, or of another form.
    Value,
    /// In which order nodes take them.
    Order,
    /// One of them is none that a node takes.
    Length,
    /// So many are named.
    TooMany(usize),
}

/// More keys are not looked at one by one: other clients would have to wait for that.
pub(crate) const KEYS_MAX: usize = 10_000;

impl Keys {
    /// `values`: those bound, in the order of the statement's markers.
    pub(crate) fn of(
        columns: &[KeyColumnValues],
        key: &[KeyColumn],
        values: &[ValueRef<'_>],
    ) -> Result<Keys, NoKeys> {
        if columns.len() != key.len() {
            return Err(NoKeys::Value);
        }
        is_bounded(columns, values)?;
        let of_column = |(said, column): (&KeyColumnValues, &KeyColumn)| {
            let cql_type = &*column.cql_type;
            let mut all = match said {
                KeyColumnValues::One(term) => vec![value(term, cql_type, values)?],
                KeyColumnValues::Each(terms) => {
                    let all = terms.iter().map(|term| value(term, cql_type, values));
                    all.collect::<Result<_, _>>()?
                }
                KeyColumnValues::List(term) => list(bound(term, values)?).ok_or(NoKeys::Value)?,
            };
            sort(&mut all, cql_type)?;
            Ok(all)
        };
        let columns: Box<[_]> = columns
            .iter()
            .zip(key)
            .map(of_column)
            .collect::<Result<_, _>>()?;
        let count = columns.iter().map(Vec::len).product();
        let keys = Keys { columns, count };
        match count == 0 || keys.are_taken() {
            true => Ok(keys),
            false => Err(NoKeys::Length),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes that they take.
    pub(crate) fn byte_len(&self) -> usize {
        let values = self.columns.iter().flatten();
        values
            .map(|value| size_of::<Box<[u8]>>() + value.len())
            .sum()
    }

    /// A column's value in the key of this number.
    pub(crate) fn column(&self, key: usize, column: usize) -> Option<&[u8]> {
        let behind = self.columns.get(column + 1..)?.iter().map(Vec::len);
        let step: usize = behind.product();
        let values = self.columns.get(column)?;
        let at = key.checked_div(step)?.checked_rem(values.len())?;
        values.get(at).map(|value| &**value)
    }

    /// The partition key of this number; `None` if it is none that a node would take.
    pub(crate) fn key(&self, key: usize) -> Option<Vec<u8>> {
        let columns = (0..self.columns.len()).map(|column| self.column(key, column));
        let columns: Vec<&[u8]> = columns.collect::<Option<_>>()?;
        let mut out = Vec::new();
        let is_one = key < self.count && composite_key(columns.into_iter(), &mut out);
        (is_one && !out.is_empty()).then_some(out)
    }

    /// Whether nodes take all of them: the longest value of each column makes the longest key, and the
    /// shortest the shortest.
    fn are_taken(&self) -> bool {
        let is_taken = |longest: bool| {
            let of_column = |values: &Vec<Box<[u8]>>| {
                let all = values.iter().enumerate();
                let at = match longest {
                    true => all.max_by_key(|(_, value)| value.len()),
                    false => all.min_by_key(|(_, value)| value.len()),
                };
                at.map_or(0, |(at, _)| at)
            };
            let number =
                |number: usize, values: &Vec<Box<[u8]>>| number * values.len() + of_column(values);
            self.key(self.columns.iter().fold(0, number)).is_some()
        };
        is_taken(true) && is_taken(false)
    }

    /// The number of a partition key.
    pub(crate) fn number_of(&self, key: &[u8]) -> Option<usize> {
        let mut parts = Vec::with_capacity(self.columns.len());
        match self.columns.len() {
            1 => parts.push(key),
            _ => {
                let mut reader = Reader::new(key);
                for _ in &self.columns {
                    let len = reader.u16().ok()?;
                    parts.push(reader.take(usize::from(len)).ok()?);
                    reader.u8().ok().filter(|end| *end == 0)?;
                }
                reader.is_empty().then_some(())?;
            }
        }
        let mut number = 0;
        for (values, part) in self.columns.iter().zip(parts) {
            let at = values.iter().position(|value| **value == *part)?;
            number = number * values.len() + at;
        }
        Some(number)
    }
}

/// Whether so few keys are named that they are looked at, by what is said of their number.
fn is_bounded(columns: &[KeyColumnValues], values: &[ValueRef<'_>]) -> Result<(), NoKeys> {
    let mut product = 1_usize;
    for said in columns {
        let count = match said {
            KeyColumnValues::One(_) => 1,
            KeyColumnValues::Each(terms) => terms.len(),
            KeyColumnValues::List(term) => {
                let count = Reader::new(bound(term, values)?).i32();
                let count = count.ok().and_then(|count| usize::try_from(count).ok());
                count.ok_or(NoKeys::Value)?
            }
        };
        // A list that is empty leaves none, but the others would be sorted all the same.
        product = product.saturating_mul(count.max(1));
    }
    match product > KEYS_MAX {
        true => Err(NoKeys::TooMany(product)),
        false => Ok(()),
    }
}

/// Sorts values as their type does, each once. One alone has no order.
fn sort(all: &mut Vec<Box<[u8]>>, cql_type: &str) -> Result<(), NoKeys> {
    all.sort_unstable();
    all.dedup();
    if all.len() < 2 {
        return Ok(());
    }
    let order = Order::of_name(cql_type).ok_or(NoKeys::Order)?;
    let mut values = all.iter();
    if !values.all(|value| order.compare(value, value).is_some()) {
        return Err(NoKeys::Value);
    }
    all.sort_by(|one, other| order.compare(one, other).unwrap_or(Ordering::Equal));
    Ok(())
}

fn value(term: &Term, cql_type: &str, values: &[ValueRef<'_>]) -> Result<Box<[u8]>, NoKeys> {
    match term {
        Term::Literal(Literal::Null) => Err(NoKeys::Value),
        Term::Literal(literal) => {
            let bytes = encode_literal(literal, cql_type).ok_or(NoKeys::Value)?;
            Ok(bytes.into())
        }
        term => bound(term, values).map(Into::into),
    }
}

fn bound<'a>(term: &Term, values: &[ValueRef<'a>]) -> Result<&'a [u8], NoKeys> {
    let (Term::Marker(index) | Term::NamedMarker(index)) = term else {
        return Err(NoKeys::Value);
    };
    match values.get(usize::from(*index)) {
        Some(ValueRef::Set(bytes)) => Ok(bytes),
        _ => Err(NoKeys::Value),
    }
}

/// The values of a list; `None` if one is null, or it is none.
fn list(bytes: &[u8]) -> Option<Vec<Box<[u8]>>> {
    let mut reader = Reader::new(bytes);
    let count = u32::try_from(reader.i32().ok()?).ok()?;
    let all = (0..count).map(|_| Some(reader.bytes().ok()??.into()));
    let all = all.collect::<Option<_>>()?;
    reader.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use helenus_cql::{facts, one_key};
    use helenus_wire::write;

    use super::*;

    fn keys(text: &str, types: [&str; 2], values: &[ValueRef<'_>]) -> Result<Keys, NoKeys> {
        let made = one_key(text, &facts(text), &["a", "b"]).expect("keys");
        let column = |name: &str, cql_type: &str| KeyColumn {
            name: name.into(),
            cql_type: cql_type.into(),
        };
        let key = [column("a", types[0]), column("b", types[1])];
        Keys::of(&made.columns, &key, values)
    }

    fn list(values: &[i32]) -> Vec<u8> {
        let mut out = Vec::new();
        write::i32(&mut out, values.len() as i32);
        for value in values {
            write::bytes(&mut out, Some(&value.to_be_bytes()));
        }
        out
    }

    #[test]
    fn keys_come_in_the_order_of_their_columns_types_each_once() {
        let text = "SELECT * FROM t WHERE b IN (?, 'x', 'a', 'x') AND a IN ?";
        let list = list(&[3, -1, 3]);
        let values = [ValueRef::Set(&b"k"[..]), ValueRef::Set(&list)];
        let keys = keys(text, ["int", "text"], &values).expect("keys");
        let expected: Vec<(i32, &[u8])> = [-1, 3]
            .into_iter()
            .flat_map(|a| [b"a", b"k", b"x"].map(|b| (a, &b[..])))
            .collect();
        assert_eq!(keys.count(), expected.len());
        for (number, (a, b)) in expected.into_iter().enumerate() {
            let (a, mut key) = (a.to_be_bytes(), Vec::new());
            assert_eq!(keys.column(number, 0), Some(&a[..]));
            assert_eq!(keys.column(number, 1), Some(b));
            composite_key([&a[..], b].into_iter(), &mut key);
            assert_eq!(keys.key(number), Some(key.clone()));
            assert_eq!(keys.number_of(&key), Some(number));
            key.push(0);
            assert_eq!(keys.number_of(&key), None, "one byte more");
        }
        assert_eq!(keys.key(6), None, "there are six");
        assert_eq!(
            keys.number_of(b"\0\x04\0\0\0\x07\0\0\x01a\0"),
            None,
            "another one"
        );
        assert_eq!(keys.number_of(b"nonsense"), None);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let text = "SELECT * FROM t WHERE a = 1 AND b IN ?";
        let (two, one, none) = (list(&[1, 2]), list(&[1]), list(&[]));
        let of = |cql_type, value| keys(text, ["int", cql_type], &[value]).map(|keys| keys.count());
        assert_eq!(of("int", ValueRef::Set(&two)), Ok(2));
        assert_eq!(of("varint", ValueRef::Set(&two)), Err(NoKeys::Order));
        assert_eq!(
            of("varint", ValueRef::Set(&one)),
            Ok(1),
            "one alone has no order"
        );
        assert_eq!(of("int", ValueRef::Set(&none)), Ok(0));
        assert_eq!(
            of("bigint", ValueRef::Set(&two)),
            Err(NoKeys::Value),
            "of no such type"
        );
        assert_eq!(of("int", ValueRef::Null), Err(NoKeys::Value));
        assert_eq!(of("int", ValueRef::Set(&two[..9])), Err(NoKeys::Value));
        let mut null = 1_i32.to_be_bytes().to_vec();
        null.extend([0xff; 4]);
        assert_eq!(of("int", ValueRef::Set(&null)), Err(NoKeys::Value));
    }

    #[test]
    fn keys_that_no_node_takes_and_too_many_are_none() {
        let text = "SELECT * FROM t WHERE a = 1 AND b IN (?, ?, 'c')";
        let long = |len: usize| vec![b'x'; len];
        let of = |len: usize| {
            let long = long(len);
            let values = [ValueRef::Set(&b"b"[..]), ValueRef::Set(&long)];
            keys(text, ["int", "text"], &values).map(|keys| keys.count())
        };
        // Four bytes of an int, and three around each value.
        assert_eq!(of(65_535 - 10), Ok(3));
        assert_eq!(of(65_535 - 9), Err(NoKeys::Length));
        assert_eq!(of(70_000), Err(NoKeys::Length));
        assert_eq!(of(0), Ok(3), "one of several columns may be empty");
        let text = "SELECT * FROM t WHERE a IN ? AND b IN ?";
        let product = |a: i32, b: i32| {
            let lists = [a, b].map(|count| list(&(0..count).collect::<Vec<_>>()));
            let values = [ValueRef::Set(&lists[0][..]), ValueRef::Set(&lists[1][..])];
            keys(text, ["int", "int"], &values).map(|keys| keys.count())
        };
        assert_eq!(product(100, 100), Ok(KEYS_MAX));
        assert_eq!(product(101, 100), Err(NoKeys::TooMany(10_100)));
        assert_eq!(product(0, 10_001), Err(NoKeys::TooMany(10_001)));
        // It is its number that counts, before anything is read.
        let mut announced = i32::MAX.to_be_bytes().to_vec();
        announced.extend([0; 9]);
        let one = list(&[1]);
        let values = [ValueRef::Set(&announced[..]), ValueRef::Set(&one[..])];
        let known = keys(text, ["int", "int"], &values).map(|keys| keys.count());
        assert_eq!(known, Err(NoKeys::TooMany(i32::MAX as usize)));
    }
}
