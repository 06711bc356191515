//! Ratios of these cells: an arm's times over those of the direct token-aware driver.

use super::FurtherCell;
use crate::experiments::arms::{TOKEN_AWARE, ratio_key};
use crate::experiments::scheduling::compare::{MEAN, P99, STATISTICS};
use crate::experiments::scheduling::experiment::{KINDS, Scheduling};
use crate::report::Report;

impl Scheduling {
    pub(in crate::experiments::scheduling) fn compare_further(&self, report: &mut Report) {
        let Some(further) = &self.further else { return };
        let [point, scan] = KINDS;
        let cells = further.cells();
        let names = |of: fn(&FurtherCell) -> bool| -> Vec<String> {
            let chosen = cells.iter().filter(|cell| of(cell));
            chosen.map(|&cell| further.name(cell)).collect()
        };
        let beside = |cell| {
            further
                .beside_name(cell)
                .into_iter()
                .collect::<Vec<String>>()
        };
        let large = names(|cell| *cell == FurtherCell::LargeReads);
        let look_ups = names(|cell| *cell == FurtherCell::LookUps);
        let wide = names(|cell| matches!(cell, FurtherCell::WideScans(_)));
        let open = names(|cell| matches!(cell, FurtherCell::OpenLoop(_)));
        let others = self.arms.iter().map(|arm| &*arm.endpoint.name);
        for arm in others.filter(|name| *name != TOKEN_AWARE) {
            for (key, cells, kind, (_, of)) in [
                ("point_p99_beside_large_reads_vs_direct", &large, point, P99),
                (
                    "point_mean_beside_large_reads_vs_direct",
                    &large,
                    point,
                    MEAN,
                ),
                (
                    "large_read_mean_vs_direct",
                    &beside(FurtherCell::LargeReads),
                    scan,
                    MEAN,
                ),
                (
                    "index_read_p99_beside_scans_vs_direct",
                    &look_ups,
                    point,
                    P99,
                ),
                (
                    "index_read_mean_beside_scans_vs_direct",
                    &look_ups,
                    point,
                    MEAN,
                ),
                (
                    "scan_mean_beside_index_reads_vs_direct",
                    &beside(FurtherCell::LookUps),
                    scan,
                    MEAN,
                ),
                ("wide_partition_scan_vs_direct", &wide, scan, MEAN),
            ] {
                let values = self.quotients(report, arm, cells, kind, of);
                report.set_ratio(ratio_key(arm, key), &values);
            }
            for kind in KINDS {
                for (statistic, of) in STATISTICS {
                    let key = format!("open_loop_{kind}_{statistic}_vs_direct");
                    let values = self.quotients(report, arm, &open, kind, of);
                    report.set_ratio(ratio_key(arm, &key), &values);
                }
            }
        }
    }
}
