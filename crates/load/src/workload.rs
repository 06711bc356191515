//! A load: operations that clients perform again and again.

use crate::measure::ErrorKind;
use rand_chacha::ChaCha8Rng;

pub mod any_workload;
pub mod cas;
pub(crate) mod fill;
pub mod flights;
pub mod keys;
pub mod kv;
pub mod profiles;
pub mod script;
pub mod ycsb;

pub trait Workload: Send + Sync + 'static {
    /// Names of the kinds of operation; `call` returns an index into them.
    fn kinds(&self) -> Vec<&str>;

    /// Performs one operation as client number `client` and returns its kind and outcome.
    fn call(
        &self,
        client: usize,
        rng: &mut ChaCha8Rng,
    ) -> impl Future<Output = (usize, Result<(), ErrorKind>)> + Send;
}
