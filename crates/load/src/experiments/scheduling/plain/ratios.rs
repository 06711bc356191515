//! Ratios of the plain client's cells: an arm's times and throughput over those of the same client
//! directly at the nodes.

use super::PlainCell;
use crate::experiments::arms::{TOKEN_AWARE, per_round, ratio_key};
use crate::experiments::scheduling::compare::{STATISTICS, latency};
use crate::experiments::scheduling::experiment::{KINDS, Scheduling};
use crate::report::Report;

impl Scheduling {
    /// Over all mixes with the same number of clients: times (smaller is better) and throughput.
    pub(in crate::experiments::scheduling) fn compare_plain(&self, report: &mut Report) {
        let Some(plain) = &self.plain else { return };
        let cells = plain.cells();
        let others = self.arms.iter().map(|arm| &*arm.endpoint.name);
        for arm in others.filter(|name| *name != TOKEN_AWARE) {
            for &clients in &plain.clients {
                for apart in [false, true] {
                    let of_key = |cell: &&PlainCell| cell.clients == clients && cell.apart == apart;
                    let names = cells.iter().filter(of_key).map(PlainCell::name);
                    let names: Vec<String> = names.collect();
                    let prefix = if apart { "plain_apart" } else { "plain" };
                    self.ratios_of_plain(report, arm, &names, prefix, clients);
                }
            }
        }
    }

    fn ratios_of_plain(
        &self,
        report: &mut Report,
        arm: &str,
        cells: &[String],
        prefix: &str,
        clients: usize,
    ) {
        for kind in KINDS {
            for (statistic, of) in STATISTICS {
                let values = per_round(self.rounds, cells, |cell, round| {
                    let value = |arm: &str| {
                        let phase = report.phases(arm, cell).get(round)?;
                        Some(of(&latency(phase, kind)?))
                    };
                    Some(value(arm)? / value(TOKEN_AWARE)?)
                });
                let key = format!("{prefix}_{kind}_{statistic}_vs_direct_{clients}");
                report.set_ratio(ratio_key(arm, &key), &values);
            }
        }
        let values = per_round(self.rounds, cells, |cell, round| {
            let rate = |arm: &str| Some(report.phases(arm, cell).get(round)?.ops_per_second);
            Some(rate(arm)? / rate(TOKEN_AWARE)?)
        });
        let key = format!("{prefix}_throughput_vs_direct_{clients}");
        report.set_ratio(ratio_key(arm, &key), &values);
    }
}
