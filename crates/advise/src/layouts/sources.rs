//! Where a design's statements and rows come from: files, or proxies and nodes.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use futures::future::try_join_all;
use helenus_console::admin::{AdminUrl, token_of};
use helenus_layout::SampledModel;
use helenus_migrate::nodes::access::Access;
use helenus_migrate::nodes::cluster::Cluster;
use helenus_migrate::nodes::table;
use helenus_rows::TableName;

use super::admin;
use super::drift::Present;
use super::learned::{self, Learned};
use super::read_rows::{self, Limits, Rows};
use super::sample_nodes::{self, Sampled};
use super::workload::{self, Workload};

#[derive(Args)]
#[command(group(ArgGroup::new("statements").required(true).args(["workload", "learned"])))]
pub(super) struct SourceArgs {
    /// KEYSPACE.TABLE; with --workload, the file's CREATE TABLE names it as well
    #[arg(required_unless_present = "workload")]
    table: Option<TableName>,
    /// CREATE TABLE and its SELECT statements, one a line, each with its weight before it if it has one
    /// (docs/layouts-design.md).
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Admin servers of proxies, which have counted the prepared statements of their clients; all of them
    /// are added up. CREATE TABLE comes from the nodes.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    learned: Vec<AdminUrl>,
    /// File with the token of the admin servers (admin.token)
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    admin_token_file: Option<PathBuf>,
    /// Write what was learned to a workload file
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    write_workload: Option<PathBuf>,
    /// Rows of the table, with the columns' names in the first line; otherwise they are read from the nodes.
    #[arg(long, value_name = "FILE.csv")]
    pub rows: Option<PathBuf>,
    #[command(flatten)]
    pub access: Access,
}

/// The basis of a design.
pub(super) struct Sources {
    pub workload: Workload,
    /// If it is told with its keyspace.
    pub name: Option<TableName>,
    /// How the nodes replicate that keyspace, if they were asked.
    pub replication: Option<String>,
    pub rows: Rows,
    /// If the rows come from the nodes.
    pub sampled: Option<Sampled>,
    /// If the statements come from proxies.
    pub learned: Option<Learned>,
    /// Then also how often they are asked, and the table's layouts.
    pub present: Option<Present>,
}

pub(super) async fn gather(args: &SourceArgs, limits: &Limits) -> Result<Sources> {
    let cluster = match args.workload.is_none() || args.rows.is_none() {
        true => Some(args.access.connect().await?),
        false => None,
    };
    let (workload, learned) = match (&args.workload, &cluster) {
        (Some(path), _) => {
            let shown = path.display();
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
            let workload = workload::parse(&text).with_context(|| shown.to_string())?;
            (workload, None)
        }
        (None, Some(cluster)) => {
            let (learned, per_s) = learn(args, cluster).await?;
            (workload::parse(&learned.file)?, Some((learned, per_s)))
        }
        (None, None) => bail!("give --workload or --learned"),
    };
    let name = table_name(args, &workload)?;
    let (schema, table) = (&workload.schema, &workload.table);
    let bound = workload
        .statements
        .iter()
        .map(|line| line.statement.bound());
    let sets = SampledModel::sets(table, bound);
    let (rows, sampled) = match (&args.rows, &cluster, &name) {
        (Some(path), ..) => (read_rows::read(path, schema, table, sets, limits)?, None),
        (None, Some(cluster), Some(name)) => {
            let read = sample_nodes::read(cluster, name, schema, table, sets, limits);
            let (rows, sampled) = read.await?;
            (rows, Some(sampled))
        }
        _ => bail!("name the table as KEYSPACE.TABLE, so that its rows can be read from the nodes"),
    };
    let present = match (&learned, &cluster, &args.table) {
        (Some((_, per_s)), Some(cluster), Some(name)) => {
            Some(Present::read(cluster, name, *per_s).await?)
        }
        _ => None,
    };
    let replication = match (&cluster, &name) {
        (Some(cluster), Some(name)) => Some(table::replication(cluster, &name.keyspace).await?),
        _ => None,
    };
    Ok(Sources {
        workload,
        name,
        replication,
        rows,
        sampled,
        learned: learned.map(|(learned, _)| learned),
        present,
    })
}

/// The table that is asked for, which must be that of the workload.
fn table_name(args: &SourceArgs, workload: &Workload) -> Result<Option<TableName>> {
    let named: Option<TableName> = workload.schema.full_name.parse().ok();
    match (&args.table, named) {
        (Some(asked), Some(named)) if *asked != named => {
            bail!("the workload file is about {named}, not about {asked}")
        }
        (Some(asked), None) if *asked.table != *workload.schema.table => {
            bail!(
                "the workload file is about {}, not about {asked}",
                workload.schema.table
            )
        }
        (Some(asked), _) => Ok(Some(asked.clone())),
        (None, named) => Ok(named),
    }
}

/// The proxies' counts as a workload, and its queries per second.
async fn learn(args: &SourceArgs, cluster: &Cluster) -> Result<(Learned, f64)> {
    let table = args
        .table
        .as_ref()
        .context("name the table as KEYSPACE.TABLE")?;
    let token = args.admin_token_file.as_deref().map(token_of).transpose()?;
    let asked = args
        .learned
        .iter()
        .map(|url| admin::statements(url, table, token.as_deref()));
    let counted = try_join_all(asked).await?;
    let per_s = learned::queries_per_s(&counted);
    let asked = learned::merge(counted);
    let create = create_statement(cluster, table).await?;
    let learned = learned::workload_of(&create, &asked)?;
    if let Some(path) = &args.write_workload {
        let shown = path.display();
        std::fs::write(path, &learned.file).with_context(|| format!("cannot write {shown}"))?;
    }
    let per_s = per_s * learned.usable_share();
    Ok((learned, per_s))
}

/// The table's CREATE TABLE, as the nodes describe it.
async fn create_statement(cluster: &Cluster, table: &TableName) -> Result<String> {
    let text = format!("DESCRIBE TABLE {}", table.to_cql());
    let rows: Vec<(String, String, String, String)> = cluster.rows(text).await?;
    // Its indexes are described as well.
    let found = rows.into_iter().find(|(_, kind, ..)| kind == "table");
    let (.., create) = found.with_context(|| format!("{table} is not described as a table"))?;
    Ok(create)
}
