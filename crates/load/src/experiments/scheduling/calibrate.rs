//! Costs of reads for real nodes, their clients and a proxy, by CPU time per request: the calibration of this
//! experiment's simulation.
//!
//! One node coordinates, as long as its CPU time is to be told from a replica's: reads of its own rows
//! cost L, reads of another's rows cost the coordinator X and the replica Y. With c for coordinating, r
//! for reading, and m for the message between nodes at each end: L = c + r, X = c + m, Y = r + m. So
//! m = (X + Y − L) / 2. The same holds for each further row of a range, and for each of its bytes, which
//! two tables with rows of different sizes tell apart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use reads::{Reads, Table, stretches};
use split::{Both, Split, line};

use super::mix::Mix;
use super::queries::{Queries, QueryPattern, Sessions};
use super::tables::{Order, Tables};
use crate::client::endpoint::{Endpoint, Policy};
use crate::client::raw::RawClients;
use crate::measure::Phase;
use crate::process::Watched;
use crate::run::{Limit, Plan, run_closed};

mod reads;
mod split;

/// Reads in flight while CPU time is measured: enough to keep the node busy.
const IN_FLIGHT: usize = 8;
/// Rows of the ranges, few and many.
const ROWS_FEW: usize = 1;
const ROWS_MANY: usize = 400;
/// Bytes of a row in the two tables.
const WIDE_BYTES: usize = 1_000;
const NARROW_BYTES: usize = 100;
const ROWS: u64 = 40_000;
/// Tables of the mixed queries, rows of each, and clients that ask them.
const TABLES: usize = 10;
const TABLE_ROWS: u64 = 10_000;
const MIXED_CLIENTS: usize = 32;
const KEYSPACE: &str = "helenus_calibration";
/// Statements that are prepared, to see what that costs.
const STATEMENTS: usize = 300;

/// The nodes and the proxy that are measured.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// `host:port` of each node, with its process.
    pub nodes: Vec<(String, Watched)>,
    pub proxy: (String, Watched),
    /// Length of each measurement.
    pub time: Duration,
    pub warmup: Duration,
}

/// A check on the costs of single reads: the benchmark's own tables and queries, at 32 clients.
#[derive(Clone, Copy, Debug)]
pub struct Mixed {
    /// CPU time of all nodes for each query, in microseconds: of point reads alone, sent to the nodes; of
    /// as many point reads as scans, sent to the nodes, and through the proxy.
    pub points_us: f64,
    pub direct_us: f64,
    pub proxied_us: f64,
}

/// CPU time in microseconds for each operation: of a coordinator, of a replica, of this process.
#[derive(Clone, Copy, Debug)]
struct Cost {
    coordinator_us: f64,
    replica_us: f64,
    client_us: f64,
    latency_us: f64,
    p95_us: f64,
}

impl Calibration {
    /// Names and values of all figures; those of rows and KiB are per row and KiB, all in microseconds.
    /// Nodes that do the same all the time do it at their best; so what they do for a mix of queries is
    /// measured, too.
    pub async fn run(
        &self,
        say: &mut dyn FnMut(String),
    ) -> Result<(BTreeMap<&'static str, f64>, Mixed)> {
        ensure!(self.nodes.len() > 1, "at least two nodes are needed");
        let wide = self.table(WIDE_BYTES, say).await?;
        let narrow = self.table(NARROW_BYTES, say).await?;
        say("warming up".into());
        self.warm_up(&wide).await?;
        self.warm_up(&narrow).await?;

        say("point reads".into());
        let point = self.both(&wide, None, say).await?;
        let of_point = point.split();
        let mut slopes = Vec::new();
        let mut few = None;
        for table in [&wide, &narrow] {
            let least = self.both(table, Some(ROWS_FEW), say).await?;
            let most = self.both(table, Some(ROWS_MANY), say).await?;
            slopes.push(most.per(least, (ROWS_MANY - ROWS_FEW) as f64).split());
            few.get_or_insert(least);
        }
        // Costs of rows of no bytes, and of each KiB of them.
        let kib = [WIDE_BYTES, NARROW_BYTES].map(|bytes| (bytes + 8) as f64 / 1024.0);
        let of_rows = |of: fn(&Split) -> f64| line(of(&slopes[0]), of(&slopes[1]), kib);
        let (row_us, row_kib_us) = of_rows(|split| split.read_us);
        let (answer_row_us, answer_kib_us) = of_rows(|split| split.coordinate_us);
        let (remote_row_us, remote_kib_us) = of_rows(|split| split.remote_us);
        let few = few.context("no range was read")?;
        let range_us = few.local_us - of_point.coordinate_us - slopes[0].read_us;

        say("one read at a time".into());
        let alone = self.reads(&wide, 0, 0, None, 1).await?;
        let many = self.reads(&wide, 0, 0, Some(ROWS_MANY), 1).await?;
        let work_us = alone.client_us + of_point.coordinate_us + of_point.read_us;
        let hop_us = ((alone.latency_us - work_us) / 2.0).max(1.0);
        // The 95th percentile lies 1.645 standard deviations above the median.
        let sigma = (many.p95_us / many.latency_us).ln().max(0.0) / 1.645;

        say("statements".into());
        let prepare_us = self.prepare_cost(&wide).await?;
        let mut figures = BTreeMap::from([
            ("hop_us", hop_us),
            ("coordinate_us", of_point.coordinate_us),
            ("prepare_us", prepare_us),
            ("point_us", of_point.read_us),
            ("range_us", range_us.max(0.0)),
            ("row_us", row_us),
            ("row_kib_us", row_kib_us),
            ("answer_row_us", answer_row_us),
            ("answer_kib_us", answer_kib_us),
            ("remote_us", of_point.remote_us),
            ("remote_row_us", remote_row_us),
            ("remote_kib_us", remote_kib_us),
            ("sigma", sigma),
        ]);
        say("clients and proxy".into());
        self.clients_and_proxy(&wide, &narrow, &mut figures).await?;
        let mixed = self.mixed(say).await?;
        Ok((figures, mixed))
    }

    async fn mixed(&self, say: &mut dyn FnMut(String)) -> Result<Mixed> {
        let table = self.filled(TABLES, TABLE_ROWS, WIDE_BYTES, say).await?;
        let nodes_us = async |endpoint: &Endpoint, mix: Mix| -> Result<f64> {
            let pattern = QueryPattern::Mixed(mix);
            let phase = self
                .queries(endpoint, &table, pattern, MIXED_CLIENTS)
                .await?;
            Ok(self.nodes.iter().map(|(_, of)| cost_us(&phase, of)).sum())
        };
        let (nodes, proxy) = (self.all_nodes(), self.proxy());
        let even = Mix {
            points: 1,
            scans: 1,
        };
        say("mixed queries".into());
        // The first time, nodes and proxy get used to them.
        nodes_us(&nodes, even).await?;
        nodes_us(&proxy, even).await?;
        Ok(Mixed {
            direct_us: nodes_us(&nodes, even).await?,
            proxied_us: nodes_us(&proxy, even).await?,
            points_us: nodes_us(&nodes, Mix::POINTS).await?,
        })
    }

    async fn table(&self, row_bytes: usize, say: &mut dyn FnMut(String)) -> Result<Table> {
        self.filled(1, ROWS, row_bytes, say).await
    }

    async fn filled(
        &self,
        count: usize,
        rows: u64,
        row_bytes: usize,
        say: &mut dyn FnMut(String),
    ) -> Result<Table> {
        let tables = Tables {
            keyspace: KEYSPACE.into(),
            count,
            rows,
            row_bytes,
            replication: 1,
            scan_rows_max: rows as i32,
        };
        let endpoint = self.all_nodes();
        tables.create_and_fill(&endpoint, say).await?;
        let index = Arc::new(tables.index(&endpoint).await?);
        ensure!(
            index.order() == Order::Tokens,
            "the nodes must have Murmur3Partitioner"
        );
        let session = endpoint.connect().await?;
        let addresses: Vec<String> = self.nodes.iter().map(|(of, _)| of.clone()).collect();
        let stretches = stretches(&session, &tables, &index, &addresses)?;
        Ok(Table {
            tables,
            index,
            stretches,
        })
    }

    fn all_nodes(&self) -> Endpoint {
        let addresses = self.nodes.iter().map(|(address, _)| address.clone());
        Endpoint::new("nodes", addresses.collect(), Policy::TokenAware)
    }

    fn proxy(&self) -> Endpoint {
        let address = vec![self.proxy.0.clone()];
        Endpoint::new("proxy", address, Policy::TokenAware)
    }

    async fn warm_up(&self, table: &Table) -> Result<()> {
        for rows in [None, Some(ROWS_FEW), Some(ROWS_MANY)] {
            for coordinator in 0..self.nodes.len() {
                let other = (coordinator + 1) % self.nodes.len();
                for owner in [coordinator, other] {
                    let time = self.warmup / (12 * self.nodes.len() as u32);
                    self.phase(table, coordinator, owner, rows, IN_FLIGHT, time)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Reads of a row, or of so many, with the coordinator's own rows and with another's.
    async fn both(
        &self,
        table: &Table,
        rows: Option<usize>,
        say: &mut dyn FnMut(String),
    ) -> Result<Both> {
        let local = self.reads(table, 0, 0, rows, IN_FLIGHT).await?;
        let remote = self.reads(table, 0, 1, rows, IN_FLIGHT).await?;
        let what = rows.map_or("points".to_owned(), |rows| format!("ranges of {rows}"));
        say(format!("{what}, {} bytes", table.tables.row_bytes));
        Ok(Both {
            local_us: local.coordinator_us,
            coordinator_us: remote.coordinator_us,
            replica_us: remote.replica_us,
        })
    }

    async fn reads(
        &self,
        table: &Table,
        coordinator: usize,
        owner: usize,
        rows: Option<usize>,
        in_flight: usize,
    ) -> Result<Cost> {
        let phase = self
            .phase(table, coordinator, owner, rows, in_flight, self.time)
            .await?;
        let cost_us = |watched: &Watched| cost_us(&phase, watched);
        Ok(Cost {
            coordinator_us: cost_us(&self.nodes[coordinator].1),
            replica_us: cost_us(&self.nodes[owner].1),
            client_us: cost_us(&Watched::this_process()),
            latency_us: phase.latency.us_p50 as f64,
            p95_us: phase.latency.us_p95 as f64,
        })
    }

    async fn phase(
        &self,
        table: &Table,
        coordinator: usize,
        owner: usize,
        rows: Option<usize>,
        in_flight: usize,
        time: Duration,
    ) -> Result<Phase> {
        let name = table.tables.name(0);
        let text = match rows {
            None => format!("SELECT * FROM {name} WHERE k = ?"),
            Some(_) => {
                format!("SELECT * FROM {name} WHERE token(k) > ? AND token(k) <= ? LIMIT ?")
            }
        };
        let endpoint = Endpoint::new(
            "node",
            vec![self.nodes[coordinator].0.clone()],
            Policy::TokenAware,
        );
        let raw = RawClients::open(&endpoint, &[&text], in_flight).await?;
        let values = table.values(owner, rows);
        ensure!(!values.is_empty(), "a node has too few rows in one stretch");
        let reads = Arc::new(Reads {
            raw,
            values,
            rows: rows.unwrap_or(1),
            next: Default::default(),
        });
        let plan = Plan {
            watched: self.watched(),
            ..Plan::new(in_flight, Limit::Time(time))
        };
        let phase = run_closed(&reads, &plan).await;
        ensure!(phase.errors.is_empty(), "reads failed: {:?}", phase.errors);
        Ok(phase)
    }

    fn watched(&self) -> Vec<Watched> {
        let nodes = self.nodes.iter().map(|(_, watched)| watched.clone());
        let others = [self.proxy.1.clone(), Watched::this_process()];
        nodes.chain(others).collect()
    }

    /// CPU time of a node for a PREPARE of a text that it does not know.
    async fn prepare_cost(&self, table: &Table) -> Result<f64> {
        let name = table.tables.name(0);
        // From here on, no run of the program has the same texts as another.
        let salt = std::process::id();
        let texts: Vec<String> = (0..STATEMENTS)
            .map(|at| format!("SELECT * FROM {name} WHERE token(k) > {salt}{at:04} LIMIT ?"))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (address, watched) = &self.nodes[0];
        let endpoint = Endpoint::new("node", vec![address.clone()], Policy::TokenAware);
        let before = crate::process::cpu_time(watched.pid)?;
        RawClients::open(&endpoint, &texts, 1).await?;
        let after = crate::process::cpu_time(watched.pid)?;
        Ok(after.saturating_sub(before).as_secs_f64() * 1e6 / STATEMENTS as f64)
    }

    /// CPU time of the driver and of a proxy for a point read, and for each row of a table.
    async fn clients_and_proxy(
        &self,
        wide: &Table,
        narrow: &Table,
        figures: &mut BTreeMap<&'static str, f64>,
    ) -> Result<()> {
        let proxy = self.proxy();
        let (this, that) = (Watched::this_process(), self.proxy.1.clone());
        let points = QueryPattern::Mixed(Mix::POINTS);
        let direct = self
            .queries(&self.all_nodes(), wide, points, IN_FLIGHT)
            .await?;
        let proxied = self.queries(&proxy, wide, points, IN_FLIGHT).await?;
        figures.insert("client_request_us", cost_us(&direct, &this));
        figures.insert("proxy_request_us", cost_us(&proxied, &that));
        let mut of_row = Vec::new();
        for table in [wide, narrow] {
            let phase = self
                .queries(&proxy, table, QueryPattern::WholeTable, IN_FLIGHT)
                .await?;
            of_row.push([&this, &that].map(|of| cost_us(&phase, of) / ROWS as f64));
        }
        let kib = [WIDE_BYTES, NARROW_BYTES].map(|bytes| (bytes + 8) as f64 / 1024.0);
        let names = [
            ("client_row_us", "client_kib_us"),
            ("proxy_row_us", "proxy_kib_us"),
        ];
        for (at, (row, per_kib)) in names.into_iter().enumerate() {
            let (wide, narrow) = (of_row[0][at], of_row[1][at]);
            let (row_us, kib_us) = line(wide, narrow, kib);
            figures.insert(per_kib, kib_us);
            figures.insert(row, row_us);
        }
        Ok(())
    }

    async fn queries(
        &self,
        endpoint: &Endpoint,
        table: &Table,
        pattern: QueryPattern,
        clients: usize,
    ) -> Result<Phase> {
        let order = table.index.order();
        let sessions = Arc::new(Sessions::open(endpoint, &table.tables, order, 1).await?);
        let time_out = Duration::from_secs(60);
        let mut last = None;
        // The first time, a proxy learns.
        for (seed, time) in [(1, self.time / 2), (2, self.time)] {
            let (sessions, index) = (sessions.clone(), table.index.clone());
            let queries = Queries::new(sessions, index, pattern, time_out, seed);
            let plan = Plan {
                watched: self.watched(),
                ..Plan::new(clients, Limit::Time(time))
            };
            let phase = run_closed(&Arc::new(queries), &plan).await;
            let errors = &phase.errors;
            ensure!(errors.is_empty(), "queries failed: {errors:?}");
            last = Some(phase);
        }
        last.context("nothing was measured")
    }
}

/// CPU time of a process for each operation.
fn cost_us(phase: &Phase, watched: &Watched) -> f64 {
    let used = phase.processes.get(&watched.name);
    used.map_or(f64::NAN, |used| used.cpu_us_per_op)
}
