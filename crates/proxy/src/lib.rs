//! The shell around [`helenus_engine`]: sockets, TLS, the control connection, settings, admin HTTP.
//!
//! [`serve`] runs a proxy until it is told to stop. Each worker thread owns an engine and its
//! sockets; state shared by all threads is in `process` and in [`helenus_engine::shared`].

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod admin;
mod adopting;
mod asking;
pub mod boot_time;
mod capture;
mod capture_stream;
mod catalogue;
mod check;
mod client_socket;
pub mod config;
mod conn;
mod control;
mod events;
mod file_limit;
mod first_contact;
mod handover;
mod history;
mod idle_clients;
mod last_reload;
mod log_lines;
mod memory;
mod node_access;
mod node_state;
mod operator;
mod passing;
mod place;
mod places;
mod planted;
mod process;
mod proxy_names;
mod proxy_peers;
mod questions;
mod rarely;
mod recorder;
pub mod reference;
mod reload;
mod reports;
mod rows;
mod server;
mod service_manager;
mod timer;
mod tls;
mod traces;
mod transport;
mod unix_socket;
mod uuid;
mod worker;
mod worker_turns;

pub use catalogue::SCHEMA_AGE_MAX as CATALOGUE_AGE_MAX;
pub use check::{CheckReport, CheckedEncodings, CheckedLayouts, CheckedNode, check};
pub use config::Config;
pub use helenus_engine::features::encodings::SUFFIX as ENCODED_SUFFIX;
pub use helenus_engine::features::rules::explain::{ExplainedRule, Explanation, Question};
pub use helenus_engine::statement::prepared::asked::HALF_LIFE as COUNTS_HALF_LIFE;
pub use helenus_engine::upstream::connect::greeting::{DRIVER_NAME, VERSION_ENCODES};
pub use log_lines::{LogLine, LogLines};
pub use node_access::{GivenBy, NodeAccess};
pub use reload::{Program, SetLogFilter};
pub use reports::CheckedReport;
pub use server::serve;

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
