//! The advice for one table.

use helenus_cql::Name;
use helenus_layout::{CostModel, Design, SampledModel, Work};

use super::arrange::Arranged;
use super::arrange::commands::Target;
use super::coefficients::Costs;
use super::drift::Drift;
use super::learned::Learned;
use super::sample_nodes::Sampled;
use super::workload::Workload;

/// The advice and its basis, as it is shown.
pub(super) struct Report {
    pub workload: Workload,
    pub design: Design,
    /// Of its layouts.
    pub names: Vec<String>,
    pub statements: Vec<StatementReport>,
    /// Clustering columns that change places, if not all do.
    pub permuted: Option<Vec<String>>,
    pub rows_read: u64,
    pub rows_sampled: usize,
    /// Of the table, or of the partitions that were read from the nodes.
    pub rows_total: f64,
    pub sampled: Option<Sampled>,
    pub learned: Option<Learned>,
    /// The design against the layouts in use.
    pub drift: Option<Drift>,
    pub costs: Costs,
    pub queries: usize,
    pub arranged: Arranged,
    /// Of the table, if it is told.
    pub keyspace: Option<Name>,
    /// Options that say where the cluster is, with their values.
    pub access: Vec<String>,
}

/// Means over a statement's queries.
#[derive(Default)]
pub(super) struct StatementReport {
    /// Of the whole workload.
    pub share: f64,
    pub rows_now: f64,
    pub rows_then: f64,
    pub time_now_us: f64,
    pub time_then_us: f64,
    /// Share of its queries that read each layout, and last the table itself.
    pub reads: Vec<f64>,
}

impl StatementReport {
    /// Of the statement with this number.
    pub(super) fn new(model: &SampledModel, design: &Design, number: usize) -> Self {
        let mut report = StatementReport {
            reads: vec![0.0; design.layouts.len() + 1],
            ..StatementReport::default()
        };
        let total: f64 = (0..model.queries()).map(|query| model.weight(query)).sum();
        let time = |work: &Work| model.coefficients().cost_us(work);
        let of_statement =
            |query: &usize| model.query(*query).is_some_and(|q| q.statement == number);
        for query in (0..model.queries()).filter(of_statement) {
            let (read, weight) = (&design.reads[query], model.weight(query));
            report.share += weight / total;
            report.rows_now += weight * read.own_work.rows;
            report.time_now_us += weight * time(&read.own_work);
            // The table has its own order, so it answers what no layout does.
            let work = read.work.as_ref().unwrap_or(&read.own_work);
            report.rows_then += weight * work.rows;
            report.time_then_us += weight * time(work);
            report.reads[read.layout.unwrap_or(design.layouts.len())] += weight;
        }
        let weight = report.share * total;
        report.rows_now /= weight;
        report.time_now_us /= weight;
        report.rows_then /= weight;
        report.time_then_us /= weight;
        for share in &mut report.reads {
            *share /= weight;
        }
        report
    }
}

impl Report {
    /// The name of a layout of the design.
    pub(super) fn name(&self, at: usize) -> &str {
        self.names.get(at).map_or("?", |name| name)
    }

    /// The table, as commands name it.
    pub(super) fn target(&self) -> Target<'_> {
        Target {
            keyspace: self.keyspace.as_ref(),
            schema: &self.workload.schema,
            access: &self.access,
        }
    }
}
