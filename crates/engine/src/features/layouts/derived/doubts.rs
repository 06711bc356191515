//! Partitions that derived layouts may not have as their table has them: until they have been compared, the table is
//! read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::rewrite::leases::Lease;

/// Those of all tables, as far as this proxy knows.
#[derive(Debug)]
pub struct Doubts {
    /// Until when what was read of those of others is good.
    read: Lease,
    /// For how long layouts are written after their tables, and not beside them.
    refused: Lease,
    /// There are some: without any, nobody waits for a lock.
    has_any: AtomicBool,
    /// By keyspace and table.
    known: RwLock<FxHashMap<String, FxHashMap<String, OfTable>>>,
}

/// Partitions of one table, with the time since which they are known here.
#[derive(Clone, Debug, Default)]
struct OfTable {
    tokens: FxHashMap<i64, Instant>,
    /// All of it.
    whole: Option<Instant>,
    /// Until when this is good, if others could not be asked since: then it is in doubt, too.
    unread: Option<Instant>,
}

impl OfTable {
    fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.whole.is_none() && self.unread.is_none()
    }

    fn holds(&self, token: Option<i64>, now: Instant) -> bool {
        let has = match token {
            Some(token) => self.tokens.contains_key(&token),
            None => !self.tokens.is_empty(),
        };
        has || self.whole.is_some() || self.unread.is_some_and(|until| until <= now)
    }
}

/// The partitions of a table that are said to be in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Tokens(Vec<i64>),
    /// There are more than are kept.
    All,
    /// They could not be read.
    Unread,
}

impl Doubts {
    pub(crate) fn new(now: Instant) -> Doubts {
        Doubts {
            read: Lease::new(now),
            refused: Lease::new(now),
            has_any: AtomicBool::new(false),
            known: RwLock::default(),
        }
    }

    /// Partitions of a table are in doubt, all of them if one is not known.
    pub(crate) fn add(&self, table: (&str, &str), tokens: &[Option<i64>], now: Instant) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let of_keyspace = known.entry(table.0.to_owned()).or_default();
        let of = of_keyspace.entry(table.1.to_owned()).or_default();
        for token in tokens {
            match token {
                Some(token) => {
                    of.tokens.insert(*token, now);
                }
                None => of.whole = Some(now),
            }
        }
        self.has_any.store(true, Ordering::Release);
    }

    /// A table has refused a write that a layout may have.
    pub(crate) fn note_refusal(&self, now: Instant) {
        self.refused.renew(now);
    }

    /// Tables may refuse more: a layout is written once its table has taken the write.
    pub(crate) fn is_refused_lately(&self, now: Instant) -> bool {
        self.refused.is_held(now)
    }

    /// Whether a partition of a table is in doubt; without a token, whether any is. All are while it is not known what others
    /// have put in doubt.
    pub fn holds(&self, table: (&str, &str), token: Option<i64>, now: Instant) -> bool {
        if !self.read.is_held(now) {
            return true;
        }
        if !self.has_any.load(Ordering::Acquire) {
            return false;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let of = known.get(table.0).and_then(|tables| tables.get(table.1));
        of.is_some_and(|of| of.holds(token, now))
    }

    /// True of a table if nothing is known of it since others were last asked.
    pub fn is_unread(&self, table: (&str, &str)) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let of = known.get(table.0).and_then(|tables| tables.get(table.1));
        of.is_some_and(|of| of.unread.is_some())
    }

    /// What is stored of all tables, as it was asked for then: it tells of all that was doubted before, and of nothing later.
    /// A table that could not be read keeps none of the others waiting; of itself it has what was read before, for as long
    /// as that is good.
    pub fn adopt(&self, told: &[((String, String), Told)], asked: Instant) {
        let before = self.read.until(asked).unwrap_or(asked);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (keyspace, tables) in known.iter_mut() {
            for (table, of) in tables.iter_mut() {
                let mut told = told.iter();
                let is_it = |named: &(String, String)| (&named.0, &named.1) == (keyspace, table);
                if told.any(|(named, told)| is_it(named) && *told == Told::Unread) {
                    continue;
                }
                of.tokens.retain(|_, since| *since >= asked);
                of.whole = of.whole.filter(|since| *since >= asked);
                of.unread = None;
            }
        }
        for ((keyspace, table), told) in told {
            let of_keyspace = known.entry(keyspace.clone()).or_default();
            let of = of_keyspace.entry(table.clone()).or_default();
            match told {
                // Known only from there: the next reading may forget it.
                Told::Tokens(tokens) => {
                    for token in tokens {
                        of.tokens.entry(*token).or_insert(asked);
                    }
                }
                Told::All => of.whole = of.whole.or(Some(asked)),
                Told::Unread => of.unread = of.unread.or(Some(before)),
            }
        }
        known.retain(|_, tables| {
            tables.retain(|_, of| !of.is_empty());
            !tables.is_empty()
        });
        self.has_any.store(!known.is_empty(), Ordering::Release);
        drop(known);
        self.read.renew(asked);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helenus_catalogue::waits::lease;

    use super::*;
    use crate::testing::begin;

    const ORDERS: (&str, &str) = ("shop", "orders");

    fn orders(told: Told) -> ((String, String), Told) {
        ((ORDERS.0.to_owned(), ORDERS.1.to_owned()), told)
    }

    #[test]
    fn a_partition_is_in_doubt_until_a_later_reading_does_not_tell_of_it() {
        let at = |ms| begin() + Duration::from_millis(ms);
        let doubts = Doubts::new(at(0));
        let holds = |table, token| doubts.holds(table, token, at(50));
        assert!(holds(ORDERS, None), "nobody has asked");
        doubts.adopt(&[], at(1));
        assert!(!holds(ORDERS, None));
        doubts.add(ORDERS, &[Some(7)], at(10));
        assert!(holds(ORDERS, Some(7)) && !holds(ORDERS, Some(8)));
        assert!(holds(ORDERS, None) && !holds(("shop", "users"), None));
        doubts.adopt(&[], at(5));
        assert!(holds(ORDERS, Some(7)), "asked for before");
        doubts.adopt(&[orders(Told::Tokens(vec![7, 9]))], at(20));
        assert!(holds(ORDERS, Some(7)) && holds(ORDERS, Some(9)));
        doubts.adopt(&[orders(Told::Tokens(vec![9]))], at(30));
        assert!(!holds(ORDERS, Some(7)) && holds(ORDERS, Some(9)));
        doubts.adopt(&[], at(40));
        assert!(!holds(ORDERS, Some(9)));
        assert!(
            doubts.holds(ORDERS, Some(9), at(40) + lease()),
            "that is long ago"
        );
    }

    #[test]
    fn of_an_unknown_partition_or_too_many_the_whole_table_is_in_doubt() {
        let at = |ms| begin() + Duration::from_millis(ms);
        let doubts = Doubts::new(at(0));
        let holds = |table, token| doubts.holds(table, token, at(50));
        doubts.adopt(&[], at(1));
        doubts.add(ORDERS, &[Some(7), None], at(10));
        assert!(holds(ORDERS, Some(8)));
        doubts.adopt(&[orders(Told::All)], at(20));
        assert!(holds(ORDERS, Some(8)));
        doubts.adopt(&[], at(30));
        assert!(!holds(ORDERS, Some(8)));
    }

    #[test]
    fn a_table_that_cannot_be_read_is_in_doubt_alone_once_what_was_read_of_it_is_too_old() {
        const USERS: (&str, &str) = ("shop", "users");
        let at = |s| begin() + Duration::from_secs(s);
        let doubts = Doubts::new(at(0));
        let unread = || orders(Told::Unread);
        // It never was read.
        doubts.adopt(&[unread()], at(1));
        assert!(doubts.holds(ORDERS, Some(7), at(1)) && doubts.is_unread(ORDERS));
        assert!(!doubts.holds(USERS, None, at(1)));
        doubts.adopt(&[orders(Told::Tokens(vec![7]))], at(2));
        assert!(doubts.holds(ORDERS, Some(7), at(2)) && !doubts.holds(ORDERS, Some(8), at(2)));
        for s in [3, 6, 9] {
            doubts.adopt(&[unread()], at(s));
            assert!(!doubts.holds(ORDERS, Some(8), at(s)));
        }
        assert!(doubts.holds(ORDERS, Some(7), at(9)), "it is still known");
        let end = at(2) + lease();
        doubts.adopt(&[unread()], end);
        assert!(doubts.holds(ORDERS, Some(8), end) && doubts.holds(ORDERS, None, end));
        assert!(!doubts.holds(USERS, None, end));
        doubts.adopt(&[orders(Told::Tokens(Vec::new()))], end);
        assert!(!doubts.holds(ORDERS, None, end) && !doubts.is_unread(ORDERS));
    }
}
