use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::config::Scheduling;
use crate::scan_limit::ScanCounts;

/// Four workers begin scans of three keyspaces, of which one each and two in all may be under way. No more are, and the
/// places come back.
pub fn scans() {
    let counts = Arc::new(ScanCounts::default());
    let under_way: Arc<[AtomicUsize; 3]> = Arc::default();
    let in_all = Arc::new(AtomicUsize::new(0));
    let limits = Scheduling {
        scans_max: 2,
        scans_per_keyspace_max: 1,
        ..Scheduling::default()
    };
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (counts, limits) = (counts.clone(), limits.clone());
            let (under_way, in_all) = (under_way.clone(), in_all.clone());
            thread::spawn(move || {
                let of = worker % 3;
                for _ in 0..2 {
                    if let Ok(counted) = counts.begin(["a", "b", "c"][of], &limits) {
                        assert!(counted.is_some());
                        let before = under_way[of].fetch_add(1, Ordering::SeqCst);
                        assert_eq!(before, 0, "two scans of one keyspace");
                        assert!(in_all.fetch_add(1, Ordering::SeqCst) < 2, "three scans");
                        in_all.fetch_sub(1, Ordering::SeqCst);
                        under_way[of].fetch_sub(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("no worker panics");
    }
    for keyspace in ["a", "b", "c"] {
        assert!(counts.begin(keyspace, &limits).is_ok(), "places are back");
    }
}
