//! Changing tables while clients use them: what `helenus layouts` and `helenus payload` have in common.

pub(crate) mod access;
pub(crate) mod catalogue;
pub(crate) mod cluster;
pub(crate) mod flags;
pub(crate) mod grants;
pub(crate) mod hints;
pub(crate) mod keyspace;
pub(crate) mod noted;
pub(crate) mod progress;
pub(crate) mod reading;
pub(crate) mod ring;
pub(crate) mod row;
pub(crate) mod settle;
pub(crate) mod table;
