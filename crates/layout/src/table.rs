//! The columns of a table, numbered.

use crate::column_set::{COLUMNS_MAX, ColumnSet};

/// A table's columns as this crate numbers them: first the clustering columns in the table's own
/// order, then those of the partition key, then others that statements restrict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    names: Vec<String>,
    clustering: usize,
    partition: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    #[error("the table has no clustering columns, so there is nothing to sort differently")]
    NothingToSort,
    #[error(
        "key columns and restricted columns are {0} together, {COLUMNS_MAX} at most can be considered"
    )]
    TooManyColumns(usize),
    #[error("column {0} appears twice")]
    Twice(String),
}

impl Table {
    pub fn new(
        clustering: Vec<String>,
        partition: Vec<String>,
        others: Vec<String>,
    ) -> Result<Self, TableError> {
        let (clustering_count, partition_count) = (clustering.len(), partition.len());
        let names: Vec<String> = [clustering, partition, others].concat();
        if clustering_count == 0 {
            return Err(TableError::NothingToSort);
        }
        if names.len() > COLUMNS_MAX {
            return Err(TableError::TooManyColumns(names.len()));
        }
        for (at, name) in names.iter().enumerate() {
            if names.iter().skip(at + 1).any(|other| other == name) {
                return Err(TableError::Twice(name.clone()));
            }
        }
        Ok(Table {
            names,
            clustering: clustering_count,
            partition: partition_count,
        })
    }

    /// All columns.
    pub fn columns(&self) -> usize {
        self.names.len()
    }

    /// Number of clustering columns.
    pub fn clustering(&self) -> usize {
        self.clustering
    }

    pub fn clustering_columns(&self) -> ColumnSet {
        ColumnSet::first(self.clustering)
    }

    pub fn partition_columns(&self) -> ColumnSet {
        (self.clustering..self.clustering + self.partition).collect()
    }

    /// Empty for a number that no column has.
    pub fn name(&self, column: usize) -> &str {
        self.names.get(column).map_or("", String::as_str)
    }

    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }
}
