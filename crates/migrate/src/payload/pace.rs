//! How values are moved.

use anyhow::{Result, bail};
use clap::Args;

use crate::nodes::cluster::Cluster;

#[derive(Args, Clone, Debug)]
pub(super) struct Pace {
    /// Ranges of the ring that are worked on at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Rows to read in a second, at most
    #[arg(long, alias = "rate", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rows_per_second: Option<u32>,
    /// Also move values whose timestamps are no times, because nobody writes such values meanwhile: a moved value
    /// gets the next timestamp
    #[arg(long)]
    pub any_timestamps: bool,
}

impl Pace {
    /// Fails if a node is away, before anything has been changed.
    pub(super) async fn check_nodes(&self, cluster: &Cluster) -> Result<()> {
        let away = cluster.away().await;
        match away.is_empty() {
            true => Ok(()),
            false => bail!(
                "{} cannot be reached, and each value is read from and written to all of its replicas: wait until \
                 all nodes are up",
                away.join(", ")
            ),
        }
    }
}
