//! Arguments of `helenus layouts create`.

use std::path::PathBuf;

use clap::Args;
use helenus_cql::Name;
use helenus_rows::TableName;

use super::super::home::{self, Said};
use super::super::removed::Removed;
use super::super::replication::{self, Replication};
use super::super::work::Work;
use super::request::{self, Wanted};
use crate::common::Common;
use crate::nodes::access::Access;

/// Make layouts of a table, while clients use it.
#[derive(Args)]
pub struct CreateArgs {
    /// KEYSPACE.TABLE
    pub(in crate::layouts) table: TableName,
    /// A layout: its name, and all clustering columns in its order; may be repeated
    #[arg(long = "layout", value_name = "NAME=COLUMN,…", value_parser = request::parse)]
    pub(in crate::layouts) layouts: Vec<Wanted>,
    /// The layouts of this design, as `layouts advise --json` prints it
    #[arg(long, value_name = "FILE.json", conflicts_with = "layouts")]
    pub(in crate::layouts) design: Option<PathBuf>,
    /// Make the layouts derived: hold them in a keyspace of their own, replicated like this, such as
    /// "{'class': 'NetworkTopologyStrategy', 'dc1': 1}". They are written after the table, and read at ONE and LOCAL_ONE
    #[arg(long, value_name = "MAP", value_parser = replication::parse)]
    pub(in crate::layouts) replication: Option<Replication>,
    /// That keyspace, which is created if it is not there [default: the table's keyspace and __layouts]
    #[arg(long, value_name = "NAME", requires = "replication", value_parser = home::parse_keyspace)]
    pub(in crate::layouts) keyspace: Option<Name>,
    /// The role of the proxies (cluster.username), which is then allowed to read the catalogue; may be repeated
    /// [default: --user]
    #[arg(long, value_name = "ROLE")]
    pub(in crate::layouts) proxy_role: Vec<String>,
    #[command(flatten)]
    pub(in crate::layouts) access: Access,
    #[command(flatten)]
    pub(in crate::layouts) work: Work,
    #[command(flatten)]
    _removed: Removed,
    #[command(flatten)]
    pub(in crate::layouts) common: Common,
}

impl CreateArgs {
    /// What is said of where the layouts are to be held.
    pub(in crate::layouts) fn said(&self) -> Said {
        Said {
            replication: self.replication.clone(),
            keyspace: self.keyspace.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: CreateArgs,
    }

    #[test]
    fn a_keyspace_for_layouts_needs_a_replication() {
        let parse = |more: &[&str]| {
            let given = ["create", "shop.orders", "--layout", "a=x,y"].iter();
            Cli::try_parse_from(given.chain(more)).map(|cli| cli.args.said())
        };
        let map = "{'class': 'NetworkTopologyStrategy', 'dc1': 1}";
        assert!(parse(&[]).is_ok_and(|said| said.replication.is_none()));
        let said = parse(&["--replication", map, "--keyspace", "far"]).expect("both");
        assert_eq!(said.keyspace.as_deref(), Some("far"));
        for (wrong, told) in [
            (&["--keyspace", "far"][..], "--replication"),
            (&["--replication", "dc1: 1"], "is no replication"),
            (
                &["--replication", map, "--keyspace", "a.b"],
                "a keyspace's name",
            ),
        ] {
            let refused = parse(wrong).expect_err(told).to_string();
            assert!(refused.contains(told), "{refused}");
        }
    }
}
