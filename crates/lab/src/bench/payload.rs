//! `helenus bench payload`.

use super::common::{Common, Nodes, check_bounds, tell};
use crate::node_cpus::{cap_all, default_share};
use crate::stored_documents::catalogue;
use crate::stored_documents::coding::{ByColumn, ClientCoding, Measured, learn_columns};
use crate::stored_documents::disks::OwnDisks;
use crate::testbed::Proxy;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::terminal::{narrate, spinner};
use helenus_load::client::endpoint::{Endpoint, Policy};
use helenus_load::experiments::arms::{ROUND_ROBIN, TOKEN_AWARE};
use helenus_load::experiments::payload::{
    Coding, Collection, Contender, Disks, Payload, Stored, create, create_table,
};
use helenus_load::report::Report;
use helenus_migrate::payload::documents;
use helenus_payload::Codec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::cells_table;

mod table;

/// Time limit of `--quick`, minus the time for a last cell, for bringing the nodes down and for writing the
/// report.
const QUICK: Duration = Duration::from_secs(270);
/// The arms through Helenus begin with this, those whose client encodes with the other.
const THROUGH: &str = "helenus";
const DIRECT: &str = "direct";
const PLAIN: &str = "json";

#[derive(Args, Debug)]
pub(super) struct PayloadArgs {
    #[command(flatten)]
    common: Common,
    /// Codecs of the columns that Helenus encodes
    #[arg(long, value_delimiter = ',', default_value = "shape,zstd", value_parser = parse_codec, value_name = "CODEC")]
    codecs: Vec<Codec>,
    /// Codecs that a client of the nodes uses itself
    #[arg(long, value_delimiter = ',', default_value = "smile,messagepack,cbor,zstd,shape", value_parser = parse_codec, value_name = "CODEC")]
    client_codecs: Vec<Codec>,
    /// File with one JSON document per line, stored in a table of its own beside the generated profiles; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    documents: Vec<PathBuf>,
    /// Rows of each table [default: 20000, or 4000 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(20..=10_000_000))]
    rows: Option<u32>,
    /// Profiles to learn from, none of which is stored [default: 5000, or 2000 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    samples: Option<u32>,
    /// Clients, in a closed loop
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Maximum seconds per arm, cell and round [default: 6, or 2 with --quick]
    #[arg(long)]
    cell_seconds: Option<f64>,
}

pub(super) async fn payload(args: PayloadArgs) -> Result<()> {
    let began = Instant::now();
    raise_open_files_limit();
    args.check()?;
    let common = &args.common;
    let bar = spinner("generating documents and learning from some");
    let collections = args.collections()?;
    let of_learning = collections.clone();
    let learning = tokio::task::spawn_blocking(move || {
        let all = of_learning.iter();
        all.map(|collection| learn_columns(collection)).collect()
    });
    let learned: Vec<ByColumn> = learning.await.context("learning stopped")?;
    bar.finish_and_clear();

    let mut nodes = Nodes::up_with(common, |spec| spec.nodes(args.nodes())).await?;
    let bar = spinner("creating tables");
    let say = &mut narrate(&bar, began);
    let mut contenders = args.contenders(&nodes, &learned);
    let direct = &contenders[0].arm.endpoint;
    say("creating tables".into());
    let encoded = create_tables(direct, &contenders, &collections, &learned, common).await?;
    say("starting Helenus".into());
    // It must find the columns in the catalogue when it starts.
    let settings = ["payload.enabled=true".to_owned()];
    let proxy = Proxy::start_with(&nodes.contact_points, &settings).await?;
    catalogue::known(proxy.admin, encoded).await?;
    go_through(&mut contenders, &proxy);
    let experiment = args.experiment(&nodes, contenders, collections, began)?;
    let mut report = nodes.report("payload", common, experiment.rounds);
    describe(&mut report, &experiment, &learned);
    let open = {
        let of_cluster = |cluster| OwnDisks {
            cluster,
            merges: true,
        };
        let mut own = nodes.own.as_ref().map(of_cluster);
        let mut disks = own.as_mut().map(|own| own as &mut dyn Disks);
        experiment.prepare(&mut disks, &mut report, say).await?
    };
    args.cap(&mut nodes, &mut report)?;
    let codecs = Measured {
        codecs: args.measured_codecs(),
        collections: &experiment.collections,
        learned: &learned,
        documents_max: common.either(200, 1_000),
    };
    experiment.run(&open, &codecs, &mut report, say).await?;
    bar.finish_and_clear();
    let cells = cells_table(&report, &experiment);
    tell(&report, common, Some(cells))?;
    drop(open);
    drop(proxy);
    nodes.down()
}

/// Creates the table of each collection and arm. Returns how many columns Helenus has to encode.
async fn create_tables(
    direct: &Endpoint,
    contenders: &[Contender],
    collections: &[Arc<Collection>],
    learned: &[ByColumn],
    common: &Common,
) -> Result<usize> {
    let session = direct.connect().await?;
    create(&session, common.replication).await?;
    let cluster = catalogue::open(&direct.contact_points).await?;
    let mut encoded = 0;
    for (collection, learned) in collections.iter().zip(learned) {
        for contender in contenders {
            let (arm, stored) = (&contender.arm.endpoint.name, &contender.stored);
            create_table(&session, collection, arm, stored).await?;
            if let Stored::ByProxy(codec) = stored {
                let codec = parse_codec(codec)?;
                let columns = catalogue::encode(&cluster, collection, arm, codec, learned);
                encoded += columns.await?;
            }
        }
    }
    Ok(encoded)
}

/// Points the arms of Helenus to the proxy.
fn go_through(contenders: &mut [Contender], proxy: &Proxy) {
    let arms = contenders.iter_mut().map(|contender| &mut contender.arm);
    for arm in arms.filter(|arm| arm.endpoint.name.starts_with(THROUGH)) {
        arm.endpoint.contact_points = vec![proxy.address.to_string()];
        arm.proxy_pid = Some(proxy.pid());
        arm.admin = Some(proxy.admin);
    }
}

fn describe(report: &mut Report, experiment: &Payload, learned: &[ByColumn]) {
    for (collection, learned) in experiment.collections.iter().zip(learned) {
        let bytes: usize = learned.iter().map(|one| one.to_bytes().len()).sum();
        let kib = bytes as f64 / 1024.0;
        let text = format!("{kib:.0} KiB, once for a table");
        let name = format!("learned of {}", collection.name);
        report.settings.insert(name, text);
    }
}

impl PayloadArgs {
    fn check(&self) -> Result<()> {
        let seconds = self.cell_seconds.unwrap_or(1.0);
        check_bounds([("--cell-seconds", seconds, 3600.0)])?;
        self.common.rounds(2, 5)?;
        for (flag, codecs) in [
            ("--codecs", &self.codecs),
            ("--client-codecs", &self.client_codecs),
        ] {
            for (number, codec) in codecs.iter().enumerate() {
                ensure!(
                    !codecs[..number].contains(codec),
                    "{flag} has {codec} twice"
                );
            }
        }
        Ok(())
    }

    fn nodes(&self) -> u16 {
        self.common.nodes.unwrap_or(self.common.either(1, 3))
    }

    fn rows(&self) -> usize {
        self.rows.unwrap_or(self.common.either(4_000, 20_000)) as usize
    }

    /// The generated profiles first.
    fn collections(&self) -> Result<Vec<Arc<Collection>>> {
        let (rows, seed) = (self.rows(), self.common.seed);
        let samples = self.samples.unwrap_or(self.common.either(2_000, 5_000)) as usize;
        let mut all = vec![Arc::new(Collection::profiles(rows, samples, seed))];
        for path in &self.documents {
            let documents = documents::read(path, rows.saturating_mul(2), seed)?.documents;
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            let name = stem.to_string_lossy();
            all.push(Arc::new(Collection::of_documents(&name, documents, rows)?));
        }
        Ok(all)
    }

    /// Those of Helenus do not know its address yet.
    fn contenders(&self, nodes: &Nodes, learned: &[ByColumn]) -> Vec<Contender> {
        let contender = |name: String, policy, stored| {
            let contact_points = nodes.contact_points.clone();
            let arm = self.common.arm(&name, contact_points, policy);
            Contender { arm, stored }
        };
        let aware = Policy::TokenAware;
        let mut all = vec![contender(TOKEN_AWARE.into(), aware, Stored::Plain)];
        // To a single node all ways are the same.
        if nodes.contact_points.len() > 1 {
            let (name, policy) = (ROUND_ROBIN.into(), Policy::RoundRobin);
            all.push(contender(name, policy, Stored::Plain));
        }
        for &codec in &self.client_codecs {
            let of_collection =
                |learned| Arc::new(ClientCoding::new(codec, learned)) as Arc<dyn Coding>;
            let codings = learned.iter().map(of_collection).collect();
            let stored = Stored::ByClient(codings);
            all.push(contender(format!("{DIRECT}-{codec}"), aware, stored));
        }
        all.push(contender(
            format!("{THROUGH}-{PLAIN}"),
            aware,
            Stored::Plain,
        ));
        for codec in &self.codecs {
            let stored = Stored::ByProxy(codec.name().into());
            all.push(contender(format!("{THROUGH}-{codec}"), aware, stored));
        }
        all.extend(self.common.arms.iter().map(|extra| Contender {
            arm: self.common.running(extra),
            stored: Stored::Plain,
        }));
        all
    }

    /// Unless the cluster is not of this command.
    fn cap(&self, nodes: &mut Nodes, report: &mut Report) -> Result<()> {
        let note = match &mut nodes.own {
            Some(cluster) => {
                let cores = self.common.node_cpus;
                let cores = cores.unwrap_or_else(|| default_share(self.nodes()));
                cap_all(cluster, cores)?;
                format!(
                    "Each node's CPU is capped at {cores} cores; clients and Helenus share the rest of the \
                     machine."
                )
            }
            None => "Disks and CPU time of the nodes of --contact cannot be looked at, and their CPU is not \
                     capped by this command."
                .into(),
        };
        report.notes.push(note);
        Ok(())
    }

    /// All that some arm uses.
    fn measured_codecs(&self) -> Vec<Codec> {
        let used =
            |codec: &Codec| self.codecs.contains(codec) || self.client_codecs.contains(codec);
        Codec::ALL.into_iter().filter(used).collect()
    }

    fn experiment(
        &self,
        nodes: &Nodes,
        arms: Vec<Contender>,
        collections: Vec<Arc<Collection>>,
        began: Instant,
    ) -> Result<Payload> {
        let common = &self.common;
        Ok(Payload {
            collections,
            arms,
            replication: common.replication,
            rounds: common.rounds(2, 5)?,
            clients: self.clients as usize,
            warmup: common.span(None, 30.0, 120.0),
            cell_warmup: common.span(None, 0.2, 0.5),
            cell_time: common.span(self.cell_seconds, 2.0, 6.0),
            slices: common.either(2, 4),
            until: common.quick.then(|| began + QUICK),
            watched: nodes.watched(common)?,
            seed: common.seed,
        })
    }
}

fn parse_codec(text: &str) -> Result<Codec> {
    let codecs = Codec::ALL.into_iter();
    let mut codecs = codecs.filter(|codec| *codec != Codec::Raw);
    match codecs.clone().find(|codec| codec.name() == text) {
        Some(codec) => Ok(codec),
        None => {
            let names: Vec<&str> = codecs.by_ref().map(Codec::name).collect();
            bail!("there is no codec {text:?}; there are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
