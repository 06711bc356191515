//! The plots of the experiment's page.

use super::cells::{DATA_SHARE, DECODE_US, ENCODE_US, codec_arm, codecs, reads, size, writes};
use super::compare::{extra, node_cpu_us, proxy_cpu_us};
use super::experiment::Payload;
use crate::measure::Phase;
use crate::report::Report;
use crate::report::plot::{Quantity, bars};

impl Payload {
    pub(super) fn plots(&self, report: &Report) -> Vec<String> {
        let arms = self.arms.iter();
        let arms: Vec<&str> = arms.map(|arm| &*arm.arm.endpoint.name).collect();
        let cells = |name: fn(&str) -> String| -> Vec<String> {
            let collections = self.collections.iter();
            collections
                .map(|collection| name(&collection.name))
                .collect()
        };
        let per_second = |phase: &Phase| (phase.ops > 0).then_some(phase.ops_per_second);
        let p99 = |phase: &Phase| (phase.ops > 0).then_some(phase.latency.us_p99 as f64 / 1000.0);
        let mut out = Vec::new();
        let mut draw = |arms: &[&str], title: &str, axis: &str, cells: &[String], of: Quantity| {
            out.extend(bars(report, arms, (title, axis), cells, of));
        };
        draw(
            &arms,
            "Size on disk after compression",
            "of plain JSON",
            &cells(size),
            &extra(DATA_SHARE),
        );
        for (what, cells) in [("Writes", cells(writes)), ("Reads", cells(reads))] {
            let title = |of: &str| format!("{what}: {of}");
            draw(
                &arms,
                &title("throughput"),
                "per second",
                &cells,
                &per_second,
            );
            draw(&arms, &title("99th percentile"), "ms", &cells, &p99);
            let title_of = title("CPU time of the nodes");
            draw(&arms, &title_of, "µs each", &cells, &node_cpu_us);
            let title_of = title("CPU time of the proxy");
            draw(&arms, &title_of, "µs each", &cells, &proxy_cpu_us);
        }
        let names = report.arms.keys();
        let codec_arms: Vec<&str> = names
            .map(String::as_str)
            .filter(|name| name.starts_with(&codec_arm("")))
            .collect();
        for (title, name) in [
            ("Codecs: encoding, with verification", ENCODE_US),
            ("Codecs: decoding", DECODE_US),
        ] {
            let of = extra(name);
            draw(
                &codec_arms,
                title,
                "µs of CPU time per KiB",
                &cells(codecs),
                &of,
            );
        }
        out
    }
}
