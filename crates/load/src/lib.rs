//! Workloads, clients, measurements and reports.
//!
//! This crate measures what a client of a CQL endpoint sees, with a real driver. It does not depend
//! on the crates that make Helenus's decisions: what measures is independent of what is measured.
//!
//! - [`client`]: driver sessions or plain connections that execute prepared statements, and another driver in a process
//!   of its own; where they connect, with which driver policy, encrypted or not
//! - [`workload`]: what a load consists of, and how keys are drawn
//! - [`run`], [`interleaved`], [`progress`]: closed and open loops, arms in turn
//! - [`measure`], [`recording`], [`process`], [`scrape`]: what is recorded
//! - [`experiments`]: what `helenus bench` compares
//! - [`replay`]: what a proxy has captured, played again; [`mirror`]: while it comes, on a second cluster
//! - [`ramp`]: the capacity of an endpoint
//! - [`storage`]: what the nodes' storage is and can do
//! - [`report`]: what was found, as JSON, as a page, for other tools, and two reports side by side

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod client;
pub mod experiments;
pub mod interleaved;
pub mod measure;
pub mod mirror;
pub mod process;
pub mod progress;
pub mod ramp;
pub mod recording;
pub mod replay;
pub mod report;
pub mod run;
pub mod scrape;
pub mod storage;
pub mod workload;
