//! `helenus bench overhead`.

use super::common::{Common, ExtraArm, Nodes, hand_over, parse_proxy};
use crate::load::show;
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::Args;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::spinner;
use helenus_load::client::endpoint::{Endpoint, Policy};
use helenus_load::experiments::overhead::{Arm, HELENUS, Overhead, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::run::Progress;
use helenus_load::workload::kv::Table;
use std::sync::Arc;
use std::time::Duration;

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
    let rounds = common.rounds.unwrap_or(if common.quick { 3 } else { 5 });
    ensure!(rounds > 0, "at least one round is needed");
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
        let arm = |name: &str, contact_points: Vec<String>, policy, proxy_pid| {
            let mut endpoint = Endpoint::new(name, contact_points, policy);
            endpoint.connections_per_host = self.common.connections;
            Arm {
                endpoint,
                proxy_pid,
                admin: None,
            }
        };
        let helenus = match (&self.proxy, proxy) {
            (Some(given), _) => (given.address.clone(), given.pid),
            (None, Some(own)) => (own.address.to_string(), Some(own.pid())),
            (None, None) => anyhow::bail!("there is no proxy to measure"),
        };
        let mut arms = vec![
            arm(
                TOKEN_AWARE,
                nodes.contact_points.clone(),
                Policy::TokenAware,
                None,
            ),
            arm(
                ROUND_ROBIN,
                nodes.contact_points.clone(),
                Policy::RoundRobin,
                None,
            ),
            arm(HELENUS, vec![helenus.0], Policy::TokenAware, helenus.1),
        ];
        for extra in &self.common.arms {
            let taken = arms.iter().any(|arm| arm.endpoint.name == extra.name);
            ensure!(!taken, "the name {} is taken by another arm", extra.name);
            arms.push(arm(
                &extra.name,
                vec![extra.address.clone()],
                Policy::TokenAware,
                extra.pid,
            ));
        }
        let seconds =
            |quick, full| Duration::from_secs_f64(if self.common.quick { quick } else { full });
        Ok(Overhead {
            table: Table {
                keyspace: "helenus_overhead".into(),
                table: "kv".into(),
                replication: self.common.replication,
                keys: self.common.keys,
                value_bytes: self.value_bytes,
            },
            arms,
            rounds,
            warmup: seconds(80.0, 120.0),
            cell_time: seconds(2.0, 6.0),
            slices: if self.common.quick { 5 } else { 15 },
            low_rate_per_second: 200.0,
            saturation_clients: vec![64, 256],
            idle_clients: self.idle_clients,
            watched: nodes.watched(&self.common)?,
            seed: self.common.seed,
        })
    }
}
