//! Point reads and scans of many clients, direct and through whole proxies, in virtual time: the experiment
//! of `helenus bench scheduling`, where it cannot run: on clusters of any size, and always alike.
//!
//! Proxies are engines with their own settings; everything that they decide, they decide here as in
//! production. Everything around them is modelled:
//!
//! - **Machines** have cores, which are shared fairly between processes, and within each between its
//!   threads. One machine for all, or one for each process.
//! - **Nodes** speak the protocol. Request threads, the READ stage and their queues, ranges that are read
//!   stretch by stretch of the ring, time-outs and dropped requests are those of Cassandra 5.0; what
//!   things cost comes from a calibration file.
//! - **Proxies' workers** and the **clients** need processors, too.
//! - **Connections** keep order and take a fixed time, and more for more bytes.
//!
//! Rows have a sixteenth of their bytes in memory, and so have the settings of proxies that count bytes
//! ([`Setup::shrink`]); costs are those of the whole rows.
//!
//! Not modelled: collected garbage, the just-in-time compiler, disks, replicas beyond the first, caches of
//! the processor, and that scans of one process slow its other threads down beyond their share.
//!
//! - [`setup`]: the experiment, and the arms to compare; [`calibration`]: what things cost
//! - `machine`, `processes`, `agenda`: processors, who shares them, and what happens next
//! - `data`, `queries`, `statement`, `rows`: tables, and what is asked and answered
//! - `request`, `cluster`, `answer`: nodes; `proxies`, `connection`, `snapshot`: proxies;
//!   `driver`, `clients`: clients
//! - `experiment`: one run; [`measured`]: what it has shown

mod agenda;
mod answer;
pub mod calibration;
mod clients;
mod cluster;
mod connection;
mod data;
mod driver;
mod experiment;
mod machine;
pub mod measured;
mod processes;
mod proxies;
mod queries;
mod request;
mod rows;
pub mod setup;
mod snapshot;
mod statement;

#[cfg(test)]
mod tests;

pub use crate::times::Times;
pub use calibration::Calibration;
pub use experiment::run;
pub use helenus_policy::schedule::Variant;
pub use measured::Measured;
pub use setup::{Arm, Offered, Setup};
