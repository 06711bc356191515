//! Tables of JSON documents for `bench` and `demo`: what Helenus encodes, what clients encode themselves, and what
//! it takes on disk.

pub(crate) mod catalogue;
pub(crate) mod coding;
pub(crate) mod disks;
