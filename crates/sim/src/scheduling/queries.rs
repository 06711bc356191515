//! Queries of clients: the same query of a number in every arm, whoever sends it.

use std::ops::Range;

use super::data::Data;
use super::setup::Setup;
use crate::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub table: u32,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The row of a key.
    Point { row: usize },
    /// Rows above a token, in the order of tokens.
    Scan { above: i64, limit: u32 },
    /// Rows of a whole table that have something which none has.
    Filter { value: i64 },
    /// Writes a row.
    Write { row: usize },
}

/// Rows of a page, as drivers ask for them.
pub(super) const PAGE_ROWS: usize = 5_000;

impl Query {
    pub(super) fn draw(setup: &Setup, data: &Data, number: u64) -> Query {
        let mut dice = Dice::of(setup.seed, 1, number);
        let is_point = dice.below(10) < setup.points_in_ten.into();
        let table = dice.below(setup.tables.into()) as u32;
        // Without them nothing is drawn, so that queries are the same as ever.
        let filters = setup.filters_in_hundred;
        let kind = match is_point {
            false if filters > 0 && dice.below(100) < filters.into() => Kind::Filter {
                value: number as i64,
            },
            true => Kind::Point {
                row: dice.below(data.len() as u64) as usize,
            },
            false => Kind::Scan {
                above: dice.draw() as i64,
                limit: 1 + dice.below(setup.scan_rows_max.into()) as u32,
            },
        };
        Query { table, kind }
    }

    /// One of those that come at a rate.
    pub(super) fn offered(setup: &Setup, data: &Data, number: u64, is_write: bool) -> Query {
        let mut dice = Dice::of(setup.seed, 4, number);
        let table = dice.below(setup.tables.into()) as u32;
        let row = dice.below(data.len() as u64) as usize;
        let kind = match is_write {
            true => Kind::Write { row },
            false => Kind::Point { row },
        };
        Query { table, kind }
    }

    /// The rows that it must be answered with.
    pub(super) fn expected(&self, data: &Data) -> Range<usize> {
        match self.kind {
            Kind::Point { row } => row..row + 1,
            Kind::Scan { above, limit } => {
                let from = data.first_above(above);
                from..(from + limit as usize).min(data.len())
            }
            Kind::Filter { .. } | Kind::Write { .. } => 0..0,
        }
    }
}
