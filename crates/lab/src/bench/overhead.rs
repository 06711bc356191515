//! `helenus bench overhead`.

use super::common::{Common, ExtraArm, Nodes, hand_over, parse_proxy};
use crate::load::show;
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::Args;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::spinner;
use helenus_load::client::endpoint::Policy;
use helenus_load::experiments::overhead::{HELENUS, Overhead, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::run::Progress;
use helenus_load::workload::kv::Table;
use std::sync::Arc;

#[derive(Args, Debug)]
pub(super) struct OverheadArgs {
    #[command(flatten)]
    common: Common,
    /// Use this running Helenus instead of starting one
    #[arg(long, value_parser = parse_proxy, value_name = "HOST:PORT[@PID]")]
    proxy: Option<ExtraArm>,
    /// Bytes per value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Idle clients opened in each round to measure memory; 0 disables it
    #[arg(long, default_value_t = 1000)]
    idle_clients: usize,
}

pub(super) async fn overhead(args: OverheadArgs) -> Result<()> {
    let open_files = raise_open_files_limit();
    let common = &args.common;
    let rounds = common.rounds(3, 5)?;
    // The proxy and this process each hold one descriptor per idle client.
    let needed = (args.idle_clients * rounds + 500) as u64;
    ensure!(
        open_files >= needed,
        "only {open_files} open files are allowed and {needed} are needed: raise `ulimit -n` or \
         lower --idle-clients"
    );
    let mut nodes = Nodes::up(common).await?;
    let proxy = match &args.proxy {
        Some(_) => None,
        None => Some(Proxy::start(&nodes.contact_points, &[]).await?),
    };
    let experiment = args.experiment(rounds, &nodes, proxy.as_ref())?;
    experiment.check()?;
    let endpoint = &experiment.arms[0].endpoint;
    experiment.table.create(&endpoint.connect().await?).await?;
    let progress = Arc::new(Progress::default());
    let shown = show(progress.clone(), format!("filling {} rows", common.keys));
    experiment.table.fill(endpoint, 128, progress).await?;
    shown.stop();

    let mut report = nodes.report("overhead", common, rounds);
    nodes.cap_cpu(common, &mut report)?;
    let bar = spinner("overhead");
    experiment
        .run(&mut report, &mut |line| bar.set_message(line))
        .await?;
    bar.finish_and_clear();
    hand_over(&report, common)?;
    drop(proxy);
    nodes.down()
}

impl OverheadArgs {
    fn experiment(&self, rounds: usize, nodes: &Nodes, proxy: Option<&Proxy>) -> Result<Overhead> {
        let common = &self.common;
        let helenus = match (&self.proxy, proxy) {
            (Some(given), _) => common.running(given),
            (None, Some(own)) => common.through(HELENUS, own),
            (None, None) => anyhow::bail!("there is no proxy to measure"),
        };
        let direct = [
            (TOKEN_AWARE, Policy::TokenAware),
            (ROUND_ROBIN, Policy::RoundRobin),
        ];
        let mut arms = common.arms::<()>(nodes, &direct, &[]);
        arms.insert(direct.len(), helenus);
        Ok(Overhead {
            table: Table {
                keyspace: "helenus_overhead".into(),
                table: "kv".into(),
                replication: common.replication,
                keys: common.keys,
                value_bytes: self.value_bytes,
            },
            arms,
            rounds,
            warmup: common.span(None, 80.0, 120.0),
            cell_time: common.span(None, 2.0, 6.0),
            slices: common.either(5, 15),
            low_rate_per_second: 200.0,
            saturation_clients: vec![64, 256],
            idle_clients: self.idle_clients,
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}
