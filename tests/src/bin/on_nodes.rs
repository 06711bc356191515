//! Runs a command beside three nodes that the pool has ([`helenus_tests::pool`]), or that are started for it:
//! `on_nodes COMMAND ARGUMENT…`. The command finds a node in `HELENUS_NODE` (`HOST:PORT`) and the folder of their
//! certificates in `HELENUS_NODE_TLS`, and must not kill nodes.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use helenus_tests::{kinds, pool};

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().context("no command is given")?;
    let cluster = pool::take(kinds::patient(3)).context("the nodes do not start")?;
    let tls = cluster.tls_files().context("nodes without TLS")?;
    let tls = tls.ca_pem.parent().context("no folder")?;
    let status = Command::new(&program)
        .args(arguments)
        .env("HELENUS_NODE", cluster.address(1)?.to_string())
        .env("HELENUS_NODE_TLS", tls)
        .status()
        .with_context(|| format!("{} does not start", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
