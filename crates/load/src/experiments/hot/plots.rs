//! The plots of the experiment's page.

use super::cells::{Cell, Load};
use super::compare::others_p99_ms;
use super::experiment::Hot;
use crate::report::Report;
use crate::report::plot::{bars, lines};

impl Hot {
    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let arms: Vec<&str> = self.arms.iter().map(|arm| &*arm.endpoint.name).collect();
        let cells = |is_hot: bool| -> Vec<(String, String)> {
            let of = |clients: &usize| {
                let load = Load::Closed(*clients);
                (clients.to_string(), Cell { load, is_hot }.name())
            };
            self.clients.iter().map(of).collect()
        };
        let mut out = Vec::new();
        for (is_hot, title) in [
            (true, "Reads beside a hot key"),
            (false, "Reads without one"),
        ] {
            let heads = (title, "reads/s", "clients");
            let cells = cells(is_hot);
            out.extend(lines(report, &arms, heads, &cells, &|phase| {
                Some(phase.ops_per_second)
            }));
        }
        let open = [false, true].map(|is_hot| {
            let load = Load::Open;
            Cell { load, is_hot }.name()
        });
        let heads = ("Other keys, 99th percentile at the same rate", "ms");
        out.extend(bars(report, &arms, heads, &open, &others_p99_ms));
        out
    }
}
