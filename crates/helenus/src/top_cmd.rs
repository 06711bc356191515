//! `helenus top`.

mod keys;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use keys::{KeysView, Merged, table};

use crate::admin_url::{AdminUrl, token_of};

/// Clears a terminal and puts the cursor into its corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Show what proxies are asked for most, over and over.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// The partitions with the most predicted work, each with its rates (docs/hot.md)
    #[arg(long, required = true)]
    keys: bool,
    /// Admin servers of proxies; all of them are added up
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    admin: Vec<AdminUrl>,
    /// File with the token of the admin servers (admin.token)
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Partitions shown
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1.0)]
    every: f64,
    /// Look once. It fails if a proxy does not answer
    #[arg(long)]
    once: bool,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: TopArgs) -> Result<()> {
    ensure!(
        args.every.is_finite() && (0.1..=3600.0).contains(&args.every),
        "--every must be from 0.1 to 3600"
    );
    let token = args.admin_token_file.as_deref().map(token_of).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(watch(&args, token.as_deref()))
}

async fn watch(args: &TopArgs, token: Option<&str>) -> Result<()> {
    debug_assert!(args.keys, "nothing else can be shown yet");
    loop {
        let (views, mut failures) = look(args, token).await;
        if args.once || views.is_empty() {
            // Nothing to show: whoever watches may wait for it, a script must know.
            if let Some(failure) = failures.pop() {
                return Err(failure);
            }
        }
        let merged = Merged::of(&views, args.limit.into());
        let failures: Vec<String> = failures.iter().map(|e| format!("{e:#}")).collect();
        show(args, &merged, &failures)?;
        if args.once {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs_f64(args.every)).await;
    }
}

/// Asks all proxies at once.
async fn look(args: &TopArgs, token: Option<&str>) -> (Vec<KeysView>, Vec<anyhow::Error>) {
    let missing = "does not tell which partitions are asked for most";
    let asked = args
        .admin
        .iter()
        .map(|url| url.ask("/api/keys", token, missing));
    let (mut views, mut failures) = (Vec::new(), Vec::new());
    for answer in futures::future::join_all(asked).await {
        match answer {
            Ok(view) => views.push(view),
            Err(e) => failures.push(e),
        }
    }
    (views, failures)
}

fn show(args: &TopArgs, merged: &Merged, failures: &[String]) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string(merged)?);
        for failure in failures {
            eprintln!("helenus: {failure}");
        }
        return Ok(());
    }
    if !args.once && std::io::stdout().is_terminal() {
        print!("{CLEAR}");
    }
    println!("{}", merged.headline());
    println!("{}", table(merged));
    if !merged.keys_shown {
        println!(
            "Partitions are named by their tokens: to find one, SELECT … WHERE token(…) = …, or set \
             admin.show_keys."
        );
    }
    for failure in failures {
        println!("Not counted: {failure}");
    }
    Ok(())
}
