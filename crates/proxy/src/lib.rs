//! The shell around [`helenus_engine`]: sockets, TLS, the control connection, settings, admin HTTP.
//!
//! [`serve`] runs a proxy until it is told to stop. Each worker thread owns an engine and its
//! sockets; state shared by all threads is in `process` and in [`helenus_engine::shared`].

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod admin;
mod capture;
mod catalogue;
mod check;
pub mod config;
mod conn;
mod control;
mod handover;
mod idle_clients;
mod operator;
mod places;
mod planted;
mod process;
mod questions;
mod records;
mod reload;
mod reports;
mod server;
mod siblings;
mod system;
mod uuid;
mod worker;

pub use catalogue::SCHEMA_AGE_MAX as CATALOGUE_AGE_MAX;
pub use check::{CheckReport, CheckedEncodings, CheckedLayouts, CheckedNode, check};
pub use config::{Config, reference};
pub use conn::node_access::{GivenBy, NodeAccess};
pub use helenus_engine::features::encodings::SUFFIX as ENCODED_SUFFIX;
pub use helenus_engine::features::rules::explain::{ExplainedRule, Explanation, Question};
pub use helenus_engine::statement::prepared::asked::HALF_LIFE as COUNTS_HALF_LIFE;
pub use helenus_engine::upstream::connect::greeting::{DRIVER_NAME, VERSION_ENCODES};
pub use records::log_lines::{LogLine, LogLines};
pub use reload::{Program, SetLogFilter};
pub use reports::CheckedReport;
pub use server::serve;
pub use system::boot_time;

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use crate::config::Config;
    use crate::conn::Dialer;
    use crate::process::{Process, Senders};

    /// A process without listeners.
    pub(crate) fn process(config: Config) -> Process {
        let dialer = Dialer::new(&config).expect("a dialer");
        let senders = Senders {
            control: mpsc::channel(1).0,
            changes: mpsc::channel(1).0,
            recalls: mpsc::channel(1).0,
            actions: mpsc::channel(1).0,
            traces: mpsc::channel(1).0,
        };
        Process::new(config, dialer, None, Arc::default(), senders)
    }
}
