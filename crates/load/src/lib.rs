//! Workloads, clients, measurements and reports.
