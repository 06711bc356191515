//! `helenus load`: generates load on a CQL endpoint, or on several in turn.

mod live;
mod options;
mod parse;
mod result;

pub(crate) use live::show;
pub(crate) use options::LoadArgs;
pub(crate) use parse::parse_watched;

use crate::testbed::run_to_end;
use anyhow::{Context, Result, bail, ensure};
use helenus_load::any_workload::AnyWorkload;
use helenus_load::client::ClientKind;
use helenus_load::endpoint::{Endpoint, Policy, parse_consistency};
use helenus_load::interleaved::{ArmRun, Interleaved, LoadModel};
use helenus_load::keys::Keys;
use helenus_load::kv::{KeyValue, Table};
use helenus_load::machine::Machine;
use helenus_load::process::{Watched, raise_open_files_limit};
use helenus_load::report::Report;
use helenus_load::run::Progress;
use helenus_load::script::{self, Script, ScriptWorkload};
use helenus_load::ycsb::{UserTable, Ycsb};
use live::Live;
use options::{Client, Distribution, Preference};
use parse::Arm;
use std::sync::Arc;
use std::time::Duration;

/// In a shorter slice a few hundred clients have barely ramped up after a change of arm.
const SLICE_MIN: Duration = Duration::from_millis(250);

pub(crate) fn run(args: LoadArgs) -> Result<()> {
    let open_files = raise_open_files_limit();
    let needed = u64::from(args.sessions()) * args.arms.len().max(1) as u64 + 100;
    ensure!(
        needed <= open_files,
        "only {open_files} open files are allowed and {needed} are needed: raise `ulimit -n` or \
         lower --clients"
    );
    run_to_end(load(args))
}

async fn load(args: LoadArgs) -> Result<()> {
    if let Some(rate) = args.rate {
        ensure!(
            rate > 0.0 && rate.is_finite(),
            "--rate must be a positive number"
        );
    }
    ensure!(!args.duration.is_zero(), "--duration must be above 0");
    ensure!(
        args.slice.is_none_or(|slice| slice >= SLICE_MIN),
        "--slice must be at least {SLICE_MIN:?}"
    );
    let endpoints = args.endpoints()?;
    let script = args.read_script()?;
    args.prepare_data(&endpoints[0], script.as_ref()).await?;
    let mut arm_runs = Vec::new();
    for (endpoint, pid) in &endpoints {
        let workload = args.workload(endpoint, script.as_ref()).await?;
        let mut watched = args.watch.clone();
        watched.push(Watched::this_process());
        watched.extend(pid.map(|pid| Watched::new("proxy", pid)));
        arm_runs.push(ArmRun {
            workload: Arc::new(workload),
            watched,
        });
    }
    let names: Vec<String> = endpoints
        .iter()
        .map(|(each, _)| each.name.clone())
        .collect();
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let rounds = args.rounds();
    let machine = Machine::here(std::path::Path::new("/"));
    let mut report = Report::new("load", command, machine, rounds);
    report.settings = args.settings();
    let plan = args.interleaved();
    let live = Live::start(plan.progress.clone(), names.clone(), args.quiet);
    let cell = args.cell_name();
    for round in 0..rounds {
        let phases = plan
            .round(&arm_runs, round, &mut |arm| live.turn(arm))
            .await;
        for (name, phase) in names.iter().zip(phases) {
            report.add(name, &cell, phase);
        }
    }
    report.timeline = live.stop();
    result::compare(&mut report, &names, &cell);
    print!("{}", result::summary(&report, &names, &cell));
    if let Some(path) = &args.json {
        report.write_json(path)?;
    }
    if let Some(path) = &args.html {
        report.charts = result::charts(&report, &names, &cell);
        report.write_html(path)?;
    }
    for name in &names {
        let ops: u64 = report
            .phases(name, &cell)
            .iter()
            .map(|phase| phase.ops)
            .sum();
        if ops == 0 {
            bail!("no query to {name} succeeded");
        }
    }
    Ok(())
}

impl LoadArgs {
    /// The endpoints and the process ids given with them.
    fn endpoints(&self) -> Result<Vec<(Endpoint, Option<u32>)>> {
        let given = match self.arms.is_empty() {
            true => vec![Arm {
                name: self.contact_name(),
                contact_points: self.contact.clone(),
                pid: None,
            }],
            false => self.arms.clone(),
        };
        let mut endpoints: Vec<(Endpoint, Option<u32>)> = Vec::new();
        for arm in given {
            ensure!(
                endpoints.iter().all(|(other, _)| other.name != arm.name),
                "two arms are named {}",
                arm.name
            );
            let policy = match self.policy {
                Preference::TokenAware => Policy::TokenAware,
                Preference::RoundRobin => Policy::RoundRobin,
            };
            let mut endpoint = Endpoint::new(arm.name, arm.contact_points, policy);
            endpoint.connections_per_host = self.connections;
            endpoint.consistency = parse_consistency(&self.consistency)?;
            if let Some(user) = &self.username {
                let password = std::env::var("HELENUS_LOAD_PASSWORD")
                    .context("--username needs the password in HELENUS_LOAD_PASSWORD")?;
                endpoint.credentials = Some((user.clone(), password));
            }
            endpoints.push((endpoint, arm.pid));
        }
        Ok(endpoints)
    }

    fn contact_name(&self) -> String {
        match &self.contact[..] {
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            [] => "nothing".into(),
        }
    }

    fn read_script(&self) -> Result<Option<Script>> {
        let Some(path) = &self.statements else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let script =
            script::parse(&text).with_context(|| format!("{} is wrong", path.display()))?;
        Ok(Some(script))
    }

    /// Goes through the first endpoint: all of them are expected to lead to the same cluster.
    async fn prepare_data(
        &self,
        (endpoint, _): &(Endpoint, Option<u32>),
        script: Option<&Script>,
    ) -> Result<()> {
        if self.no_fill {
            return Ok(());
        }
        if let (Some(script), Some(path)) = (script, &self.statements) {
            let done = script.set_up(endpoint).await;
            return done.with_context(|| format!("{}: @setup failed", path.display()));
        }
        let progress = Arc::new(Progress::default());
        let filling = format!("filling {} rows", self.keys);
        if self.ycsb.is_some() {
            let table = self.user_table();
            table.create(endpoint).await?;
            let shown = show(progress.clone(), filling);
            table.fill(endpoint, progress).await?;
            shown.stop();
        } else {
            let table = self.table();
            table.create(&endpoint.connect().await?).await?;
            let shown = show(progress.clone(), filling);
            table.fill(endpoint, 256, progress).await?;
            shown.stop();
        }
        Ok(())
    }

    async fn workload(&self, endpoint: &Endpoint, script: Option<&Script>) -> Result<AnyWorkload> {
        let sessions = self.sessions() as usize;
        let client = match self.client {
            Client::Driver => ClientKind::Driver,
            Client::Raw => ClientKind::Raw,
        };
        if let (Some(script), Some(path)) = (script, &self.statements) {
            let opened = ScriptWorkload::open(client, endpoint, script, sessions).await;
            let opened = opened.with_context(|| format!("{} does not fit", path.display()))?;
            return Ok(AnyWorkload::Script(opened));
        }
        if let Some(core) = self.ycsb {
            let (table, shape) = (self.user_table(), core.shape());
            let inserts = self.inserts_expected(shape.shares[2]);
            let opened = Ycsb::open(client, endpoint, &table, shape, inserts, sessions).await?;
            return Ok(AnyWorkload::Ycsb(opened));
        }
        let mut keys = match self.distribution {
            Distribution::Uniform => Keys::uniform(self.keys),
            Distribution::Zipfian => Keys::zipfian(self.keys),
        };
        if let Some(share) = self.hot_key {
            keys = keys.with_hot_key(share);
        }
        let table = self.table();
        let opened = KeyValue::open_as(client, endpoint, &table, keys, self.mix, sessions).await?;
        Ok(AnyWorkload::KeyValue(
            opened.with_range_rows(self.range_rows),
        ))
    }

    /// YCSB allows for twice the inserts implied by its operation count. Here the duration is given
    /// instead, so the count follows from the rate, or is a guess of what two cores can do.
    fn inserts_expected(&self, insert_share: f64) -> u64 {
        let per_second = self.rate.unwrap_or(10_000.0);
        let seconds = (self.duration + self.warmup * self.rounds() as u32).as_secs_f64();
        (2.0 * insert_share * per_second * seconds) as u64
    }

    fn table(&self) -> Table {
        Table {
            keyspace: self.keyspace.clone(),
            table: "kv".into(),
            replication: self.replication,
            keys: self.keys,
            value_bytes: self.value_bytes,
        }
    }

    fn user_table(&self) -> UserTable {
        UserTable {
            keyspace: self.keyspace.clone(),
            replication: self.replication,
            records: self.keys,
        }
    }

    fn interleaved(&self) -> Interleaved {
        let time = self.duration / self.rounds() as u32;
        let slices = self.slice.map_or(1, |slice| {
            (time.as_secs_f64() / slice.as_secs_f64().max(1e-3))
                .round()
                .max(1.0) as usize
        });
        Interleaved {
            clients: self.clients as usize,
            load: self.rate.map_or(LoadModel::Closed, LoadModel::Open),
            time,
            slices,
            warmup_first: self.warmup,
            // In later turns the arm is warm already and its clients only have to ramp up again.
            warmup: self
                .warmup
                .min((time / slices as u32 / 8).max(Duration::from_millis(50))),
            seed: self.seed,
            progress: Arc::new(Progress::with_latencies()),
        }
    }
}

#[cfg(test)]
mod tests;
