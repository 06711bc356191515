//! Targets: each takes any bytes, and panics if something does not hold.

pub mod cql_facts;
pub mod engine;
pub mod payload;
pub mod request_views;
pub mod wire_decoder;

/// One of them.
pub type Target = fn(&[u8]);

/// All, by the names of their corpora.
pub const ALL: [(&str, Target); 5] = [
    ("cql_facts", cql_facts::run),
    ("engine", engine::run),
    ("payload", payload::run),
    ("request_views", request_views::run),
    ("wire_decoder", wire_decoder::run),
];
