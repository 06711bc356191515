use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::memory::{Held, Ledger, Memory};

const WORKERS: usize = 3;
/// Of each thing that is held: what a worker tells the others at once, so that the bound is exact but for what two
/// workers take at the same moment.
const BYTES: usize = 64 * 1024;
const MAX: usize = 4 * BYTES;

/// Three workers hold what there is room for, as it seems to them, and let it go. All of it is accounted for in the end, and
/// no more is held than the bound and, for each further worker, what it takes at that moment.
pub fn memory() {
    let memory = Arc::new(Memory::default());
    let held = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (memory, held) = (memory.clone(), held.clone());
            thread::spawn(move || {
                let ledger = Ledger::new(memory, MAX);
                for round in 1..=2 {
                    let mut own = Vec::new();
                    for _ in 0..=round {
                        if !ledger.is_full(BYTES) {
                            own.push(Held::new(&ledger, BYTES));
                            let all = held.fetch_add(BYTES, Ordering::SeqCst) + BYTES;
                            assert!(all <= MAX + (WORKERS - 1) * BYTES, "{all} bytes are held");
                        }
                    }
                    held.fetch_sub(own.len() * BYTES, Ordering::SeqCst);
                    drop(own);
                }
                assert_eq!(ledger.held(), 0);
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    assert_eq!(memory.held(), 0);
}
