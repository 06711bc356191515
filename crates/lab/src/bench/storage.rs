//! `helenus bench storage`.

use super::common::{Common, Nodes, tell};
use crate::probe;
use crate::testbed::Proxy;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use helenus_cluster::{Cluster, ClusterSpec, DiskLimits, DiskThrottle};
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::arms::{HELENUS, TOKEN_AWARE};
use helenus_load::experiments::disks::{Disk, Disks, Throttle};
use helenus_load::report::Report;
use helenus_load::storage::Figures;
use helenus_load::workload::kv::Table;
use std::time::Instant;

const NODE: u16 = 1;

#[derive(Args, Debug)]
pub(super) struct StorageArgs {
    #[command(flatten)]
    common: Common,
    /// Numbers of clients; ratios are of the first
    #[arg(long, value_delimiter = ',', default_value = "10", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Vec<u32>,
    /// Writes a second of the disk that is like an HDD
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    hdd_writes: u64,
    /// Its reads a second
    #[arg(long, default_value_t = 110, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    hdd_reads: u64,
    /// Its MiB a second, each way
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    hdd_mib: u64,
    /// When the node makes its commit log durable
    #[arg(long, value_enum, default_value_t = CommitLog::Batch)]
    commit_log: CommitLog,
    /// Bytes per value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Seconds per arm, disk and round [default: 10, or 4 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum CommitLog {
    /// Before each write is answered, as soon as possible
    Batch,
    /// Before each write is answered, every 10 ms
    Group,
    /// Every 10 s: Cassandra's default, with which writes hardly ever wait for the disk
    Periodic,
}

impl CommitLog {
    fn apply(self, spec: ClusterSpec) -> ClusterSpec {
        // Cassandra refuses a period beside the others.
        match self {
            Self::Batch => spec
                .yaml("commitlog_sync", "batch")
                .yaml("commitlog_sync_period", "0ms"),
            Self::Group => spec
                .yaml("commitlog_sync", "group")
                .yaml("commitlog_sync_group_window", "10ms")
                .yaml("commitlog_sync_period", "0ms"),
            Self::Periodic => spec,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Group => "group, 10 ms",
            Self::Periodic => "periodic, 10 s",
        }
    }
}

pub(super) async fn storage(args: StorageArgs) -> Result<()> {
    raise_open_files_limit();
    args.check()?;
    let common = &args.common;
    let adjust = |spec: ClusterSpec| args.commit_log.apply(spec.nodes(1));
    let mut nodes = Nodes::up_with(common, adjust).await?;
    let cluster = nodes.own.as_ref().context("the node is this command's")?;
    let kind = cluster.disk_cap(NODE, DiskLimits::default()).context(
        "without limits on the disk there is nothing to compare; the node's folder is below TMPDIR",
    )?;
    let bar = spinner("storage");
    let began = Instant::now();
    let mut say = narrate(&bar, began);
    say("looking at the disk like an HDD".into());
    cluster.disk_cap(NODE, args.hdd())?;
    let like_hdd = probe::measure_capped(cluster, NODE).await;
    cluster.disk_cap(NODE, DiskLimits::default())?;
    let proxy = Proxy::start_with(&nodes.contact_points, &[]).await?;
    let experiment = args.experiment(&nodes, &proxy)?;
    let mut report = nodes.report("storage", common, experiment.rounds);
    args.describe(&mut report, kind, like_hdd.as_ref());
    nodes.cap_cpu(common, &mut report)?;
    let watched = nodes.watched(common)?;
    let cluster = nodes.own.as_ref().context("the node is this command's")?;
    let mut throttle = NodeDisk {
        cluster,
        hdd: args.hdd(),
    };
    let ran = experiment.run(&mut throttle, &watched, &mut report, &mut say);
    ran.await?;
    bar.finish_and_clear();
    tell(&report, common, None)?;
    drop(proxy);
    nodes.down()
}

struct NodeDisk<'a> {
    cluster: &'a Cluster,
    hdd: DiskLimits,
}

impl Throttle for NodeDisk<'_> {
    fn set(&mut self, disk: Disk) -> Result<()> {
        let limits = match disk {
            Disk::AsItIs => DiskLimits::default(),
            Disk::LikeHdd => self.hdd,
        };
        self.cluster.disk_cap(NODE, limits)?;
        Ok(())
    }
}

impl StorageArgs {
    fn check(&self) -> Result<()> {
        let common = &self.common;
        ensure!(
            common.contact.is_empty() && common.arms.is_empty(),
            "only the disk of a node that this command starts can be limited: leave out --contact and --arm"
        );
        ensure!(
            common.nodes.is_none_or(|nodes| nodes == 1) && common.replication == 1,
            "the experiment has one node: leave out --nodes and --replication"
        );
        ensure!(
            self.cell_seconds
                .is_none_or(|seconds| (1.0..=3600.0).contains(&seconds)),
            "--cell-seconds must be from 1 to 3600"
        );
        common.rounds(3, 5).map(drop)
    }

    fn hdd(&self) -> DiskLimits {
        let bytes = Some(self.hdd_mib << 20);
        DiskLimits {
            reads: Some(self.hdd_reads),
            writes: Some(self.hdd_writes),
            read_bytes: bytes,
            write_bytes: bytes,
        }
    }

    /// Filling many takes long if each waits for the disk.
    fn keys(&self) -> u64 {
        self.common.keys.min(self.common.either(20_000, u64::MAX))
    }

    fn experiment(&self, nodes: &Nodes, proxy: &Proxy) -> Result<Disks> {
        let common = &self.common;
        let contact_points = nodes.contact_points.clone();
        Ok(Disks {
            table: Table {
                keyspace: "helenus_storage".into(),
                table: "kv".into(),
                replication: 1,
                keys: self.keys(),
                value_bytes: self.value_bytes,
            },
            arms: vec![
                common.arm(TOKEN_AWARE, contact_points, Policy::TokenAware),
                common.through(HELENUS, proxy),
            ],
            clients: common.clients(&self.clients, &[], &[]),
            rounds: common.rounds(3, 5)?,
            cell_time: common.span(self.cell_seconds, 4.0, 10.0),
            slices: 2,
            warmup_max: common.span(None, 20.0, 60.0),
            settling: common.span(None, 1.0, 3.0),
            seed: common.seed,
        })
    }

    fn describe(
        &self,
        report: &mut Report,
        kind: DiskThrottle,
        like_hdd: Result<&Figures, &anyhow::Error>,
    ) {
        let mut set = |name: &str, value: String| report.settings.insert(name.into(), value);
        set("commit log", self.commit_log.name().into());
        set("disk like an HDD: writes/s", self.hdd_writes.to_string());
        set("disk like an HDD: reads/s", self.hdd_reads.to_string());
        set("disk like an HDD: MiB/s", self.hdd_mib.to_string());
        set("rows", self.keys().to_string());
        set("seed", self.common.seed.to_string());
        let what = match kind {
            DiskThrottle::Waiting => {
                "version 1: what the node itself waits for, such as syncing the commit log; what the kernel \
                 writes back later is not held back"
            }
            DiskThrottle::All => "version 2: all that the node reads and writes",
        };
        report.notes.push(format!(
            "The disk like an HDD is the node's own, held back by a control group ({what})."
        ));
        report.notes.push(match like_hdd {
            Ok(figures) => format!(
                "Under these limits an append with fdatasync takes {:.1} ms on average and a random read of \
                 4 KiB {:.1} ms; a hard disk of 7,200 rpm takes 8 to 17 and about 9 ms. But the kernel lets \
                 them through in bursts, with pauses of up to about 100 ms in between (p99 of the appends: \
                 {:.0} ms): means compare with a hard disk, percentiles do not.",
                1000.0 / figures.append_syncs_per_second,
                1000.0 / figures.random_reads_per_second,
                figures.append_sync_us_p99 / 1000.0
            ),
            Err(why) => format!("What these limits amount to could not be measured: {why:#}."),
        });
        if self.commit_log == CommitLog::Periodic {
            report.notes.push(
                "With a periodic commit log, writes are answered before the disk has them: differences show \
                 only after minutes, if flushes and compactions fall behind."
                    .into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::parsed;

    fn args(line: &str) -> Result<StorageArgs> {
        let args: StorageArgs = parsed(line)?;
        args.check()?;
        Ok(args)
    }

    #[test]
    fn the_papers_ten_clients_and_a_hard_disk_by_default() {
        let args = args("x").unwrap();
        assert_eq!(args.clients, [10]);
        let limits = args.hdd();
        assert_eq!((limits.reads, limits.writes), (Some(110), Some(200)));
        assert_eq!(limits.write_bytes, Some(120 << 20));
        assert_eq!(args.commit_log, CommitLog::Batch);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "x --contact 127.0.0.1:9042",
            "x --arm a=127.0.0.1:9042",
            "x --nodes 3",
            "x --replication 2",
            "x --hdd-writes 0",
            "x --cell-seconds nan",
            "x --rounds 0",
            "x --commit-log never",
        ] {
            assert!(args(line).is_err(), "{line}");
        }
    }
}
