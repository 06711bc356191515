//! Jobs that progress alike (processor sharing).

use std::collections::BTreeMap;

/// What one of its jobs gets in some time, each gets. The owner says how much that is, in a unit of its own.
#[derive(Debug)]
pub(crate) struct Sharing<J> {
    /// Work that a job would have got that has been there since the beginning.
    pub attained: f64,
    /// By what will have been attained when they end, and how many came before. Positive floats are in the order of
    /// their bits.
    jobs: BTreeMap<(u64, u64), J>,
    came: u64,
}

impl<J> Sharing<J> {
    pub(crate) fn new() -> Self {
        Sharing {
            attained: 0.0,
            jobs: BTreeMap::new(),
            came: 0,
        }
    }

    /// A job comes, which ends when so much is attained.
    pub(crate) fn enter(&mut self, end: f64, job: J) {
        self.jobs.insert((end.to_bits(), self.came), job);
        self.came += 1;
    }

    /// How much is attained when the next job ends.
    pub(crate) fn next_end(&self) -> Option<f64> {
        let ((end, _), _) = self.jobs.first_key_value()?;
        Some(f64::from_bits(*end))
    }

    /// Work until the next job ends.
    pub(crate) fn left(&self) -> Option<f64> {
        Some((self.next_end()? - self.attained).max(0.0))
    }

    /// The next job to end goes.
    pub(crate) fn leave(&mut self) -> Option<J> {
        self.jobs.pop_first().map(|(_, job)| job)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }
}
