//! The way of a request through the stations: this alone sees the whole engine. `receive.rs` tells where to begin.

pub(crate) mod arrival;
pub(crate) mod arrived;
pub(crate) mod client_answer;
pub(crate) mod client_events;
pub(crate) mod departures;
pub(crate) mod engine;
pub(crate) mod fail;
pub(crate) mod finish;
pub(crate) mod node_request;
pub(crate) mod nodes;
pub(crate) mod outdated;
pub(crate) mod query;
pub(crate) mod queue;
pub(crate) mod receive;
pub(crate) mod request;
pub(crate) mod respond;
pub(crate) mod response;
pub(crate) mod retry;
pub(crate) mod rewriting;
pub(crate) mod route;
pub(crate) mod send;
pub(crate) mod settle;
pub(crate) mod shown;
pub(crate) mod step;
pub(crate) mod timing;
