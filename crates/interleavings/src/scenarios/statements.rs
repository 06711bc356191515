use std::collections::BTreeMap;

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::registry::{Entry, Registry};
use crate::standing::Standing;

const IDS: [&[u8]; 3] = [b"a", b"b", b"c"];
const BYTES: usize = 1_000;
/// There is room for two of the three: each that is used has another one forgotten a little later.
const BYTES_MAX: usize = 2 * (BYTES + 100);
const ROUNDS: usize = 3;

struct Statement {
    id: &'static [u8],
    /// Grows with each description.
    version: usize,
    standing: Standing,
}

impl Entry for Statement {
    fn id(&self) -> &[u8] {
        self.id
    }

    fn byte_len(&self) -> usize {
        BYTES
    }

    fn standing(&self) -> &Standing {
        &self.standing
    }
}

#[derive(Default)]
struct Common {
    /// By id: the newest description that has been published, and the newest that had been when a change of the schema was
    /// noted.
    published: [AtomicUsize; 3],
    doubted: [AtomicUsize; 3],
}

/// Statements that a worker has used lately.
type Cache = BTreeMap<usize, Arc<Statement>>;

/// One worker publishes new descriptions of three statements, one notes that the schema has changed, and all use the
/// statements, which are forgotten in between. Whoever has one that is not marked has the newest description that was
/// published before it looked, and none that is older than a change of the schema without knowing of that.
pub fn statements() {
    let registry = Arc::new(Registry::<Statement>::new(BYTES_MAX));
    let common = Arc::new(Common::default());
    for at in 0..IDS.len() {
        publish(&registry, &common, at, 1);
    }
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (registry, common) = (registry.clone(), common.clone());
            thread::spawn(move || {
                let mut cache = Cache::new();
                for round in 0..ROUNDS {
                    let at = (worker + round) % IDS.len();
                    match worker {
                        0 => cache.extend([(at, publish(&registry, &common, at, 2 + round))]),
                        1 => doubt(&registry, &common),
                        _ => {}
                    }
                    for at in 0..IDS.len() {
                        look(&registry, &common, &mut cache, at);
                    }
                }
                cache
            })
        })
        .collect();
    let mut caches = Vec::new();
    for worker in workers {
        caches.push(worker.join().expect("no worker panics"));
    }
    for (at, id) in IDS.iter().enumerate() {
        let kept = caches.iter().filter_map(|cache| cache.get(&at));
        let unmarked = kept.filter(|own| !own.standing.is_replaced());
        let known = registry.get(id).map(|known| known.version);
        for own in unmarked {
            assert_eq!(Some(own.version), known, "two have one place");
        }
    }
}

fn publish(
    registry: &Registry<Statement>,
    common: &Common,
    at: usize,
    version: usize,
) -> Arc<Statement> {
    let statement = Arc::new(Statement {
        id: IDS[at],
        version,
        standing: Standing::default(),
    });
    registry.publish(&statement);
    common.published[at].fetch_max(version, Ordering::SeqCst);
    statement
}

fn doubt(registry: &Registry<Statement>, common: &Common) {
    let published = common.published.each_ref();
    let published = published.map(|version| version.load(Ordering::SeqCst));
    registry.doubt(|_| true);
    for (doubted, version) in common.doubted.iter().zip(published) {
        doubted.fetch_max(version, Ordering::SeqCst);
    }
}

/// As workers do that are asked to execute a statement.
fn look(registry: &Registry<Statement>, common: &Common, cache: &mut Cache, at: usize) {
    let published = common.published[at].load(Ordering::SeqCst);
    let doubted = common.doubted[at].load(Ordering::SeqCst);
    let own = cache.get(&at).cloned();
    let found = match own {
        Some(own) if !own.standing.is_replaced() => Some(own),
        Some(own) => Some(registry.published_or(own)),
        None => registry.get(IDS[at]),
    };
    let Some(found) = found else {
        return;
    };
    assert_eq!(found.id, IDS[at]);
    if found.version <= doubted {
        assert!(found.standing.is_doubted(), "a change that was missed");
    }
    if !found.standing.may_have_changed() {
        assert!(found.version >= published, "an old description, unmarked");
    }
    cache.insert(at, found);
}
