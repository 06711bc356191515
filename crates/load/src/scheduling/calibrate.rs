//! What reads cost real nodes, their clients and a proxy, by CPU time per request: what the simulation of
//! this experiment is calibrated with.
//!
//! One node coordinates, as long as its CPU time is to be told from a replica's: reads of its own rows
//! cost L, reads of another's rows cost the coordinator X and the replica Y. With c for coordinating, r
//! for reading, and m for the message between nodes at each end: L = c + r, X = c + m, Y = r + m. So
//! m = (X + Y − L) / 2. The same holds for each further row of a range, and for each of its bytes, which
//! two tables with rows of different sizes tell apart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::routing::Token;

use super::mix::Mix;
use super::queries::{Queries, QueryPattern, Sessions};
use super::tables::{Index, Order, Tables};
use crate::client::raw::RawClients;
use crate::endpoint::{Endpoint, Policy};
use crate::measure::{ErrorKind, Phase};
use crate::process::Watched;
use crate::run::{Limit, Plan, run_closed};
use crate::workload::Workload;

/// Reads in flight while CPU time is measured: enough to keep the node busy.
const IN_FLIGHT: usize = 8;
/// Rows of the ranges, few and many.
const ROWS_FEW: usize = 1;
const ROWS_MANY: usize = 400;
/// Bytes of a row in the two tables.
const WIDE_BYTES: usize = 1_000;
const NARROW_BYTES: usize = 100;
const ROWS: u64 = 40_000;
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

/// CPU time in microseconds for each operation: of a coordinator, of a replica, of this process.
#[derive(Clone, Copy, Debug)]
struct Cost {
    coordinator_us: f64,
    replica_us: f64,
    client_us: f64,
    latency_us: f64,
    p95_us: f64,
}

/// The same measured with the coordinator's own rows, and with another's.
#[derive(Clone, Copy, Debug)]
struct Both {
    local_us: f64,
    coordinator_us: f64,
    replica_us: f64,
}

/// How it is divided.
#[derive(Clone, Copy, Debug)]
struct Split {
    coordinate_us: f64,
    read_us: f64,
    remote_us: f64,
}

impl Both {
    fn per(self, less: Both, count: f64) -> Both {
        Both {
            local_us: (self.local_us - less.local_us) / count,
            coordinator_us: (self.coordinator_us - less.coordinator_us) / count,
            replica_us: (self.replica_us - less.replica_us) / count,
        }
    }

    fn split(self) -> Split {
        let remote_us = (self.coordinator_us + self.replica_us - self.local_us) / 2.0;
        let remote_us = remote_us.max(0.0);
        Split {
            coordinate_us: (self.coordinator_us - remote_us).max(0.0),
            read_us: (self.replica_us - remote_us).max(0.0),
            remote_us,
        }
    }
}

/// One of the two tables.
struct Table {
    tables: Tables,
    index: Arc<Index>,
    /// Its rows by owner: stretches of rows that follow each other on the ring.
    stretches: Vec<Vec<std::ops::Range<usize>>>,
}

/// Reads over one node, all of the same kind.
struct Reads {
    raw: RawClients,
    values: Vec<Vec<Vec<u8>>>,
    rows: usize,
    next: AtomicUsize,
}

impl Workload for Reads {
    fn kinds(&self) -> Vec<&str> {
        vec!["read"]
    }

    async fn call(&self, client: usize, _: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.values.len();
        let values: Vec<&[u8]> = self.values[at].iter().map(Vec::as_slice).collect();
        let outcome = match self.raw.execute(client, 0, &values).await {
            Ok(response) if response.rows == self.rows => Ok(()),
            Ok(_) => Err(super::queries::WRONG),
            Err(error) => Err(error),
        };
        (0, outcome)
    }
}

impl Calibration {
    /// Names and values of all figures; those of rows and KiB are per row and KiB, all in microseconds.
    pub async fn run(&self, say: &mut dyn FnMut(String)) -> Result<BTreeMap<&'static str, f64>> {
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
        // What rows of no bytes would cost, and each KiB of them.
        let kib = [WIDE_BYTES, NARROW_BYTES].map(|bytes| (bytes + 8) as f64 / 1024.0);
        let line = |of: fn(&Split) -> f64| {
            let [wide, narrow] = [of(&slopes[0]), of(&slopes[1])];
            let per_kib = ((wide - narrow) / (kib[0] - kib[1])).max(0.0);
            ((narrow - per_kib * kib[1]).max(0.0), per_kib)
        };
        let (row_us, row_kib_us) = line(|split| split.read_us);
        let (answer_row_us, answer_kib_us) = line(|split| split.coordinate_us);
        let (remote_row_us, remote_kib_us) = line(|split| split.remote_us);
        let few = few.context("no range was read")?;
        let range_us = few.local_us - of_point.coordinate_us - slopes[0].read_us;

        say("one read at a time".into());
        let alone = self.reads(&wide, (0, 0), None, 1).await?;
        let many = self.reads(&wide, (0, 0), Some(ROWS_MANY), 1).await?;
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
        Ok(figures)
    }

    async fn table(&self, row_bytes: usize, say: &mut dyn FnMut(String)) -> Result<Table> {
        let tables = Tables {
            keyspace: KEYSPACE.into(),
            count: 1,
            rows: ROWS,
            row_bytes,
            replication: 1,
            scan_rows_max: ROWS as i32,
        };
        let endpoint = self.all_nodes();
        tables.create_and_fill(&endpoint, say).await?;
        let index = Arc::new(tables.index(&endpoint).await?);
        ensure!(
            index.order() == Order::Tokens,
            "the nodes must have Murmur3Partitioner"
        );
        let session = endpoint.connect().await?;
        let stretches = self.stretches(&session, &tables, &index)?;
        Ok(Table {
            tables,
            index,
            stretches,
        })
    }

    /// Rows of the ring that one node has, by node.
    fn stretches(
        &self,
        session: &Session,
        tables: &Tables,
        index: &Index,
    ) -> Result<Vec<Vec<std::ops::Range<usize>>>> {
        let state = session.get_cluster_state();
        let name = tables.name(0);
        let table = name.split('.').next_back().unwrap_or_default();
        let mut stretches = vec![Vec::new(); self.nodes.len()];
        let mut open: Option<(usize, usize)> = None;
        for (row, &(token, _)) in index.rows(0).iter().enumerate() {
            let owners = state.get_token_endpoints(KEYSPACE, table, Token::new(token));
            let (owner, _) = owners.first().context("a row has no owner")?;
            let address = format!("{}:{}", owner.address.ip(), owner.address.port());
            let node = self.nodes.iter().position(|(of, _)| *of == address);
            let node = node.with_context(|| format!("{address} is not among the nodes"))?;
            match open {
                Some((of, _)) if of == node => {}
                _ => {
                    if let Some((of, begin)) = open.replace((node, row)) {
                        stretches[of].push(begin..row);
                    }
                }
            }
        }
        Ok(stretches)
    }

    fn all_nodes(&self) -> Endpoint {
        let addresses = self.nodes.iter().map(|(address, _)| address.clone());
        Endpoint::new("nodes", addresses.collect(), Policy::TokenAware)
    }

    async fn warm_up(&self, table: &Table) -> Result<()> {
        for rows in [None, Some(ROWS_FEW), Some(ROWS_MANY)] {
            for coordinator in 0..self.nodes.len() {
                let other = (coordinator + 1) % self.nodes.len();
                for owner in [coordinator, other] {
                    let time = self.warmup / (12 * self.nodes.len() as u32);
                    self.phase(table, (coordinator, owner), rows, IN_FLIGHT, time)
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
        let local = self.reads(table, (0, 0), rows, IN_FLIGHT).await?;
        let remote = self.reads(table, (0, 1), rows, IN_FLIGHT).await?;
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
        (coordinator, owner): (usize, usize),
        rows: Option<usize>,
        in_flight: usize,
    ) -> Result<Cost> {
        let nodes = (coordinator, owner);
        let phase = self.phase(table, nodes, rows, in_flight, self.time).await?;
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
        (coordinator, owner): (usize, usize),
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
            next: AtomicUsize::new(0),
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

    /// What a node does for a PREPARE of a text that it does not know.
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

    /// What the driver and a proxy do for a point read, and for each row of a table.
    async fn clients_and_proxy(
        &self,
        wide: &Table,
        narrow: &Table,
        figures: &mut BTreeMap<&'static str, f64>,
    ) -> Result<()> {
        let proxy = vec![self.proxy.0.clone()];
        let proxy = Endpoint::new("proxy", proxy, Policy::TokenAware);
        let (this, that) = (Watched::this_process(), self.proxy.1.clone());
        let points = QueryPattern::Mixed(Mix::POINTS);
        let direct = self.queries(&self.all_nodes(), wide, points).await?;
        let proxied = self.queries(&proxy, wide, points).await?;
        figures.insert("client_request_us", cost_us(&direct, &this));
        figures.insert("proxy_request_us", cost_us(&proxied, &that));
        let mut of_row = Vec::new();
        for table in [wide, narrow] {
            let phase = self
                .queries(&proxy, table, QueryPattern::WholeTable)
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
            let kib_us = ((wide - narrow) / (kib[0] - kib[1])).max(0.0);
            figures.insert(per_kib, kib_us);
            figures.insert(row, (narrow - kib_us * kib[1]).max(0.0));
        }
        Ok(())
    }

    async fn queries(
        &self,
        endpoint: &Endpoint,
        table: &Table,
        pattern: QueryPattern,
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
                ..Plan::new(IN_FLIGHT, Limit::Time(time))
            };
            let phase = run_closed(&Arc::new(queries), &plan).await;
            let errors = &phase.errors;
            ensure!(errors.is_empty(), "queries failed: {errors:?}");
            last = Some(phase);
        }
        last.context("nothing was measured")
    }
}

impl Table {
    /// Values of reads of an owner's rows.
    fn values(&self, owner: usize, rows: Option<usize>) -> Vec<Vec<Vec<u8>>> {
        let bigint = |value: i64| value.to_be_bytes().to_vec();
        let all = self.index.rows(0);
        let stretches = self.stretches[owner].iter();
        let Some(rows) = rows else {
            let each = stretches.flat_map(|stretch| all[stretch.clone()].iter());
            return each.map(|&(_, key)| vec![bigint(key)]).collect();
        };
        let ranges = stretches.flat_map(|stretch| {
            // The row before the range must be the owner's, so that no other node is asked.
            let ends = (stretch.start + 1..).step_by(17);
            ends.take_while(|begin| begin + rows < stretch.end)
                .map(|begin| (all[begin - 1].0, all[begin + rows - 1].0))
        });
        ranges
            .map(|(above, up_to)| {
                let limit = (rows as i32).to_be_bytes().to_vec();
                vec![bigint(above), bigint(up_to), limit]
            })
            .collect()
    }
}

/// CPU time of a process for each operation.
fn cost_us(phase: &Phase, watched: &Watched) -> f64 {
    let used = phase.processes.get(&watched.name);
    used.map_or(f64::NAN, |used| used.cpu_us_per_op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_do_is_told_apart() {
        // c = 100, r = 70, m = 20.
        let both = Both {
            local_us: 170.0,
            coordinator_us: 120.0,
            replica_us: 90.0,
        };
        let split = both.split();
        let found = [split.coordinate_us, split.read_us, split.remote_us];
        assert_eq!(found, [100.0, 70.0, 20.0]);
        let per = both.per(
            Both {
                local_us: 70.0,
                coordinator_us: 20.0,
                replica_us: 40.0,
            },
            10.0,
        );
        assert_eq!(
            [per.local_us, per.coordinator_us, per.replica_us],
            [10.0, 10.0, 5.0]
        );
    }
}
