//! Requests and answers: who may ask, for what, and how it is said.

pub(super) mod access;
pub(super) mod answer;
pub(super) mod parameters;
pub(super) mod socket;
