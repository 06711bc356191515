//! `helenus serve`.

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use helenus_console::open_files::raise_open_files_limit;
use helenus_console::settings::{Settings, log_filter};
use helenus_console::terminal::wants_colours;
use helenus_proxy::{LogLines, Program, SetLogFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::log_layer::LogLayer;
use crate::log_output::{Flush, Prioritised, is_journal, standard_error};
use crate::panics::end_process_on_panic;

#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: Settings,
    /// Log lines as JSON.
    #[arg(long, env = "HELENUS_LOG_JSON")]
    log_json: bool,
}

/// Logs to standard error until the end, and what is kept for those who ask; whoever calls what is returned changes what
/// is logged.
fn begin_log(filter: &str, as_json: bool, kept: Arc<LogLines>) -> Result<(SetLogFilter, Flush)> {
    let (filter, handle) = reload::Layer::new(log_filter(filter)?);
    let (writer, flush) = standard_error(&kept);
    let log = tracing_subscriber::registry()
        .with(filter)
        .with(LogLayer(kept));
    let text = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal() && wants_colours());
    let for_journal = is_journal();
    match as_json {
        true => {
            let text = text.json().map_event_format(|format| Prioritised {
                for_journal,
                format,
            });
            log.with(text).init();
        }
        false => {
            let text = text
                .with_target(false)
                .map_event_format(|format| Prioritised {
                    for_journal,
                    format,
                });
            log.with(text).init();
        }
    }
    let set_filter: SetLogFilter = Box::new(move |filter| Ok(handle.reload(log_filter(filter)?)?));
    Ok((set_filter, flush))
}

/// Files of the proxy beside those of clients: links, connections to the admin server, files that are read.
const OTHER_FILES: u64 = 1_000;

/// Advice if the limit of open files is too low for so many clients.
fn too_few_files(files: u64, clients_max: usize) -> Option<String> {
    let needed = clients_max as u64 + OTHER_FILES;
    (files < needed).then(|| {
        let served = files.saturating_sub(OTHER_FILES);
        format!(
            "{files} open files are allowed (ulimit -n, LimitNOFILE) and limits.clients_max = {clients_max} needs \
             {needed}: raise the limit, or set limits.clients_max to {served}"
        )
    })
}

pub(crate) fn run(args: ServeArgs) -> Result<()> {
    end_process_on_panic();
    let config = args.settings.load()?;
    let log = Arc::new(LogLines::default());
    let (set_log_filter, _flush) = begin_log(&config.log.filter, args.log_json, log.clone())?;
    // Each client and each link uses a file descriptor.
    let files = raise_open_files_limit();
    if let Some(warning) = too_few_files(files, config.limits.clients_max) {
        tracing::warn!("{warning}");
    }
    let program = Program {
        load: Box::new(move || args.settings.load()),
        set_log_filter,
        log,
    };
    helenus_proxy::serve(config, program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_told_with_what_would_do() {
        assert_eq!(too_few_files(21_000, 20_000), None);
        let told = too_few_files(4_096, 20_000).expect("too low");
        assert!(
            told.contains(" needs 21000") && told.contains("clients_max to 3096"),
            "{told}"
        );
    }
}
