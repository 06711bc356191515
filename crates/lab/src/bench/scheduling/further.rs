//! Options of the cells beyond the paper's.

use crate::bench::common::check_bounds;
use anyhow::Result;
use clap::Args;
use helenus_load::experiments::scheduling::{Further, Indexed, Mix, Tables, Wide};
use std::time::Duration;

/// Partitions of several pages each; with --quick smaller ones.
const WIDE_ROWS: u64 = 20_000;
const WIDE_ROWS_QUICK: u64 = 8_000;
/// Clients with which direct's capacity is measured: enough to keep all nodes busy, too few to overload
/// them.
const CAPACITY_CLIENTS: usize = 32;

#[derive(Args, Debug)]
pub(super) struct FurtherArgs {
    /// Partitions of the table with wide ones
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    wide_partitions: u64,
    /// Rows of each of them [default: 20000, or 8000 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    wide_rows: Option<u64>,
    /// Rows of the table with an index
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(4..))]
    index_rows: u64,
    /// Clients that read large partitions and 1,000 keys by IN beside point reads
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    readers: u32,
    /// Clients that scan beside look-ups in the index
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scanners: u32,
    /// Point reads per second beside large reads
    #[arg(long, default_value_t = 100.0)]
    point_rate: f64,
    /// Look-ups in the index per second
    #[arg(long, default_value_t = 20.0)]
    look_up_rate: f64,
    /// Rate of the open loop, as a share of what the direct driver can do
    #[arg(long, default_value_t = 0.7)]
    open_share: f64,
    /// Seconds of each cell with a fixed rate [default: 20, or 5 with --quick]
    #[arg(long)]
    fixed_seconds: Option<f64>,
}

impl FurtherArgs {
    pub(super) fn check(&self) -> Result<()> {
        check_bounds([
            ("--point-rate", self.point_rate, 10_000.0),
            ("--look-up-rate", self.look_up_rate, 10_000.0),
            ("--open-share", self.open_share, 1.0),
            ("--fixed-seconds", self.fixed_seconds.unwrap_or(1.0), 3600.0),
        ])
    }

    /// The further cells, with these mixes in open loops.
    pub(super) fn further(&self, tables: &Tables, open_mixes: Vec<Mix>, quick: bool) -> Further {
        let (keyspace, replication) = (tables.keyspace.clone(), tables.replication);
        let choose = |short, long| if quick { short } else { long };
        let seconds = choose(5.0, 20.0);
        Further {
            wide: Wide {
                keyspace: keyspace.clone(),
                replication,
                partitions: self.wide_partitions,
                rows: self.wide_rows.unwrap_or(match quick {
                    true => WIDE_ROWS_QUICK,
                    false => WIDE_ROWS,
                }),
                row_bytes: tables.row_bytes,
            },
            indexed: Indexed {
                keyspace,
                replication,
                rows: self.index_rows,
            },
            readers: self.readers as usize,
            scanners: self.scanners as usize,
            points_per_second: self.point_rate,
            look_ups_per_second: self.look_up_rate,
            wide_clients: match quick {
                true => vec![8],
                false => vec![1, 8],
            },
            open_mixes,
            open_share: self.open_share,
            capacity_clients: CAPACITY_CLIENTS,
            capacity_time: Duration::from_secs_f64(choose(5.0, 15.0)),
            time: Duration::from_secs_f64(self.fixed_seconds.unwrap_or(seconds)),
            short: quick,
        }
    }
}
