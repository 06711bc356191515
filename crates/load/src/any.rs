//! One of the workloads, chosen when the program runs.

use crate::kv::KeyValue;
use crate::measure::ErrorKind;
use crate::run::Workload;
use crate::statements::Scripted;
use crate::ycsb::Ycsb;
use rand_chacha::ChaCha8Rng;

#[derive(Debug)]
pub enum Any {
    KeyValue(KeyValue),
    Ycsb(Ycsb),
    Scripted(Scripted),
}

impl Workload for Any {
    fn kinds(&self) -> Vec<&str> {
        match self {
            Self::KeyValue(workload) => workload.kinds(),
            Self::Ycsb(workload) => workload.kinds(),
            Self::Scripted(workload) => workload.kinds(),
        }
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        match self {
            Self::KeyValue(workload) => workload.call(client, rng).await,
            Self::Ycsb(workload) => workload.call(client, rng).await,
            Self::Scripted(workload) => workload.call(client, rng).await,
        }
    }
}
