//! Ring, replicas, routing and admission. Pure and deterministic.
