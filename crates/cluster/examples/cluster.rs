//! Brings a cluster up, shows it, waits for Enter, takes it down.
//!
//! `cargo run -p helenus-cluster --example cluster -- 3 [version]`

use std::sync::Arc;
use std::time::Instant;

use helenus_cluster::{Cluster, ClusterSpec, DEFAULT_VERSION};

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let nodes = args.next().unwrap_or_else(|| "1".into()).parse()?;
    let version = args.next().unwrap_or_else(|| DEFAULT_VERSION.into());
    let begin = Instant::now();
    let spec = ClusterSpec::ephemeral().nodes(nodes).version(version);
    let cluster = Cluster::up_with(spec, Arc::new(|line| eprintln!("{line}")))?;
    println!("up after {:.1} s", begin.elapsed().as_secs_f64());
    println!("{:#?}", cluster.status());
    println!("{}", cluster.nodetool(1, &["status"])?);
    println!("press Enter to take it down");
    std::io::stdin().read_line(&mut String::new())?;
    cluster.down(false)?;
    Ok(())
}
