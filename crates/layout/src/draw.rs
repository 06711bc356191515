//! Makes queries from a statement whose values are not known: they are drawn from the sample.
//!
//! A query asks for what exists: the values of all columns bound by `=` come from one row, so that
//! they occur together, and frequent values are drawn more often.

use std::ops::Bound as Limit;

use crate::column_set::ColumnSet;
use crate::query::{Query, Restriction};
use crate::rng::Rng;
use crate::sample::Sample;
use crate::value::Value;

/// A value in a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Marker {
    Known(Value),
    Drawn,
}

/// One side of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub value: Marker,
    pub inclusive: bool,
}

/// A statement's restriction of one column.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StatementColumn {
    #[default]
    None,
    Equal(Marker),
    Listed(Vec<Marker>),
    Range {
        low: Option<Bound>,
        high: Option<Bound>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// One for each column of the table.
    pub columns: Vec<StatementColumn>,
    pub ordered: bool,
    pub limit: Option<u64>,
    pub weight: f64,
    /// The share of rows in a range with drawn bounds. Without it, bounds are values of rows drawn at
    /// random, so that a range with two holds a third of the rows on average, one with one half.
    pub range_share: Option<f64>,
}

/// `count` queries of a statement, which together have its weight; one if nothing has to be drawn,
/// and none if the sample has no rows to draw from. They belong to the statement `number`.
pub fn draw(
    statement: &Statement,
    number: usize,
    sample: &Sample,
    count: usize,
    seed: u64,
) -> Vec<Query> {
    let drawn = statement.columns.iter().any(StatementColumn::is_drawn);
    let count = match drawn {
        true if sample.rows() == 0 => 0,
        true => count.max(1),
        false => 1,
    };
    let mut rng = Rng::new(seed);
    let mut one = || {
        let row = rng.below(sample.rows());
        let columns = statement.columns.iter().enumerate();
        let mut restriction = |(column, wanted): (usize, &StatementColumn)| {
            let mut dice = Dice {
                sample,
                row,
                column,
                rng: &mut rng,
            };
            dice.restriction(wanted, statement.range_share)
        };
        Query {
            restrictions: columns.map(&mut restriction).collect(),
            ordered: statement.ordered,
            limit: statement.limit,
            weight: statement.weight / count as f64,
            statement: number,
        }
    };
    (0..count).map(|_| one()).collect()
}

impl Statement {
    /// Columns bound by `=` or `IN`.
    pub fn bound(&self) -> ColumnSet {
        let bound = |c: &StatementColumn| {
            matches!(c, StatementColumn::Equal(_) | StatementColumn::Listed(_))
        };
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(_, c)| bound(c))
            .map(|(at, _)| at)
            .collect()
    }
}

impl StatementColumn {
    fn is_drawn(&self) -> bool {
        let drawn =
            |bound: &Option<Bound>| bound.as_ref().is_some_and(|b| b.value == Marker::Drawn);
        match self {
            StatementColumn::None => false,
            StatementColumn::Equal(value) => *value == Marker::Drawn,
            StatementColumn::Listed(values) => values.contains(&Marker::Drawn),
            StatementColumn::Range { low, high } => drawn(low) || drawn(high),
        }
    }
}

/// Draws values of one column, for a query about one row.
struct Dice<'a> {
    sample: &'a Sample,
    row: usize,
    column: usize,
    rng: &'a mut Rng,
}

impl Dice<'_> {
    fn restriction(&mut self, wanted: &StatementColumn, share: Option<f64>) -> Restriction {
        match wanted {
            StatementColumn::None => Restriction::None,
            StatementColumn::Equal(Marker::Known(value)) => Restriction::Equal(value.clone()),
            StatementColumn::Equal(Marker::Drawn) => Restriction::Equal(self.value_of(self.row)),
            StatementColumn::Listed(values) => Restriction::Listed(self.listed(values)),
            StatementColumn::Range { low, high } => {
                let [below, above] = match (low, high) {
                    (Some(_), Some(_)) => self.ends(share),
                    (low, _) => self.end(share, low.is_some()),
                };
                Restriction::Range {
                    low: limit(low.as_ref(), below),
                    high: limit(high.as_ref(), above),
                }
            }
        }
    }

    fn value_of(&self, row: usize) -> Value {
        self.sample
            .value(row, self.column)
            .cloned()
            .unwrap_or(Value::Null)
    }

    /// The row's own value and others, each once as far as that is easily had.
    fn listed(&mut self, wanted: &[Marker]) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::with_capacity(wanted.len());
        for marker in wanted {
            let mut value = match marker {
                Marker::Known(value) => value.clone(),
                Marker::Drawn => self.value_of(self.row),
            };
            for _ in 0..8 {
                if *marker == Marker::Drawn && values.contains(&value) {
                    let row = self.rng.below(self.sample.rows());
                    value = self.value_of(row);
                }
            }
            values.push(value);
        }
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The end of a range that is open on the other side. Only one of the two values is used.
    fn end(&mut self, share: Option<f64>, is_low: bool) -> [Value; 2] {
        let share = share.map(|share| if is_low { 1.0 - share } else { share });
        let share = share.unwrap_or_else(|| self.rng.unit());
        let value = self.sample.quantile(self.column, share.clamp(0.0, 1.0));
        [(); 2].map(|()| value.cloned().unwrap_or(Value::Null))
    }

    /// The ends of a range with this share of the rows around the row, or between two rows drawn at
    /// random.
    fn ends(&mut self, share: Option<f64>) -> [Value; 2] {
        let Some(share) = share else {
            let [a, b] = [(); 2].map(|()| self.rng.below(self.sample.rows()));
            let (a, b) = (self.value_of(a), self.value_of(b));
            return if a <= b { [a, b] } else { [b, a] };
        };
        let share = share.clamp(0.0, 1.0);
        let at = self.sample.share_below(self.row, self.column);
        let start = (at - share * self.rng.unit()).clamp(0.0, 1.0 - share);
        let quantile = |share| self.sample.quantile(self.column, share).cloned();
        [start, start + share].map(|share| quantile(share).unwrap_or(Value::Null))
    }
}

fn limit(bound: Option<&Bound>, drawn: Value) -> Limit<Value> {
    let Some(bound) = bound else {
        return Limit::Unbounded;
    };
    let value = match &bound.value {
        Marker::Known(value) => value.clone(),
        Marker::Drawn => drawn,
    };
    match bound.inclusive {
        true => Limit::Included(value),
        false => Limit::Excluded(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        let rows =
            (0..1000).map(|n| vec![Value::Int(n % 20), Value::Int(n % 20 + 100), Value::Int(n)]);
        Sample::new(3, rows.collect()).expect("three values each")
    }

    fn statement(columns: Vec<StatementColumn>, range_share: Option<f64>) -> Statement {
        Statement {
            columns,
            ordered: false,
            limit: None,
            weight: 2.0,
            range_share,
        }
    }

    fn end(value: Marker) -> Option<Bound> {
        let inclusive = true;
        Some(Bound { value, inclusive })
    }

    fn shares(statement: &Statement) -> Vec<f64> {
        let sample = sample();
        let queries = draw(statement, 0, &sample, 100, 5);
        let share = |q: &Query| sample.matching(2, &q.restrictions[2]).count() as f64 / 1000.0;
        queries.iter().map(share).collect()
    }

    #[test]
    fn values_of_one_query_occur_together() {
        let equal = || StatementColumn::Equal(Marker::Drawn);
        let statement = statement(vec![equal(), equal(), StatementColumn::None], None);
        let queries = draw(&statement, 4, &sample(), 50, 9);
        assert_eq!(queries.len(), 50);
        assert!((queries.iter().map(|q| q.weight).sum::<f64>() - 2.0).abs() < 1e-9);
        let mut seen = Vec::new();
        for query in queries {
            assert_eq!(query.statement, 4);
            let [
                Restriction::Equal(Value::Int(a)),
                Restriction::Equal(Value::Int(b)),
                Restriction::None,
            ] = &query.restrictions[..]
            else {
                panic!("{query:?}");
            };
            assert_eq!(a + 100, *b);
            seen.push(*a);
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 10, "{seen:?}");
    }

    #[test]
    fn ranges_have_the_share_that_is_asked_for() {
        let none = || StatementColumn::None;
        let range = |low, high| vec![none(), none(), StatementColumn::Range { low, high }];
        let drawn = || end(Marker::Drawn);
        for columns in [
            range(drawn(), drawn()),
            range(drawn(), None),
            range(None, drawn()),
        ] {
            for share in shares(&statement(columns, Some(0.1))) {
                assert!((0.099..=0.102).contains(&share), "{share}");
            }
        }
        let mean = |shares: Vec<f64>| shares.iter().sum::<f64>() / shares.len() as f64;
        let third = mean(shares(&statement(range(drawn(), drawn()), None)));
        assert!((0.25..0.42).contains(&third), "{third}");
        let half = mean(shares(&statement(range(drawn(), None), None)));
        assert!((0.4..0.6).contains(&half), "{half}");
    }

    #[test]
    fn known_values_need_no_dice() {
        let known = StatementColumn::Equal(Marker::Known(Value::Int(7)));
        let columns = vec![known, StatementColumn::None, StatementColumn::None];
        let queries = draw(&statement(columns, None), 0, &sample(), 50, 9);
        assert_eq!(queries.len(), 1);
        assert_eq!(
            queries[0].restrictions[0],
            Restriction::Equal(Value::Int(7))
        );
    }

    #[test]
    fn a_list_has_different_values() {
        let list = StatementColumn::Listed(vec![Marker::Drawn; 3]);
        let columns = vec![list, StatementColumn::None, StatementColumn::None];
        for query in draw(&statement(columns, None), 0, &sample(), 50, 1) {
            assert_eq!(query.combinations(query.bound()), 3.0);
        }
    }
}
