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
    TooMany,
}

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
        let counts = columns.iter().map(Vec::len);
        let count = counts.fold(Some(1_usize), |all, count| all?.checked_mul(count));
        let count = count.ok_or(NoKeys::TooMany)?;
        Ok(Keys { columns, count })
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

/// Sorts values as their type does, each once. One alone has no order.
fn sort(all: &mut Vec<Box<[u8]>>, cql_type: &str) -> Result<(), NoKeys> {
    all.sort_unstable();
    all.dedup();
    if all.len() < 2 {
        return Ok(());
    }
    let order = Order::of_name(cql_type).ok_or(NoKeys::Order)?;
    let is_known = |value: &Box<[u8]>| order.compare(value, value).is_some();
    if !all.iter().all(is_known) {
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
    let count = reader.i32().ok()?;
    let all = (0..count).map(|_| Some(reader.bytes().ok()??.into()));
    let all = all.collect::<Option<_>>()?;
    reader.is_empty().then_some(all)
}
