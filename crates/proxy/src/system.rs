//! The machine: its clock, limits, memory and sockets, and the service manager.

pub mod boot_time;
pub(crate) mod file_limit;
pub(crate) mod memory;
pub(crate) mod service_manager;
pub(crate) mod unix_socket;
