//! `helenus serve`.

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use helenus_console::settings::{Settings, log_filter};
use helenus_console::terminal::wants_colours;
use helenus_proxy::{LogLines, Program, SetLogFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::log_layer::LogLayer;
use crate::open_files::raise_open_files_limit;

#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: Settings,
    /// Log lines as JSON.
    #[arg(long, env = "HELENUS_LOG_JSON")]
    log_json: bool,
}

/// Logs to standard error, and what is kept for those who ask; whoever calls what is returned changes what is
/// logged.
fn begin_log(filter: &str, as_json: bool, kept: Arc<LogLines>) -> Result<SetLogFilter> {
    let (filter, handle) = reload::Layer::new(log_filter(filter)?);
    let log = tracing_subscriber::registry()
        .with(filter)
        .with(LogLayer(kept));
    let text = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && wants_colours());
    match as_json {
        true => log.with(text.json()).init(),
        false => log.with(text.with_target(false)).init(),
    }
    Ok(Box::new(move |filter| {
        Ok(handle.reload(log_filter(filter)?)?)
    }))
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    let config = args.settings.load()?;
    let log = Arc::new(LogLines::default());
    let set_log_filter = begin_log(&config.log.filter, args.log_json, log.clone())?;
    // Each client and each link uses a file descriptor.
    let files = raise_open_files_limit();
    if files < config.limits.clients_max as u64 + 1_000 {
        tracing::warn!(
            files,
            clients_max = config.limits.clients_max,
            "the limit of open files (ulimit -n) is too low for limits.clients_max"
        );
    }
    let program = Program {
        load: Box::new(move || args.settings.load()),
        set_log_filter,
        log,
    };
    helenus_proxy::serve(config, program)
}
