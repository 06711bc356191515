//! Workloads, clients, measurements and reports.
//!
//! This crate measures what a client of a CQL endpoint sees, with a real driver, and knows nothing
//! of how Helenus decides: a yardstick must not be made of what it measures.
//!
//! - [`endpoint`]: where to connect, and with which driver policy
//! - [`ask`]: clients, of a driver or with a plain connection each
//! - [`keys`], [`kv`], [`ycsb`], [`statements`], [`cas`], [`flights`], [`trips`]: what is asked
//! - [`run`], [`turns`], [`progress`]: closed and open loops, arms in turn
//! - [`measure`], [`taken`], [`process`], [`scrape`], [`spread`]: what is recorded
//! - [`overhead`], [`aggregation`], [`scheduling`]: the experiments of those names; [`arms`]: what
//!   they share
//! - [`machine`], [`report`], [`html`], [`svg`]: what is handed to the reader

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod aggregation;
pub mod any;
pub mod arms;
pub mod ask;
pub mod cas;
pub mod endpoint;
pub mod failure;
pub mod flights;
pub mod html;
pub mod idle;
pub mod keys;
pub mod kv;
pub mod machine;
pub mod measure;
pub mod overhead;
mod plot;
pub mod process;
pub mod progress;
pub mod report;
pub mod run;
pub mod scheduling;
pub mod scrape;
pub mod spread;
pub mod statements;
pub mod svg;
pub mod taken;
pub mod trips;
pub mod turns;
pub mod ycsb;
