//! Options of `helenus bench layouts`, and what is compared with them.

use super::design::{Chosen, Designs};
use super::synthetic;
use crate::bench::common::{Common, Nodes, check_bounds};
use crate::bench::variants::Variant;
use crate::testbed::Proxy;
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use helenus_advise::layouts::coefficients;
use helenus_cluster::ClusterSpec;
use helenus_load::client::endpoint::{Endpoint, Policy, parse_consistency};
use helenus_load::experiments::arms::{Arm, HELENUS, ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::experiments::layouts::{
    Contender, Copies, DECLARED, DERIVED, Derived, EQUAL_DISK, Form, HAND_COPIED, Instances,
    Layouts, Orders, SAI, Synthetic, VIEWS, data_center,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of `--quick`, minus the time for a last cell, for bringing the nodes down and for writing the
/// report.
const QUICK: Duration = Duration::from_secs(270);
const OFF: &str = "helenus-off";
const ANNEALED: &str = "helenus-hrca";
/// The setting that turns layouts on in a proxy.
const ENABLED: &str = "layouts.enabled=true";

/// An arm, or something else that is measured, that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Declared,
    Sai,
    Views,
    HandCopied,
    Layouts,
    Derived,
    Synthetic,
}

#[derive(Args, Debug)]
pub(in crate::bench) struct LayoutsArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Only lose a layout and, for comparison, a node's replica of a table, and time `helenus layouts rebuild` and
    /// `nodetool repair -full` [rounds: 5, or up to 2 with --quick]
    #[arg(long, conflicts_with_all = [
        "contact", "arms", "nodes", "added", "coefficients", "clients", "measured_rows", "consistency", "without",
        "cell_seconds", "warmup",
    ])]
    pub(super) recovery: bool,
    /// Each node in a data centre of its own: of the arms with derived layouts only helenus-equal-disk, whose table and
    /// two layouts are one copy each, in a data centre each; without synthetic tables
    #[arg(long, conflicts_with_all = ["contact", "nodes", "added", "recovery", "coefficients"])]
    apart: bool,
    /// TPC-H scale factor: 1 is 1,500,000 orders [default: 1, or 0.02 with --quick]
    #[arg(long)]
    scale: Option<f64>,
    /// Partitions of the orders
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    pub(super) branches: i32,
    /// Instances of each query
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) instances: u32,
    /// Layouts beside the table as declared
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    added: u8,
    /// What reads cost, as `helenus layouts calibrate` has measured it: also reports how well these coefficients
    /// predict the synthetic tables
    #[arg(long, value_name = "FILE")]
    coefficients: Option<PathBuf>,
    /// Reading clients
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    clients: u16,
    /// Writing clients
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    writing_clients: u16,
    /// Orders that each arm writes one by one in each round [default: 20000, or 1000 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    measured_rows: Option<u32>,
    /// Consistency levels of the reads; arms are compared at the first
    #[arg(long, value_delimiter = ',', default_value = "ONE,QUORUM")]
    consistency: Vec<String>,
    /// Leave these out
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Part>,
    /// Seconds per cell [default: 8, or 1 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
    /// Seconds of reads before the first round, of all arms in turn [default: 80, or 16 with --quick]
    #[arg(long, value_name = "SECONDS")]
    warmup: Option<f64>,
    /// Seconds a client waits; a failed read counts with this time
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    time_out: f64,
}

/// One way of holding the orders, and the arm that writes them.
pub(super) struct Held {
    pub(super) copies: Copies,
    pub(super) writer: &'static str,
    pub(super) chosen: Chosen,
}

impl LayoutsArgs {
    pub(super) fn check(&self) -> Result<()> {
        check_bounds([
            ("--cell-seconds", self.cell_seconds.unwrap_or(1.0), 3600.0),
            ("--time-out", self.time_out, 3600.0),
            ("--scale", self.scale(), 100.0),
        ])?;
        let left_out = [Part::Layouts, Part::Derived];
        ensure!(
            !self.apart || !left_out.iter().any(|part| self.without.contains(part)),
            "--apart compares derived layouts: leave neither them nor layouts out"
        );
        ensure!(
            (0.0..=3600.0).contains(&self.warmup.unwrap_or(0.0)),
            "--warmup must be from 0 to 3600"
        );
        for level in &self.consistency {
            parse_consistency(level)?;
        }
        Ok(())
    }

    pub(super) fn scale(&self) -> f64 {
        self.scale.unwrap_or(self.common.either(0.02, 1.0))
    }

    /// Layouts beside the table as declared.
    pub(super) fn added(&self) -> usize {
        match self.apart {
            true => self.common.replicas() - 1,
            false => self.added.into(),
        }
    }

    /// With data centres for them if copies are held apart.
    pub(super) fn places(&self, spec: ClusterSpec) -> ClusterSpec {
        let apart = self.apart.then_some(0..self.common.replicas());
        let places = apart.into_iter().flatten();
        places.fold(spec, |spec, copy| spec.place(data_center(copy), "r1"))
    }

    pub(super) fn variants(&self) -> Vec<Variant<()>> {
        let here = format!("cluster.local_dc={}", data_center(0));
        let apart = [&*here, "cluster.allow_remote_dc=true"];
        let all: &[&str] = if self.apart { &apart } else { &[] };
        let mut variants = vec![Variant::new("off", (), all)];
        if !self.without.contains(&Part::Layouts) {
            variants.push(Variant::new("", (), &[&[ENABLED], all].concat()));
        }
        variants
    }

    /// Smaller with `--quick`. Returns also by how much annealing was above certified designs.
    pub(super) fn synthetic(&self) -> Result<(Vec<Synthetic>, Vec<f64>)> {
        let calibrated = match &self.coefficients {
            Some(path) => Some(coefficients::load(Some(path))?.coefficients),
            None => None,
        };
        let quick = self.common.quick;
        let (rows, queries, layouts_max) = self.common.either((5_000, 10, 3), (50_000, 30, 6));
        let (mut all, mut gaps) = (Vec::new(), Vec::new());
        for columns in if quick { 3..=4 } else { 2..=5 } {
            let mut synthetic = Synthetic::draw(columns, rows, queries, self.common.seed);
            gaps.extend(synthetic::plan(
                &mut synthetic,
                layouts_max,
                self.common.seed,
                calibrated,
            )?);
            all.push(synthetic);
        }
        if !quick {
            // Too many orders to create them, but not to choose among them.
            let mut synthetic = Synthetic::draw(8, 2_000, queries, self.common.seed);
            gaps.extend(synthetic::plan(&mut synthetic, 1, self.common.seed, None)?);
        }
        if self.apart || self.without.contains(&Part::Synthetic) {
            all.clear();
        }
        Ok((all, gaps))
    }

    /// The first is the best single order.
    pub(super) fn parts(
        &self,
        designs: &Designs,
        with_layouts: bool,
        skipped: &mut Vec<String>,
    ) -> Vec<Held> {
        let mut parts = Vec::new();
        let add = |parts: &mut Vec<Held>, name: &str, form, writer, chosen: &Chosen, reads| {
            let copies = Copies {
                keyspace: format!("helenus_layouts_{name}"),
                form,
                orders: chosen.orders.clone(),
                reads,
                derived: None,
            };
            parts.push(Held {
                copies,
                writer,
                chosen: chosen.clone(),
            });
        };
        let wanted = |part| !self.without.contains(&part);
        let Designs { single, exact, .. } = designs;
        add(&mut parts, "tr", Form::Plain, TOKEN_AWARE, single, [0, 0]);
        // The client knows the table only.
        if with_layouts {
            add(&mut parts, "hr", Form::Layouts, HELENUS, exact, [0, 0]);
            // At a copy more for each layout, and at the disk of a single order.
            let replicas = self.common.replicas();
            let at_equal_disk = replicas.checked_sub(self.added()).filter(|of| *of > 0);
            let kinds = match self.apart {
                true => [None, Some(Derived::Apart)],
                false => [Some(replicas), at_equal_disk].map(|of| of.map(Derived::Together)),
            };
            if !self.apart && at_equal_disk.is_none() && wanted(Part::Derived) {
                skipped.push(format!(
                    "There is no {EQUAL_DISK}: {} layouts leave no replica of the table at its disk.",
                    self.added()
                ));
            }
            for (writer, derived) in [DERIVED, EQUAL_DISK].into_iter().zip(kinds) {
                if wanted(Part::Derived) && derived.is_some() {
                    let name = writer.trim_start_matches("helenus-").replace('-', "_");
                    add(&mut parts, &name, Form::Layouts, writer, exact, [0, 0]);
                    if let Some(held) = parts.last_mut() {
                        held.copies.derived = derived;
                    }
                }
            }
            if let Some(annealed) = &designs.annealed {
                add(
                    &mut parts,
                    "hrca",
                    Form::Layouts,
                    ANNEALED,
                    annealed,
                    [0, 0],
                );
            }
        }
        let has_sai = !self.common.cassandra.starts_with("4.");
        if wanted(Part::Sai) && has_sai {
            add(&mut parts, "sai", Form::Indexed, SAI, single, [0, 0]);
        } else if wanted(Part::Sai) {
            let version = &self.common.cassandra;
            skipped.push(format!("Cassandra {version} has no SAI indexes."));
        }
        if wanted(Part::Views) {
            add(&mut parts, "views", Form::Views, VIEWS, exact, exact.reads);
        }
        if wanted(Part::HandCopied) {
            add(
                &mut parts,
                "copies",
                Form::HandCopied,
                HAND_COPIED,
                exact,
                exact.reads,
            );
        }
        // Last, so that the others keep their colours in the charts without it.
        if wanted(Part::Declared) {
            add(
                &mut parts,
                "declared",
                Form::Plain,
                DECLARED,
                &designs.declared,
                [0, 0],
            );
        }
        parts
    }

    /// Of `--recovery`: a table without layouts, and one with a derived layout in place of a replica.
    pub(super) fn parts_of_recovery(&self, designs: &Designs) -> Vec<Held> {
        let mut parts = self.parts(designs, true, &mut Vec::new());
        parts.retain(|part| [TOKEN_AWARE, EQUAL_DISK].contains(&part.writer));
        parts
    }

    pub(super) fn endpoint(
        &self,
        name: &str,
        contact_points: &[String],
        policy: Policy,
    ) -> Endpoint {
        let mut endpoint = Endpoint::new(name, contact_points.to_vec(), policy);
        endpoint.connections_per_host = self.common.connections;
        endpoint.request_timeout = Duration::from_secs_f64(self.time_out);
        endpoint
    }

    fn contenders(
        &self,
        nodes: &Nodes,
        parts: &[Held],
        proxies: &[(Variant<()>, Proxy)],
    ) -> Vec<Contender> {
        let through = |name: &str| {
            let proxy = if name == OFF { OFF } else { HELENUS };
            let mut own = proxies.iter();
            let own = own.find(|(variant, _)| name.starts_with(HELENUS) && variant.name == proxy);
            own.map(|(_, proxy)| proxy)
        };
        let arm = |name: &str, copies: usize, writes: bool| {
            let proxy = through(name);
            let address = proxy.map(|proxy| vec![proxy.address.to_string()]);
            let policy = if name == ROUND_ROBIN {
                Policy::RoundRobin
            } else {
                Policy::TokenAware
            };
            let points = address.as_deref().unwrap_or(&nodes.contact_points);
            Contender {
                arm: Arm {
                    endpoint: self.endpoint(name, points, policy),
                    proxy_pid: proxy.map(Proxy::pid),
                    admin: proxy.map(|proxy| proxy.admin),
                },
                copies,
                writes,
                with_paused_node: match self.common.quick {
                    true => proxy.is_some(),
                    false => proxy.is_some() || [TOKEN_AWARE, HAND_COPIED].contains(&name),
                },
            }
        };
        let mut arms = vec![
            arm(TOKEN_AWARE, 0, true),
            arm(ROUND_ROBIN, 0, false),
            arm(OFF, 0, false),
        ];
        let others = parts.iter().enumerate().skip(1);
        arms.extend(others.map(|(at, part)| arm(part.writer, at, true)));
        for extra in &self.common.arms {
            let mut other = arm(&extra.name, 0, false);
            other.arm.endpoint.contact_points = vec![extra.address.clone()];
            other.arm.proxy_pid = extra.pid;
            arms.push(other);
        }
        arms
    }

    pub(super) fn experiment(
        &self,
        rounds: usize,
        nodes: &Nodes,
        parts: &[Held],
        proxies: &[(Variant<()>, Proxy)],
        began: Instant,
    ) -> Result<Layouts> {
        let common = &self.common;
        let measured = self.measured_rows;
        let measured = measured.unwrap_or(common.either(1_000, 20_000));
        let levels = self.consistency.iter();
        let levels = levels.map(|text| parse_consistency(text));
        Ok(Layouts {
            orders: Arc::new(Orders {
                rows: Vec::new(),
                branches: self.branches,
            }),
            instances: Arc::new(Instances(Vec::new())),
            copies: parts.iter().map(|part| part.copies.clone()).collect(),
            arms: self.contenders(nodes, parts, proxies),
            synthetic: Vec::new(),
            replication: self.common.replicas(),
            rounds,
            levels: levels.collect::<Result<_>>()?,
            clients: self.clients.into(),
            writing_clients: self.writing_clients.into(),
            measured_rows: measured as usize,
            repetitions: common.either(5, 9),
            warmup: common.span(self.warmup, 16.0, 80.0),
            cell_warmup: common.span(None, 0.2, 1.0),
            cell_time: common.span(self.cell_seconds, 1.0, 8.0),
            time_out: Duration::from_secs_f64(self.time_out),
            settle_max: common.span(None, 5.0, 60.0),
            check_time: common.span(None, 1.0, 20.0),
            compacts: !common.quick,
            until: common.quick.then(|| began + QUICK),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }

    /// Of `--recovery`: only those who fill the tables.
    pub(super) fn experiment_of_recovery(
        &self,
        nodes: &Nodes,
        parts: &[Held],
        proxies: &[(Variant<()>, Proxy)],
        began: Instant,
    ) -> Result<Layouts> {
        let rounds = self.common.rounds(2, 5)?;
        let mut experiment = self.experiment(rounds, nodes, parts, proxies, began)?;
        experiment.arms.retain(|arm| arm.writes);
        experiment.levels.clear();
        experiment.measured_rows = 0;
        Ok(experiment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::parsed;

    #[test]
    fn recovery_has_nodes_of_its_own_and_leaves_nothing_out() {
        let recovery: LayoutsArgs = parsed("x --recovery --quick --scale 0.1").unwrap();
        assert!(recovery.recovery && recovery.check().is_ok());
        for other in [
            "--contact 127.0.0.1:9042",
            "--arm a=127.0.0.1:9042",
            "--nodes 4",
            "--added 2",
            "--without derived",
            "--cell-seconds 1",
        ] {
            let refused = parsed::<LayoutsArgs>(&format!("x --recovery {other}"));
            assert!(refused.is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_held_apart_takes_no_more_than_a_single_order() {
        let orders = Orders::generate(0.005, 2).unwrap();
        let instances = Instances::draw(&orders, 10, 1);
        for (line, expected) in [
            ("x", vec![Derived::Together(3), Derived::Together(2)]),
            (
                "x --added 2",
                vec![Derived::Together(3), Derived::Together(1)],
            ),
            ("x --added 3", vec![Derived::Together(3)]),
            ("x --apart", vec![Derived::Apart]),
        ] {
            let args: LayoutsArgs = parsed(line).unwrap();
            let designs = Designs::of(&orders, &instances, args.added(), 1).unwrap();
            let parts = args.parts(&designs, true, &mut Vec::new());
            let derived = parts.iter().filter(|part| part.copies.derived.is_some());
            let derived: Vec<_> = derived.collect();
            let found: Vec<_> = derived
                .iter()
                .flat_map(|part| part.copies.derived)
                .collect();
            assert_eq!(found, expected, "{line}");
            if line.ends_with("apart") {
                let [apart] = &derived[..] else {
                    panic!("one arm")
                };
                assert_eq!((apart.writer, apart.copies.orders.len()), (EQUAL_DISK, 3));
            }
        }
        assert!(parsed::<LayoutsArgs>("x --apart --recovery").is_err());
        let without: LayoutsArgs = parsed("x --apart --without derived").unwrap();
        assert!(without.check().is_err());
    }

    #[test]
    fn one_copy_of_the_same_orders_is_lost_either_way() {
        let args: LayoutsArgs = parsed("x --recovery").unwrap();
        let orders = Orders::generate(0.005, 2).unwrap();
        let instances = Instances::draw(&orders, 10, 1);
        let designs = Designs::of(&orders, &instances, args.added(), 1).unwrap();
        let parts = args.parts_of_recovery(&designs);
        let [plain, layouts] = &parts[..] else {
            panic!("{} parts", parts.len())
        };
        assert_eq!(
            (plain.writer, plain.copies.form),
            (TOKEN_AWARE, Form::Plain)
        );
        assert_eq!(plain.copies.derived, None);
        assert_eq!(layouts.writer, EQUAL_DISK);
        assert_eq!(layouts.copies.derived, Some(Derived::Together(2)));
        assert_eq!(layouts.copies.orders.len(), 2, "the table, and one layout");
    }
}
