//! What a request asks for: statements, prepared ones, what is known of them, system tables.

pub mod analyze;
pub mod classify;
pub mod in_keys;
pub mod learned;
pub mod order;
pub mod prepared;
pub mod system;
