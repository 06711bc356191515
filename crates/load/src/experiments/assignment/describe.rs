//! Settings of the experiment, and caveats, as the report states them.

use super::experiment::Assignment;
use crate::experiments::arms::describe;
use crate::report::Report;

impl Assignment {
    pub(super) fn describe(&self, report: &mut Report) {
        let levels: Vec<String> = self.levels.iter().map(|l| format!("{l:?}")).collect();
        let seconds = |time: std::time::Duration| time.as_secs_f64().to_string();
        let settings = [
            ("records", self.users.records.to_string()),
            ("consistency", levels.join(", ")),
            ("rows of a scan, at most", self.scan_rows_max.to_string()),
            (
                "reads per second with one node at fault",
                self.rate_per_second.to_string(),
            ),
            (
                "seconds for which a node is frozen, stalls or compacts",
                seconds(self.freeze),
            ),
            ("seconds per cell", seconds(self.cell_time)),
            ("seconds of warm-up per cell", seconds(self.cell_warmup)),
            ("client's time-out in seconds", seconds(self.time_out)),
        ];
        let (endpoint, replication) = (&self.arms[0].endpoint, self.users.replication);
        describe(report, endpoint, replication, self.seed, settings);
        report.notes.push(
            "A driver opens its connections to each node, and so more of them to a cluster than to \
             one proxy."
                .into(),
        );
        report.notes.push(
            "In the compared percentiles a failed request counts with the client's time-out. A \
             direct arm's keys have its name as prefix; so do those of Helenus with an assignment \
             policy of its own."
                .into(),
        );
    }
}
