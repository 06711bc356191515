//! Workloads, clients, measurements and reports.
//!
//! This crate measures what a client of a CQL endpoint sees, with a real driver. It does not depend
//! on the crates that make Helenus's decisions: what measures is independent of what is measured.
//!
//! - [`endpoint`]: where to connect, and with which driver policy; [`tls`]: encrypted, [`entrances`]: also for
//!   the driver
//! - [`client`]: driver sessions or plain connections that execute prepared statements; [`java`]: another
//!   driver in a process of its own
//! - [`workload`]: what a load consists of; [`kv`], [`ycsb`], [`script`], [`cas`], [`flights`]: the
//!   workloads; [`any_workload`]: one of them, selected at run time; [`keys`]: how keys are drawn
//! - [`run`], [`interleaved`], [`progress`]: closed and open loops, arms in turn
//! - [`measure`], [`recording`], [`process`], [`scrape`], [`spread`]: what is recorded
//! - [`hdr_log`]: interval histograms for other tools
//! - [`overhead`], [`aggregation`], [`scheduling`], [`assignment`], [`layouts`], [`payload`], [`scale`], [`hot`]:
//!   the experiments of those names; [`disks`]: the one named `storage`; [`arms`]: what they share
//! - [`profiles`]: documents for measuring codecs
//! - [`replay`]: what a proxy has captured, played again; [`mirror`]: while it comes, on a second cluster
//! - [`ramp`]: the capacity of an endpoint
//! - [`storage`]: what the nodes' storage is and can do
//! - [`compare`]: two reports side by side
//! - [`machine`], [`report`], [`html`], [`svg`]: reports

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod aggregation;
pub mod any_workload;
pub mod arms;
pub mod assignment;
pub mod cas;
pub mod client;
pub mod compare;
pub mod disks;
pub mod endpoint;
mod entrances;
pub mod failure;
mod fill;
pub mod flights;
pub mod hdr_log;
pub mod hot;
pub mod html;
pub mod idle;
pub mod interleaved;
pub mod java;
mod json;
pub mod keys;
pub mod kv;
pub mod layouts;
pub mod machine;
pub mod measure;
pub mod mirror;
pub mod overhead;
pub mod payload;
mod plot;
pub mod process;
pub mod profiles;
pub mod progress;
pub mod ramp;
pub mod recording;
pub mod replay;
pub mod report;
pub mod run;
pub mod scale;
pub mod scheduling;
pub mod scrape;
pub mod script;
pub mod spread;
pub mod storage;
pub mod svg;
pub mod tls;
pub mod workload;
pub mod ycsb;
