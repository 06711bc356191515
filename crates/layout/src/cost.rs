//! Predicts what a query costs on a layout.
//!
//! ```text
//! cost = request + slice · slices + row · rows + kept · kept rows + block · blocks + compare · comparisons
//! ```
//!
//! The paper's model is the special case request + row · rows.
//!
//! Source: Qiao et al., sections 3.1 and 5.1.

use crate::access::Access;
use crate::shape::Shape;

mod calibration;
mod fit;
mod independent;
mod sampled;

#[cfg(test)]
mod tests;

pub use calibration::{Calibration, PARTS, Prediction, Timed, calibrate};
pub use fit::{CONDITION_MAX, Fit, FitError, Measurement, fit};
pub use independent::{IndependentModel, Selectivities};
pub use sampled::{SORT_ROWS_MAX, SampledModel, Storage};

/// A workload of which each query's work on each layout can be predicted. Queries are numbered.
pub trait CostModel {
    fn queries(&self) -> usize;

    fn shape(&self, query: usize) -> Shape;

    /// How often the query is asked, relative to the others.
    fn weight(&self, query: usize) -> f64;

    /// None if a layout that is read in this way cannot answer the query.
    fn work(&self, query: usize, access: &Access) -> Option<Work>;

    fn coefficients(&self) -> Coefficients;
}

/// The work of a query for a node and the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Contiguous slices: partitions times combinations of `IN` values.
    pub slices: f64,
    /// Rows in the slices, whether they are returned or filtered out.
    pub rows: f64,
    /// Those of them that no filter takes out: they are aggregated or returned.
    pub kept: f64,
    /// Blocks of the file that hold them.
    pub blocks: f64,
    /// Comparisons to put the result into the table's order.
    pub comparisons: f64,
}

impl Work {
    /// Of rows that are all kept. Without blocks; [`Storage::blocks`] knows these.
    pub fn new(slices: f64, rows: f64, comparisons: f64) -> Self {
        Work {
            slices,
            rows,
            kept: rows,
            blocks: 0.0,
            comparisons,
        }
    }
}

/// Comparisons to sort so many rows.
pub fn comparisons(rows: f64) -> f64 {
    rows * rows.max(2.0).log2()
}

/// How many coefficients there are.
pub const COEFFICIENTS: usize = 6;

/// Microseconds for each unit of [`Work`], and for each request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    pub request_us: f64,
    pub slice_us: f64,
    pub row_us: f64,
    /// Cost of a row that is kept, on top of [`Coefficients::row_us`].
    pub kept_us: f64,
    pub block_us: f64,
    pub compare_us: f64,
}

impl Coefficients {
    /// Of [`Coefficients::values`].
    pub const NAMES: [&str; COEFFICIENTS] = [
        "request_us",
        "slice_us",
        "row_us",
        "kept_us",
        "block_us",
        "compare_us",
    ];

    pub fn values(&self) -> [f64; COEFFICIENTS] {
        [
            self.request_us,
            self.slice_us,
            self.row_us,
            self.kept_us,
            self.block_us,
            self.compare_us,
        ]
    }

    pub fn of_values(
        [request_us, slice_us, row_us, kept_us, block_us, compare_us]: [f64; COEFFICIENTS],
    ) -> Self {
        Coefficients {
            request_us,
            slice_us,
            row_us,
            kept_us,
            block_us,
            compare_us,
        }
    }

    /// The paper's f(rows) = a · rows + b.
    pub fn linear(row_us: f64, request_us: f64) -> Self {
        Coefficients {
            request_us,
            slice_us: 0.0,
            row_us,
            kept_us: 0.0,
            block_us: 0.0,
            compare_us: 0.0,
        }
    }

    pub fn cost_us(&self, work: &Work) -> f64 {
        self.request_us
            + self.slice_us * work.slices
            + self.row_us * work.rows
            + self.kept_us * work.kept
            + self.block_us * work.blocks
            + self.compare_us * work.comparisons
    }
}

impl Default for Coefficients {
    /// Orders of magnitude of a node whose data is in memory: 200,000 rows filtered in 230 ms, a
    /// read of one row in 0.3 ms. [`fit()`] finds those of a given cluster.
    fn default() -> Self {
        Coefficients {
            request_us: 300.0,
            slice_us: 20.0,
            row_us: 1.1,
            kept_us: 1.0,
            block_us: 15.0,
            compare_us: 0.05,
        }
    }
}
