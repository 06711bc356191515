//! A workload selected at run time.

use crate::measure::ErrorKind;
use crate::workload::Workload;
use crate::workload::kv::KeyValue;
use crate::workload::script::ScriptWorkload;
use crate::workload::ycsb::Ycsb;
use rand_chacha::ChaCha8Rng;

#[derive(Debug)]
pub enum AnyWorkload {
    KeyValue(KeyValue),
    Ycsb(Ycsb),
    Script(ScriptWorkload),
}

impl Workload for AnyWorkload {
    fn kinds(&self) -> Vec<&str> {
        match self {
            Self::KeyValue(workload) => workload.kinds(),
            Self::Ycsb(workload) => workload.kinds(),
            Self::Script(workload) => workload.kinds(),
        }
    }

    async fn call(&self, client: usize, rng: &mut ChaCha8Rng) -> (usize, Result<(), ErrorKind>) {
        match self {
            Self::KeyValue(workload) => workload.call(client, rng).await,
            Self::Ycsb(workload) => workload.call(client, rng).await,
            Self::Script(workload) => workload.call(client, rng).await,
        }
    }
}
