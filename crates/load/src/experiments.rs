//! The experiments that `helenus bench` runs; [`disks`] is the one named `storage`.

pub mod aggregation;
pub mod arms;
pub mod assignment;
pub mod disks;
pub(crate) mod experiment;
pub mod hot;
pub mod layouts;
pub mod overhead;
pub mod payload;
pub(crate) mod prepare;
pub mod scale;
pub mod scheduling;
