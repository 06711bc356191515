//! The table of prepared statements that all workers of a proxy share, by their ids.
//!
//! Workers keep what they have met lately, and look here no more while that has its place. So whatever loses its place,
//! to a newer description or for want of room, is marked ([`Standing`]): it may have changed.

use crate::statement::prepared::standing::Standing;
use crate::support::recent::Recent;
use crate::support::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An entry that a place holds.
pub(crate) trait Entry {
    fn id(&self) -> &[u8];
    /// Bytes that it takes.
    fn byte_len(&self) -> usize;
    fn standing(&self) -> &Standing;
}

/// A place. Once it is lost another version of the entry may take it, unseen by the workers that still have this one.
#[derive(Debug)]
struct Published<E: Entry>(Arc<E>);

impl<E: Entry> Drop for Published<E> {
    fn drop(&mut self) {
        self.0.standing().note_replaced();
    }
}

type Known<E> = Recent<Box<[u8]>, Arc<Published<E>>>;

/// The table, bounded in bytes.
#[derive(Debug)]
pub(crate) struct Registry<E: Entry>(Mutex<Known<E>>);

impl<E: Entry> Registry<E> {
    pub(crate) fn new(bytes_max: usize) -> Registry<E> {
        Registry(Mutex::new(Recent::new(bytes_max)))
    }

    /// Puts another bound in force, from the next entry on.
    pub(crate) fn set_bytes_max(&self, bytes_max: usize) {
        self.known().set_bytes_max(bytes_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.known().len()
    }

    pub(crate) fn get(&self, id: &[u8]) -> Option<Arc<E>> {
        Some(self.known().get(id)?.0.clone())
    }

    /// Those of all entries that are wanted; what was used lately comes first. Workers wait meanwhile.
    pub(crate) fn all(&self, is_wanted: impl Fn(&E) -> bool) -> Vec<Arc<E>> {
        let known = self.known();
        let all = known.values().map(|published| &published.0);
        all.filter(|entry| is_wanted(entry)).cloned().collect()
    }

    /// Gives an entry the place of whatever has its id.
    pub(crate) fn publish(&self, entry: &Arc<E>) {
        put(&mut self.known(), entry);
    }

    /// An entry as all workers know it. One that was forgotten in between takes its place again.
    pub(crate) fn published_or(&self, own: Arc<E>) -> Arc<E> {
        let mut known = self.known();
        if let Some(published) = known.get(own.id()) {
            return published.0.clone();
        }
        own.standing().come_back();
        put(&mut known, &own);
        own
    }

    /// Gives an entry a place behind all others, unless one with its id has it: then `compare` gets that one and the
    /// other.
    pub(crate) fn adopt(&self, entry: Arc<E>, compare: impl FnOnce(&E, &E)) {
        let mut known = self.known();
        match known.get(entry.id()) {
            Some(published) => compare(&published.0, &entry),
            None => {
                let (id, weight) = (entry.id().into(), entry.byte_len());
                known.insert_behind(id, Arc::new(Published(entry)), weight);
            }
        }
    }

    /// Nodes may describe these otherwise by now.
    pub(crate) fn doubt(&self, is_meant: impl Fn(&E) -> bool) {
        for Published(entry) in self.known().values().map(|published| &**published) {
            if is_meant(entry) {
                entry.standing().doubt();
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put<E: Entry>(known: &mut Known<E>, entry: &Arc<E>) {
    let (id, weight) = (entry.id().into(), entry.byte_len());
    known.insert(id, Arc::new(Published(entry.clone())), weight);
}
