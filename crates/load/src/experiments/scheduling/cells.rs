//! What is done in the cells of the experiment, the cells' names, and settings of the report.

use super::further::{Further, FurtherCell, has_own_tables};
use super::mix::{Mix, Mixed};
use super::pages::PAGE_ROWS;
use super::plain::PlainCell;
use super::queries::SEVERAL;
use super::selection::CellKind;
use super::tables::{Index, Order};
use super::{Scheduling, Storm};
use crate::experiments::arms::describe;
use crate::report::Report;

#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Mixed(Mixed),
    /// One client reads whole tables on an otherwise idle cluster.
    IdleScan,
    /// One client runs aggregates over whole tables.
    IdleAggregates,
    /// This many clients read several keys at a time by `IN`.
    Several(usize),
    /// The point reads of the storm, without the storm.
    Unloaded(Storm),
    Storm(Storm),
    /// A plain client with few connections.
    Plain(PlainCell),
    Further(FurtherCell),
}

impl Job {
    pub(super) fn kind(self) -> CellKind {
        match self {
            Job::Mixed(_) => CellKind::Mixed,
            Job::IdleScan => CellKind::Idle,
            Job::IdleAggregates => CellKind::Aggregates,
            Job::Several(_) => CellKind::In,
            Job::Unloaded(_) | Job::Storm(_) => CellKind::Storm,
            Job::Plain(_) => CellKind::Plain,
            Job::Further(cell) => cell.kind(),
        }
    }
}

pub(super) const IDLE: &str = "whole tables, one client";
pub(super) const IDLE_AGGREGATES: &str = "aggregates of whole tables, one client";
/// Numbers of clients of the `IN` cells.
pub(super) const SEVERAL_CLIENTS: [usize; 2] = [1, 32];

pub(super) fn several(clients: usize) -> String {
    format!("{SEVERAL} keys by IN, {clients} clients")
}

pub(super) fn mixed_name(mix: Mix, clients: usize) -> String {
    format!("{mix}, {clients} clients")
}

pub(super) fn unloaded(storm: Storm) -> String {
    format!("points alone, {}/s", storm.points_per_second)
}

pub(super) fn storm_points(storm: Storm) -> String {
    let (rate, clients) = (storm.points_per_second, storm.scan_clients);
    format!("points, {rate}/s beside {clients} scanning clients")
}

pub(super) fn storm_scans(storm: Storm) -> String {
    format!("scans, {} clients in the storm", storm.scan_clients)
}

impl Scheduling {
    fn describe_further(&self, further: &Further, report: &mut Report) {
        let wide = &further.wide;
        let of_wide = [
            ("wide partitions", wide.partitions),
            ("rows of a wide partition", wide.rows),
            ("rows with an index", further.indexed.rows),
        ];
        let settings = of_wide.map(|(name, number)| (name.to_owned(), number.to_string()));
        report.settings.extend(settings);
        report.notes.push(format!(
            "An open loop sends {:.0} % of the queries per second that the direct driver has answered \
             to {} clients in the same round; latency counts from when a query was due. Look-ups in \
             an index count as point reads.",
            further.open_share * 100.0,
            further.capacity_clients
        ));
    }

    pub(super) fn describe(&self, report: &mut Report, index: &Index) {
        let tables = &self.tables;
        let settings = [
            ("tables", tables.count.to_string()),
            ("rows of a table", tables.rows.to_string()),
            ("bytes of a row", tables.row_bytes.to_string()),
            ("rows of a scan, at most", tables.scan_rows_max.to_string()),
            ("rows of a page", PAGE_ROWS.to_string()),
            (
                "scans start at",
                match index.order() {
                    Order::Tokens => "a token, uniform over the ring",
                    Order::Keys => "a key, uniform over the keys",
                }
                .into(),
            ),
            ("driver sessions of an arm", self.sessions.to_string()),
            (
                "client's time-out in seconds",
                self.time_out.as_secs_f64().to_string(),
            ),
            ("page cache emptied", self.drop_caches.to_string()),
        ];
        let endpoint = &self.arms[0].endpoint;
        describe(report, endpoint, tables.replication, self.seed, settings);
        report.notes.extend(
            [
                "The means and percentiles that are compared count a failed query with the client's \
                 time-out; the number of failures is reported beside them.",
                "A driver opens its connections to each node, and so more of them to a cluster than \
                 to one proxy.",
                "Scans have no partition key: the token-aware driver sends them to any node.",
            ]
            .map(str::to_owned),
        );
        if let Some(plain) = self.plain() {
            let (table, connections) = (&plain.tables, plain.connections);
            report.settings.extend([
                ("plain client's connections".into(), connections.to_string()),
                (
                    "rows of the plain client's table".into(),
                    table.rows.to_string(),
                ),
            ]);
            report.notes.push(format!(
                "The plain client's {connections} connections lead to the nodes in turn, or all to \
                 the proxy; it does not route by token. Where points have connections of their own, \
                 there are {connections} more for them."
            ));
        }
        let is_further = |kind: &CellKind| has_own_tables(*kind) || *kind == CellKind::OpenLoop;
        if let Some(further) = &self.further
            && self.kinds.iter().any(is_further)
        {
            self.describe_further(further, report);
        }
        if tables.replication == 1 {
            report
                .notes
                .push("Replication 1, as in the paper: each row is on one node.".into());
        }
    }
}
