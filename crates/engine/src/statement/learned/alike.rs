//! Properties that statements alike share: scans of one table that restrict the same columns in the same way,
//! whatever their values and texts. A statement that nothing is known of begins with these; its own answers replace
//! them.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use helenus_cql::Facts;
use helenus_policy::predict::{Estimate, Pace};
use helenus_policy::schedule::Class;
use rustc_hash::{FxHashMap, FxHasher};

use super::mean::note;
use super::page_rows::PageRows;
use super::spread::Spread;
use super::suspension::Suspension;

/// Kinds of scans that are remembered. When there are more, all are forgotten.
const SHAPES_MAX: usize = 4_096;

/// Properties learned of all statements of one shape.
#[derive(Debug)]
pub(crate) struct Alike {
    scan: Mutex<Estimate>,
    pace: Mutex<Pace>,
    service_us: AtomicU32,
    pub(super) spread: Spread,
    pub(super) page_rows: PageRows,
    /// One of them has timed out lately.
    pub(super) long: Suspension,
}

/// The shapes of scans, over all tables.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: Mutex<FxHashMap<u64, Arc<Alike>>>,
}

impl Shapes {
    /// Properties of the statements of this shape, of this keyspace and table.
    pub(crate) fn of(&self, table: (&str, &str), facts: &Facts) -> Option<Arc<Alike>> {
        let shape = shape(table, facts)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SHAPES_MAX && !known.contains_key(&shape) {
            known.clear();
        }
        Some(known.entry(shape).or_default().clone())
    }
}

impl Default for Alike {
    fn default() -> Self {
        Alike {
            scan: Mutex::new(Estimate::of_class(Class::Scan)),
            pace: Mutex::default(),
            service_us: AtomicU32::new(0),
            spread: Spread::default(),
            page_rows: PageRows::default(),
            long: Suspension::default(),
        }
    }
}

impl Alike {
    pub(super) fn note_answer(&self, service_us: u32) {
        note(&self.service_us, service_us, 16);
    }

    /// `None` before the first answer.
    pub(super) fn service_us(&self) -> Option<u32> {
        let known = self.service_us.load(Ordering::Relaxed);
        (known != 0).then_some(known)
    }

    pub(super) fn note_piece(&self, service_us: u32, rows: u32, bytes: u32) {
        if let Ok(mut scan) = self.scan.lock() {
            scan.on_answer(service_us, rows, bytes);
        }
    }

    pub(super) fn note_stretch(&self, tokens: u64, service_us: u32) {
        if let Ok(mut pace) = self.pace.lock() {
            pace.note(tokens, service_us);
        }
    }

    /// The prior of another statement's pieces; `None` before the first piece.
    pub(super) fn pieces(&self) -> Option<Estimate> {
        let scan = *self.scan.lock().unwrap_or_else(PoisonError::into_inner);
        (scan.samples() > 0).then(|| scan.as_prior())
    }

    pub(super) fn pace(&self) -> Pace {
        *self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which columns a SELECT restricts, and how; not to which values, nor what it selects of the rows.
fn shape(table: (&str, &str), facts: &Facts) -> Option<u64> {
    let select = facts.select.as_deref()?;
    let mut hasher = FxHasher::default();
    let flags = [
        select.distinct,
        select.aggregates,
        select.calls,
        select.group_by,
        select.ann,
        select.allow_filtering,
        select.other_relations,
        select.order_by.is_empty(),
        select.limit.is_some(),
        select.per_partition_limit.is_some(),
        // A part of the ring that a client chooses is a part of the work.
        select.tokens.is_empty(),
    ];
    (table, flags).hash(&mut hasher);
    for term in &facts.key_terms {
        term.column.hash(&mut hasher);
    }
    for relation in &select.ins {
        (1_u8, &relation.columns).hash(&mut hasher);
    }
    for relation in &select.ranges {
        (2_u8, &relation.columns, relation.op).hash(&mut hasher);
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: (&str, &str) = ("ks", "t");

    fn is_alike(one: &str, other: &str) -> bool {
        let shapes = Shapes::default();
        let of = |text: &str| {
            shapes
                .of(TABLE, &helenus_cql::facts(text))
                .expect("a SELECT")
        };
        Arc::ptr_eq(&of(one), &of(other))
    }

    #[test]
    fn alike_are_those_that_restrict_the_same_columns() {
        let from = |rest: &str| format!("SELECT a FROM ks.t {rest}");
        for (one, other, expected) in [
            (
                "WHERE v = 1 ALLOW FILTERING",
                "WHERE v = 22 ALLOW FILTERING",
                true,
            ),
            (
                "WHERE v = 1 ALLOW FILTERING",
                "WHERE w = 1 ALLOW FILTERING",
                false,
            ),
            (
                "WHERE v = 1 ALLOW FILTERING",
                "WHERE v > 1 ALLOW FILTERING",
                false,
            ),
            (
                "WHERE v < 1 ALLOW FILTERING",
                "WHERE v > 1 ALLOW FILTERING",
                false,
            ),
            ("WHERE v = 1", "WHERE v = 1 ALLOW FILTERING", false),
            ("WHERE v = 1", "WHERE v = ?", true),
            ("LIMIT 10", "LIMIT 20", true),
            ("LIMIT 10", "", false),
            ("WHERE token(k) > 1", "WHERE token(k) > 77", true),
            ("WHERE token(k) > 1", "", false),
        ] {
            let (one, other) = (from(one), from(other));
            assert_eq!(is_alike(&one, &other), expected, "{one} and {other}");
        }
        assert!(!is_alike("SELECT a FROM t", "SELECT count(*) FROM t"));
    }

    #[test]
    fn shapes_are_of_one_table_and_bounded() {
        let shapes = Shapes::default();
        let of = |n: usize, table: &str| {
            let text = format!("SELECT a FROM t WHERE c{n} = 1 ALLOW FILTERING");
            let alike = shapes.of(("ks", table), &helenus_cql::facts(&text));
            alike.expect("a SELECT")
        };
        let first = of(0, "t");
        assert!(Arc::ptr_eq(&first, &of(0, "t")));
        assert!(!Arc::ptr_eq(&first, &of(0, "u")));
        for n in 0..2 * SHAPES_MAX {
            of(n, "t");
        }
        let known = shapes.known.lock().expect("not poisoned").len();
        assert!(known <= SHAPES_MAX, "{known}");
        let insert = helenus_cql::facts("INSERT INTO t (a) VALUES (1)");
        assert!(shapes.of(TABLE, &insert).is_none());
    }
}
