//! Three nodes that scenes share.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use helenus_cluster::{Cluster, Connection, Consistency};
use helenus_tests::proxy::{Proxy, helenus};

use crate::Outcome;
use crate::sweep::{ON, PATIENCE};

/// Three nodes of which one holds the catalogue, and a table with a layout and one without, on all of them.
pub(crate) struct Three {
    pub(crate) cluster: Cluster,
    /// The node with the catalogue.
    pub(crate) holder: u16,
}

impl Three {
    pub(crate) fn up() -> Three {
        // A node that is killed keeps its schema, and with it what it has logged of the tables.
        let spec = helenus_tests::ephemeral()
            .nodes(3)
            .yaml("native_transport_timeout", "2s");
        let cluster = Cluster::up(spec).expect("three nodes");
        let mut node = cluster.connect(1).expect("a connection");
        for (keyspace, replicas) in [("helenus", 1), ("shop", 3)] {
            run(&mut node, &replicated("CREATE", keyspace, replicas));
        }
        for table in [
            "orders (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
            "plain (k int PRIMARY KEY, v int)",
        ] {
            run(&mut node, &format!("CREATE TABLE shop.{table}"));
        }
        let three = Three { cluster, holder: 0 };
        three
            .layouts(
                1,
                &["create", "shop.orders", "--no-proxies", "--layout", "x=b,a"],
            )
            .succeeded();
        let endpoints = three
            .cluster
            .nodetool(1, &["getendpoints", "helenus", "catalogue", "all"]);
        let endpoints = endpoints.expect("a node");
        let holder = (1..=3).find(|number| {
            let ip = three.address(*number).ip().to_string();
            endpoints.lines().any(|line| line.trim() == ip)
        });
        Three {
            holder: holder.expect("one of them"),
            ..three
        }
    }

    /// Starts those that a scene has left killed.
    pub(crate) fn all_up(&mut self) {
        for number in self.cluster.nodes() {
            let process = self.cluster.process(number).expect("a node");
            if !process.is_some_and(|process| process.is_alive()) {
                self.cluster.start(number).expect("started");
            }
        }
    }

    pub(crate) fn address(&self, number: u16) -> SocketAddr {
        self.cluster.address(number).expect("an address")
    }

    /// The nodes without the catalogue.
    pub(crate) fn others(&self) -> Vec<u16> {
        (1..=3).filter(|number| *number != self.holder).collect()
    }

    pub(crate) fn proxy(&self) -> Proxy {
        let others = self.others().into_iter().map(|number| self.address(number));
        Proxy::start(&others.collect::<Vec<_>>(), &ON).expect("a proxy")
    }

    pub(crate) fn layouts(&self, by: u16, arguments: &[&str]) -> Outcome {
        let contact = self.address(by).to_string();
        let mut command = helenus(&["layouts"]).expect("a program");
        Outcome::of(command.args(arguments).args(["--contact", &contact]))
    }
}

/// By data center: commands make sure that each has what changes in the catalogue, and proxies read it in their own.
pub(crate) fn replicated(verb: &str, keyspace: &str, replicas: u32) -> String {
    format!(
        "{verb} KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': {replicas}}}"
    )
}

pub(crate) fn run(node: &mut Connection, cql: &str) -> Vec<Vec<Option<Vec<u8>>>> {
    let begin = Instant::now();
    loop {
        match node.query(cql, Consistency::Quorum) {
            Ok(rows) => return rows,
            // One that has just been started is not yet, for this node.
            Err(e)
                if e.to_string().contains("not in normal state") && begin.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(200));
            }
            Err(e) => panic!("{cql}: {e}"),
        }
    }
}
