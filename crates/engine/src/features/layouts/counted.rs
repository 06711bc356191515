//! How often each layout is read.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

/// One layout's counters.
#[derive(Debug, Default)]
pub struct LayoutStats {
    pub keyspace: String,
    pub table: String,
    /// The table that holds the layout.
    pub physical: String,
    pub reads: AtomicU64,
}

/// Those of all layouts.
#[derive(Debug, Default)]
pub struct Counted(RwLock<Vec<Arc<LayoutStats>>>);

impl Counted {
    /// A layout's counters; past `max` of them all further ones share `other`. `layout`: its keyspace, its table, and
    /// its own name.
    pub fn of(&self, layout: (&str, &str, &str), max: usize) -> Arc<LayoutStats> {
        let (keyspace, table, physical) = layout;
        let mut layouts = match self.0.write() {
            Ok(layouts) => layouts,
            Err(poisoned) => poisoned.into_inner(),
        };
        let find = |layouts: &[Arc<LayoutStats>], keyspace: &str, physical: &str| {
            let mut layouts = layouts.iter();
            let is_it = |of: &&Arc<LayoutStats>| of.keyspace == keyspace && of.physical == physical;
            layouts.find(is_it).cloned()
        };
        if let Some(found) = find(&layouts, keyspace, physical) {
            return found;
        }
        let (keyspace, table, physical) = match layouts.len() >= max {
            true => ("other", "other", "other"),
            false => (keyspace, table, physical),
        };
        if let Some(found) = find(&layouts, keyspace, physical) {
            return found;
        }
        let made = Arc::new(LayoutStats {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
            physical: physical.to_owned(),
            reads: AtomicU64::new(0),
        });
        layouts.push(made.clone());
        made
    }

    pub fn list(&self) -> Vec<Arc<LayoutStats>> {
        self.0.read().map(|l| l.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_layouts_share_their_counters() {
        let counted = Counted::default();
        let layout = |physical| counted.of(("app", "orders", physical), 2);
        let first = layout("orders__layout_a");
        assert!(Arc::ptr_eq(&first, &layout("orders__layout_a")));
        assert_eq!(layout("orders__layout_b").physical, "orders__layout_b");
        let further = layout("orders__layout_c");
        assert_eq!(further.physical, "other");
        assert!(Arc::ptr_eq(&further, &layout("orders__layout_d")));
        assert_eq!(counted.list().len(), 3);
    }
}
