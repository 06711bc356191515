//! What the fuzz targets share.

pub mod answers;
pub mod node;
