//! Options of all commands that change tables.

use clap::Args;
use serde_json::Value;

use crate::catalogue::settle::Others;

#[derive(Args)]
pub(crate) struct Common {
    /// Do not wait for proxies, because none is running
    #[arg(long, hide = true)]
    pub no_proxies: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Common {
    pub(crate) fn others(&self, is_taken_over: bool) -> Others {
        Others::of(self.no_proxies, is_taken_over)
    }

    /// Prints the result for programs or for people.
    pub(crate) fn print(&self, report: &Value, text: &str) {
        match self.json {
            true => println!("{report:#}"),
            false => println!("{text}"),
        }
    }
}
