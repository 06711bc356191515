//! Arguments of `helenus layouts create`.

use std::path::PathBuf;

use clap::Args;
use helenus_rows::TableName;

use super::removed::Removed;
use super::request::{self, Wanted};
use super::work::Work;
use crate::nodes::access::Access;

/// Make layouts of a table, while clients use it.
#[derive(Args)]
pub struct CreateArgs {
    /// KEYSPACE.TABLE
    pub(super) table: TableName,
    /// A layout: its name, and all clustering columns in its order; may be repeated
    #[arg(long = "layout", value_name = "NAME=COLUMN,…", value_parser = request::parse)]
    pub(super) layouts: Vec<Wanted>,
    /// The layouts of this design, as `layouts advise --json` prints it
    #[arg(long, value_name = "FILE.json", conflicts_with = "layouts")]
    pub(super) design: Option<PathBuf>,
    /// The role of the proxies (cluster.username), which is then allowed to read the catalogue; may be repeated
    /// [default: --user]
    #[arg(long, value_name = "ROLE")]
    pub(super) proxy_role: Vec<String>,
    #[command(flatten)]
    pub(super) access: Access,
    #[command(flatten)]
    pub(super) work: Work,
    #[command(flatten)]
    _removed: Removed,
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    pub(super) no_proxies: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}
