//! What `helenus layouts create` is asked for.

use std::path::PathBuf;

use clap::Args;
use helenus_rows::TableName;

use super::report::Mode;
use super::request::{self, Wanted};
use super::work::Work;
use crate::online::access::Access;

/// Make layouts of a table, while clients use it.
#[derive(Args)]
pub(super) struct CreateArgs {
    /// KEYSPACE.TABLE
    pub table: TableName,
    /// What the layouts are to the table
    #[arg(long, value_enum, default_value = "add")]
    pub mode: Mode,
    /// A layout: its name, and all clustering columns in its order; in mode `replace` also the data center that has it;
    /// may be repeated
    #[arg(long = "layout", value_name = "NAME=COLUMN,…[@DC]", value_parser = request::parse)]
    pub layouts: Vec<Wanted>,
    /// The layouts of this design, as `layouts advise --json` prints it
    #[arg(long, value_name = "FILE.json", conflicts_with = "layouts")]
    pub design: Option<PathBuf>,
    /// With `--mode replace`: the data centers of the layouts, in the order of these
    #[arg(long, value_name = "DC,…", value_delimiter = ',')]
    pub data_centers: Vec<String>,
    /// The role of the proxies (cluster.username), which is then allowed to read the catalogue, and in mode `replace` to
    /// keep the copies equal; may be repeated [default: --user]
    #[arg(long, value_name = "ROLE")]
    pub proxy_role: Vec<String>,
    #[command(flatten)]
    pub access: Access,
    #[command(flatten)]
    pub work: Work,
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    pub no_proxies: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
