//! What the fuzz targets share.

pub mod answers;
pub mod client;
pub mod cluster;
pub mod input;
pub mod node;
pub mod socket;
pub mod worker;
pub mod world;
