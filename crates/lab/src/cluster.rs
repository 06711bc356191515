//! `helenus cluster`: real Cassandra nodes on loopback, for trying things out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use helenus_cluster::{
    ClientTls, Cluster, ClusterSpec, DEFAULT_VERSION, Partitioner, Progress, Status, cluster_dir,
};

use crate::testbed::agent_jar;

/// Run real Cassandra nodes on this machine (needs Java 17 and Maven).
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
    /// Name of the cluster.
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    name: String,
    /// Folder of the cluster [default: one per name in the user's state folder].
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Fetch Cassandra from Maven Central into the cache, so that `up` does not have to.
    Fetch {
        /// Cassandra version.
        #[arg(default_value = DEFAULT_VERSION)]
        version: String,
        /// Also archive the classes that a node loads, for nodes of `up --short-lived` (starts one).
        #[arg(long)]
        class_archive: bool,
    },
    /// Start a cluster and wait until it is ready.
    Up(Box<UpArgs>),
    /// Show the nodes. Exit code 3: a node does not respond or does not see all others.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add a node; it takes over its share of the data.
    Add {
        /// Tokens of the new node, comma-separated.
        #[arg(long, value_name = "TOKENS")]
        initial_token: Option<String>,
    },
    /// Take a node out of the ring; its data moves to the others.
    Remove {
        /// Number of the node, as `status` shows it.
        node: u16,
    },
    /// Replace a dead node by a new one, which takes over its tokens and fetches their data from the
    /// other replicas. What had only one replica is lost.
    Replace {
        /// Number of the dead node, as `status` shows it.
        node: u16,
    },
    /// Stop nodes gracefully (SIGTERM), or kill them.
    Stop {
        /// Numbers of the nodes [default: all].
        nodes: Vec<u16>,
        /// Kill immediately (SIGKILL).
        #[arg(long)]
        kill: bool,
    },
    /// Start stopped nodes and wait until they are ready.
    Start {
        /// Numbers of the nodes [default: all].
        nodes: Vec<u16>,
    },
    /// Freeze a node: its connections stay open, but it does not respond (SIGSTOP).
    Pause {
        /// Number of the node.
        node: u16,
    },
    /// Resume a frozen node (SIGCONT).
    Resume {
        /// Number of the node.
        node: u16,
    },
    /// Limit a node's CPU time (control groups; needs write permission there).
    Cpu {
        /// Number of the node.
        node: u16,
        /// Cores, such as 0.5; if omitted, the limit is lifted.
        cores: Option<f64>,
    },
    /// Run nodetool against a node.
    Nodetool {
        /// Number of the node.
        node: u16,
        /// nodetool's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        args: Vec<String>,
    },
    /// Stop all nodes and remove their data.
    Down {
        /// Keep the folder, so that `up` or `start` can use it again.
        #[arg(long)]
        keep_data: bool,
    },
}

#[derive(Args, Debug)]
struct UpArgs {
    /// Number of nodes.
    #[arg(long, short, default_value_t = 1)]
    nodes: u16,
    /// Cassandra version.
    #[arg(long, default_value = DEFAULT_VERSION, value_name = "VERSION")]
    cassandra: String,
    /// Java heap of each node, in MiB.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    heap_mib: u32,
    /// First three parts of the addresses, such as 127.0.7 [default: a free one].
    #[arg(long, value_parser = parse_prefix, value_name = "A.B.C")]
    ip: Option<[u8; 3]>,
    /// Port for clients.
    #[arg(long, default_value_t = 9042)]
    port: u16,
    /// Tokens per node.
    #[arg(long, default_value_t = 16, value_name = "N")]
    num_tokens: u16,
    /// Partitioner.
    #[arg(long, value_enum, default_value_t = PartitionerArg::Murmur3)]
    partitioner: PartitionerArg,
    /// Tokens of a node, comma-separated; once per node, in order.
    #[arg(long, value_name = "TOKENS")]
    initial_token: Vec<String>,
    /// Require passwords (first superuser: cassandra/cassandra).
    #[arg(long)]
    auth: bool,
    /// Encrypt client connections; certificates are created in the cluster's folder.
    #[arg(long, value_enum, default_value_t = TlsArg::Off)]
    tls: TlsArg,
    /// Data centre and rack of a node, as dc:rack; once per node, in order, then starting over.
    #[arg(long, value_parser = parse_place, value_name = "DC:RACK")]
    place: Vec<(String, String)>,
    /// Set a key of cassandra.yaml, as key=value; may be repeated.
    #[arg(long, value_parser = parse_pair, value_name = "KEY=VALUE")]
    yaml: Vec<(String, String)>,
    /// An additional argument for java; may be repeated.
    #[arg(long, allow_hyphen_values = true, value_name = "ARG")]
    jvm_arg: Vec<String>,
    /// For nodes that live for minutes: without Java's optimizing compiler and concurrent collector, and from
    /// the archive of `fetch --class-archive`, if there is one.
    #[arg(long)]
    short_lived: bool,
    /// Highest protocol version the nodes know (3 to 5).
    #[arg(long, value_name = "V")]
    max_protocol_version: Option<u8>,
    /// A Java agent, as path.jar or path.jar=options; may be repeated.
    #[arg(long, value_name = "JAR")]
    java_agent: Vec<String>,
    /// Helenus's agent in each node: point reads start before range reads, and the node reports its
    /// resources (docs/agent.md). Without JAR,
    /// helenus-agent.jar beside this program, or agent/target/helenus-agent.jar in the source tree.
    #[arg(long, value_name = "JAR", num_args = 0..=1, require_equals = true)]
    agent: Option<Option<PathBuf>>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartitionerArg {
    Murmur3,
    ByteOrdered,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TlsArg {
    /// Plain text.
    Off,
    /// Nodes present certificates.
    On,
    /// The same, but plain text is accepted, too.
    Optional,
    /// Clients must present one, too.
    Mutual,
}

/// Runs `helenus cluster`.
///
/// # Errors
/// Nodes that do not do what is asked, and what their logs say.
pub fn run(args: ClusterArgs) -> anyhow::Result<()> {
    let dir = match args.dir {
        Some(dir) => dir,
        None => cluster_dir(&args.name)?,
    };
    let open = || Cluster::open(&dir, progress());
    match args.action {
        Action::Fetch {
            version,
            class_archive,
        } => {
            println!(
                "{}",
                helenus_cluster::fetch(&version, progress())?.display()
            );
            if class_archive && helenus_cluster::archive_classes(&version, progress())?.is_none() {
                eprintln!("this Java makes no archive of classes (it can from version 13 on)");
            }
            Ok(())
        }
        Action::Up(up) => {
            let cluster = Cluster::up_with(spec(*up, args.name, &dir)?, progress())?;
            print_status(&cluster.status());
            if let Some(file) = cluster.report_secret_file() {
                println!(
                    "the nodes report their resources: helenus serve --set assignment.reports=true --set \
                     assignment.reports_secret_file={}",
                    file.display()
                );
            }
            Ok(())
        }
        Action::Status { json } => status(&dir, json),
        Action::Add { initial_token } => {
            let number = open()?.add_node_with(initial_token)?;
            println!("node {number} has joined");
            Ok(())
        }
        Action::Remove { node } => Ok(open()?.remove_node(node)?),
        Action::Replace { node } => {
            let number = open()?.replace_node(node)?;
            println!("node {number} has joined in place of node {node}");
            Ok(())
        }
        Action::Stop { nodes, kill } => {
            let mut cluster = open()?;
            for node in some_or_all(nodes, &cluster) {
                if kill {
                    cluster.kill(node)?;
                } else {
                    cluster.stop(node)?;
                }
            }
            Ok(())
        }
        Action::Start { nodes } => {
            let mut cluster = open()?;
            let nodes = some_or_all(nodes, &cluster);
            Ok(cluster.start_many(&nodes)?)
        }
        Action::Pause { node } => Ok(open()?.pause(node)?),
        Action::Resume { node } => Ok(open()?.resume(node)?),
        Action::Cpu { node, cores } => Ok(open()?.cpu_cap(node, cores)?),
        Action::Nodetool { node, args } => {
            check_nodetool(&args)?;
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            print!("{}", open()?.nodetool(node, &args)?);
            Ok(())
        }
        Action::Down { keep_data } => Ok(open()?.down(keep_data)?),
    }
}

/// Whatever stands behind `nodetool` is nodetool's.
fn check_nodetool(args: &[String]) -> anyhow::Result<()> {
    let option = |arg: &String| arg.split('=').next().unwrap_or_default().to_owned();
    let mut options = args.iter().map(option);
    match options.find(|option| ["--name", "--dir"].contains(&option.as_str())) {
        None => Ok(()),
        Some(own) => {
            bail!(
                "{own} is an option of `helenus cluster`, not of nodetool: give it before `nodetool`"
            )
        }
    }
}

fn progress() -> Progress {
    Arc::new(|line| eprintln!("{line}"))
}

fn some_or_all(nodes: Vec<u16>, cluster: &Cluster) -> Vec<u16> {
    if nodes.is_empty() {
        cluster.nodes()
    } else {
        nodes
    }
}

fn spec(up: UpArgs, name: String, dir: &Path) -> anyhow::Result<ClusterSpec> {
    let mut spec = ClusterSpec::new(name)
        .dir(dir)
        .nodes(up.nodes)
        .version(up.cassandra)
        .heap_mib(up.heap_mib)
        .native_port(up.port)
        .num_tokens(up.num_tokens)
        .initial_tokens(up.initial_token)
        .auth(up.auth)
        .partitioner(match up.partitioner {
            PartitionerArg::Murmur3 => Partitioner::Murmur3Partitioner,
            PartitionerArg::ByteOrdered => Partitioner::ByteOrderedPartitioner,
        })
        .tls(match up.tls {
            TlsArg::Off => ClientTls::Off,
            TlsArg::On => ClientTls::Server,
            TlsArg::Optional => ClientTls::Optional,
            TlsArg::Mutual => ClientTls::Mutual,
        });
    if up.short_lived {
        spec = spec.short_lived();
    }
    if let Some(prefix) = up.ip {
        spec = spec.ip_prefix(prefix);
    }
    if let Some(version) = up.max_protocol_version {
        spec = spec.max_protocol_version(version);
    }
    for (dc, rack) in up.place {
        spec = spec.place(dc, rack);
    }
    for (key, value) in up.yaml {
        spec = spec.yaml(key, value);
    }
    for arg in up.jvm_arg {
        spec = spec.jvm_arg(arg);
    }
    for agent in up.java_agent {
        // The nodes run in their own folders, where a relative path would mean another file.
        let (jar, options) = match agent.split_once('=') {
            Some((jar, options)) => (jar, format!("={options}")),
            None => (agent.as_str(), String::new()),
        };
        let jar = std::fs::canonicalize(jar).with_context(|| format!("Java agent {jar}"))?;
        spec = spec.java_agent(format!("{}{options}", jar.display()));
    }
    if let Some(jar) = up.agent {
        spec = spec.agent(agent_jar(jar)?);
    }
    Ok(spec)
}

fn status(dir: &Path, json: bool) -> anyhow::Result<()> {
    let status = Cluster::status_of(dir)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        print_status(&status);
    }
    if !status.is_whole() {
        std::process::exit(3);
    }
    Ok(())
}

fn print_status(status: &Status) {
    println!(
        "{}: Cassandra {} in {}",
        status.name,
        status.version,
        status.dir.display()
    );
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header([
        "node", "address", "dc", "rack", "state", "answers", "sees", "pid", "jmx",
    ]);
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    for node in &status.nodes {
        table.add_row([
            node.node.to_string(),
            node.address.to_string(),
            node.dc.clone(),
            node.rack.clone(),
            format!("{:?}", node.state).to_lowercase(),
            if node.answers { "yes" } else { "no" }.to_owned(),
            or_dash(node.sees.map(|n| n.to_string())),
            or_dash(node.pid.map(|n| n.to_string())),
            node.jmx_port.to_string(),
        ]);
    }
    println!("{table}");
}

fn parse_prefix(text: &str) -> anyhow::Result<[u8; 3]> {
    let parts: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
    match parts.as_deref() {
        Ok(&[a, b, c]) => Ok([a, b, c]),
        _ => bail!("expected three numbers from 0 to 255 separated by dots, such as 127.0.7"),
    }
}

fn parse_place(text: &str) -> anyhow::Result<(String, String)> {
    let (dc, rack) = text.split_once(':').context("want dc:rack")?;
    Ok((dc.to_owned(), rack.to_owned()))
}

fn parse_pair(text: &str) -> anyhow::Result<(String, String)> {
    let (key, value) = text.split_once('=').context("want key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ClusterArgs,
    }

    #[test]
    fn a_long_up_line_becomes_a_spec() {
        let line = "x up -n 2 --ip 127.0.7 --yaml a=b=c --place d:r --jvm-arg -Dx=y --tls mutual \
                    --auth --short-lived --max-protocol-version 4";
        let parsed =
            Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|e| panic!("{e}"));
        let Action::Up(up) = parsed.args.action else {
            panic!("not `up`");
        };
        let made = spec(*up, "n".into(), Path::new("/d")).expect("a spec");
        let expected = ClusterSpec::new("n")
            .dir("/d")
            .nodes(2)
            .ip_prefix([127, 0, 7])
            .yaml("a", "b=c")
            .place("d", "r")
            .jvm_arg("-Dx=y")
            .tls(ClientTls::Mutual)
            .auth(true)
            .short_lived()
            .max_protocol_version(4);
        assert_eq!(made, expected);
    }

    #[test]
    fn the_agent_is_a_jar_that_exists() {
        let jar = tempfile::NamedTempFile::new().expect("a file");
        let made = |jar: &Path| {
            let line = format!("--agent={}", jar.display());
            let parsed = Line::try_parse_from(["x", "up", &line, "-n", "2"])
                .unwrap_or_else(|e| panic!("{e}"));
            let Action::Up(up) = parsed.args.action else {
                panic!("not `up`");
            };
            spec(*up, "n".into(), Path::new("/d"))
        };
        let expected = ClusterSpec::new("n").dir("/d").nodes(2);
        assert_eq!(
            made(jar.path()).expect("a spec"),
            expected.agent(jar.path().canonicalize().expect("a path"))
        );
        let message = made(Path::new("/no.jar")).expect_err("no jar").to_string();
        assert!(message.contains("agent /no.jar"), "{message}");
    }

    #[test]
    fn options_of_the_cluster_are_not_handed_on_to_nodetool() {
        for (line, is_refused) in [
            ("x nodetool 1 status --name a", true),
            ("x nodetool 1 status --dir=/a", true),
            ("x nodetool 1 snapshot -t name", false),
            ("x --name a nodetool 1 -p 7199 info", false),
        ] {
            let parsed = Line::try_parse_from(line.split_whitespace()).expect(line);
            let Action::Nodetool { args, .. } = parsed.args.action else {
                panic!("not nodetool: {line}");
            };
            assert_eq!(check_nodetool(&args).is_err(), is_refused, "{line}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "x up --ip 127.0",
            "x up --ip 1.2.3.4",
            "x up --yaml a",
            "x pause",
            "x nodetool 1",
        ] {
            assert!(
                Line::try_parse_from(line.split_whitespace()).is_err(),
                "{line}"
            );
        }
    }
}
