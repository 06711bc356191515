//! CQL native protocol v3 to v5: envelopes, frames, bodies. Pure.
