//! `helenus load ramp`: the capacity of an endpoint.

mod options;

pub(crate) use options::RampArgs;

use super::nodes::{self, LocalNode};
use super::options::Client;
use super::target::describe;
use crate::command_line::command_line;
use anyhow::{Context, Result, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, run_to_end, spinner};
use helenus_load::client::endpoint::Endpoint;
use helenus_load::interleaved::LoadModel;
use helenus_load::measure::Phase;
use helenus_load::process::Watched;
use helenus_load::ramp::capacity::{Capacity, Unit, UsesByLoad};
use helenus_load::ramp::evidence::Probe;
use helenus_load::ramp::measure::Windows;
use helenus_load::ramp::page::{write_html, write_json};
use helenus_load::ramp::pools::{Pools, SeenNode};
use helenus_load::ramp::search::{Ended, Search};
use helenus_load::ramp::steps::{Broken, Load, Window};
use helenus_load::ramp::warmup::Warmup;
use helenus_load::report::Report;
use helenus_load::report::machine::Machine;
use helenus_load::report::svg::number;
use helenus_load::run::{Limit, Plan, run_closed};
use helenus_load::workload::any_workload::AnyWorkload;
use helenus_load::workload::script::Script;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sessions or connections that an open loop uses in turn.
const OPEN_LOOP_CLIENTS: u32 = 64;
/// A load that warms up without overloading anything.
const WARMUP_CLIENTS: u32 = 16;
/// For a few hundred clients to get going.
const WINDOW_WARMUP_MIN: Duration = Duration::from_millis(250);
/// How many operations inserts are expected of, because the end is not known.
const OPERATIONS_EXPECTED: u64 = 1_000_000;

pub(super) fn run(args: RampArgs) -> Result<()> {
    args.check()?;
    let open_files = raise_open_files_limit();
    let needed = u64::from(args.target.sessions(args.clients_max())) + 100;
    ensure!(
        needed <= open_files,
        "only {open_files} open files are allowed and {needed} are needed: raise `ulimit -n` or \
         lower --max-clients"
    );
    run_to_end(ramp(args))
}

async fn ramp(args: RampArgs) -> Result<()> {
    let target = &args.target;
    let endpoints = target.endpoints()?;
    let (endpoint, proxy) = endpoints.first().context("there is no endpoint")?;
    let (name, dir) = (args.cluster.as_deref(), args.cluster_dir.as_deref());
    let cluster = nodes::local(name, dir, endpoint)?;
    let machine = describe(cluster.as_ref(), target.measure_storage).await?;
    let local = cluster.map_or_else(Vec::new, |cluster| cluster.nodes);
    let script = target.read_script()?;
    target.prepare_data(endpoint, script.as_ref()).await?;
    let mut source = Source::open(&args, endpoint, script.as_ref()).await?;
    let pools = args.pools(endpoint, &local).await;
    let seen = pools.as_ref().ok().map(|pools| &pools.nodes[..]);
    let nodes = args.count_nodes(endpoint, &local, seen, proxy.is_some());
    let mut watched = target.watch.clone();
    watched.push(Watched::this_process());
    watched.extend(proxy.map(|pid| Watched::new("proxy", pid)));
    watched.extend(local.iter().filter_map(LocalNode::watched));
    let mut report = args.report(machine);
    if let Err(error) = &pools {
        let note = format!("The nodes' thread pools were not looked at: {error:#}.");
        report.notes.push(note);
    }
    let windows = Windows {
        probe: Probe::new(watched),
        pools: pools.ok(),
        time: args.window,
        warmup: (args.window / 8).max(WINDOW_WARMUP_MIN),
        progress: Arc::default(),
    };
    let bar = spinner("warming up");
    let mut say = narrate(&bar, Instant::now());
    warm_up(&args, &mut source, &windows, &mut say).await?;
    let mut search = Search::new(args.policy());
    let mut uses = UsesByLoad::new();
    let mut seed = target.seed;
    while let Some(load) = search.poll_load() {
        let (model, clients) = args.model(load);
        let workload = source.workload(clients).await?;
        seed = seed.wrapping_add(1);
        let measured = windows.measure(&workload, model, clients as usize, seed);
        let (phase, used) = measured.await;
        let text = args.unit().text(load);
        if !target.quiet {
            say(line(&text, &phase));
        }
        search.on_window(load, Window::of(&phase));
        uses.entry(load).or_default().push(used);
        let cell = format!("{}, {text}", target.workload_name());
        report.add(&endpoint.name, &cell, phase);
    }
    bar.finish_and_clear();
    let capacity = Capacity::of(&search, args.unit(), &uses, nodes, args.today);
    hand_over(&args, &report, &capacity)?;
    verdict(&endpoint.name, &report, &capacity, &args)
}

/// Until throughput no longer rises by itself, or the longest time is over.
async fn warm_up(
    args: &RampArgs,
    source: &mut Source<'_>,
    windows: &Windows,
    say: &mut impl FnMut(String),
) -> Result<()> {
    let clients = WARMUP_CLIENTS.min(args.clients_max());
    let workload = source.workload(clients).await?;
    let mut warmup = Warmup::default();
    let began = Instant::now();
    while began.elapsed() < args.warmup && !warmup.has_settled() {
        let plan = Plan::new(clients as usize, Limit::Time(windows.time));
        let phase = run_closed(&workload, &plan).await;
        warmup.on_window(phase.ops_per_second);
        if !args.target.quiet {
            say(line("warming up", &phase));
        }
    }
    Ok(())
}

fn line(load: &str, phase: &Phase) -> String {
    format!(
        "{load}: {} operations/s  p50 {} ms  p99 {} ms  {} failed",
        number(phase.ops_per_second),
        number(phase.latency.us_p50 as f64 / 1000.0),
        number(phase.latency.us_p99 as f64 / 1000.0),
        phase.errors_total()
    )
}

/// The workload, opened anew when more connections are needed.
struct Source<'a> {
    args: &'a RampArgs,
    endpoint: &'a Endpoint,
    script: Option<&'a Script>,
    open: Arc<AnyWorkload>,
    sessions: u32,
}

impl<'a> Source<'a> {
    async fn open(
        args: &'a RampArgs,
        endpoint: &'a Endpoint,
        script: Option<&'a Script>,
    ) -> Result<Self> {
        let sessions = args.target.sessions(WARMUP_CLIENTS);
        let opened = args
            .target
            .workload(endpoint, script, sessions, OPERATIONS_EXPECTED);
        Ok(Self {
            args,
            endpoint,
            script,
            open: Arc::new(opened.await?),
            sessions,
        })
    }

    /// For so many clients. Only plain connections depend on their number.
    async fn workload(&mut self, clients: u32) -> Result<Arc<AnyWorkload>> {
        let sessions = self.args.target.sessions(clients);
        if matches!(self.args.target.client, Client::Raw) && sessions > self.sessions {
            let target = &self.args.target;
            let opened = target.workload(self.endpoint, self.script, sessions, OPERATIONS_EXPECTED);
            self.open = Arc::new(opened.await?);
            self.sessions = sessions;
        }
        Ok(self.open.clone())
    }
}

impl RampArgs {
    fn clients_max(&self) -> u32 {
        match self.open_loop {
            true => OPEN_LOOP_CLIENTS,
            false => self.max_clients,
        }
    }

    fn model(&self, load: Load) -> (LoadModel, u32) {
        match self.unit() {
            Unit::Clients => (LoadModel::Closed, u32::try_from(load).unwrap_or(u32::MAX)),
            Unit::OpsPerSecond => (LoadModel::Open(load as f64), OPEN_LOOP_CLIENTS),
        }
    }

    async fn pools(&self, endpoint: &Endpoint, local: &[LocalNode]) -> Result<Pools> {
        let mut direct = endpoint.clone();
        if !self.nodes.is_empty() {
            direct.contact_points = self.nodes.clone();
        } else if !local.is_empty() {
            direct.contact_points = local.iter().map(|node| node.address.to_string()).collect();
        }
        Pools::open(&direct).await
    }

    /// The nodes that carry the load; None behind a proxy whose nodes were not named.
    fn count_nodes(
        &self,
        endpoint: &Endpoint,
        local: &[LocalNode],
        seen: Option<&[SeenNode]>,
        has_proxy: bool,
    ) -> Option<usize> {
        let is_used = |dc: &str| endpoint.local.as_ref().is_none_or(|local| local.dc == dc);
        if !local.is_empty() {
            let running = local.iter().filter(|node| node.pid.is_some());
            return Some(running.filter(|node| is_used(&node.dc)).count());
        }
        let seen = seen?;
        let is_proxied = has_proxy || seen.iter().any(|node| node.is_proxy);
        let used = seen
            .iter()
            .filter(|node| is_used(node.dc.as_deref().unwrap_or_default()));
        (!is_proxied || !self.nodes.is_empty()).then(|| used.count())
    }

    fn report(&self, machine: Machine) -> Report {
        let command = command_line();
        let mut report = Report::new("load ramp", command, machine, 1);
        report.settings = self.target.settings(self.clients_max());
        let mut set = |name: &str, value: String| report.settings.insert(name.into(), value);
        set("window", format!("{:?}", self.window));
        set("windows of the knee", self.windows.to_string());
        set(
            "failed queries at most",
            format!("{} %", self.errors_max * 100.0),
        );
        if let Some(p99) = self.target_p99 {
            set("target of the 99th percentile", format!("{p99:?}"));
        }
        report
    }
}

fn hand_over(args: &RampArgs, report: &Report, capacity: &Capacity) -> Result<()> {
    println!("{}", table(capacity));
    for line in capacity.sentences() {
        println!("{line}");
    }
    for note in &report.notes {
        println!("{note}");
    }
    if let Some(path) = &args.target.json {
        write_json(report, capacity, path)?;
    }
    if let Some(path) = &args.target.html {
        write_html(report, capacity, path)?;
    }
    Ok(())
}

fn table(capacity: &Capacity) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        capacity.unit.head(),
        "windows",
        "operations/s",
        "least",
        "greatest",
        "p50 ms",
        "p99 ms",
        "failed",
        "",
    ]);
    for step in &capacity.steps {
        let ops = &step.ops_per_second;
        table.add_row([
            step.load.to_string(),
            step.windows.to_string(),
            number(ops.median),
            number(ops.min),
            number(ops.max),
            number(step.latency_us_p50 / 1000.0),
            number(step.latency_us_p99 / 1000.0),
            format!("{:.2} %", step.error_share * 100.0),
            capacity.remark(step),
        ]);
    }
    for column in table.column_iter_mut().take(8) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// An error if there is no knee, or only a lower bound of it.
fn verdict(name: &str, report: &Report, capacity: &Capacity, args: &RampArgs) -> Result<()> {
    let most = match args.open_loop {
        true => "--max-rate",
        false => "--max-clients",
    };
    match capacity.ended {
        Some(Ended::LoadMax) => bail!(
            "throughput was still growing at the greatest load, so the knee is a lower bound: raise \
             {most}"
        ),
        Some(_) => Ok(()),
        None => bail!(no_knee(name, report, capacity)),
    }
}

/// Why there is none.
fn no_knee(name: &str, report: &Report, capacity: &Capacity) -> String {
    let phases = report
        .arms
        .values()
        .flat_map(|cells| cells.values().flatten());
    let errors: BTreeSet<&str> = phases
        .flat_map(|phase| phase.errors.keys().map(String::as_str))
        .collect();
    let errors = match errors.is_empty() {
        true => String::new(),
        false => format!(" ({})", Vec::from_iter(errors).join(", ")),
    };
    let (Some(broken), Some(step)) = (&capacity.first_broken, capacity.steps.first()) else {
        return format!("no query to {name} succeeded{errors}");
    };
    let load = capacity.unit.text(step.load);
    match broken.why {
        Broken::Latency => format!(
            "even with {load} the 99th percentile is {} ms, above --target-p99",
            number(step.latency_us_p99 / 1000.0)
        ),
        why => format!("even with {load} {}{errors}", why.describe()),
    }
}

#[cfg(test)]
mod tests;
