//! A set of copies, or of proxies.

use crate::bits::ones;

/// Members of a list by their number, 0 to 63, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members(u64);

impl Members {
    pub const EMPTY: Members = Members(0);
    pub const MAX: usize = 64;

    /// The members `0..count`, at most [`Members::MAX`].
    pub fn first(count: usize) -> Members {
        (0..count.min(Self::MAX)).collect()
    }

    pub fn of(member: usize) -> Members {
        Members::EMPTY.with(member)
    }

    pub fn contains(self, member: usize) -> bool {
        member < Self::MAX && self.0 & (1 << member) != 0
    }

    /// A number beyond [`Members::MAX`] is not added.
    #[must_use]
    pub fn with(self, member: usize) -> Members {
        if member < Self::MAX {
            Members(self.0 | 1 << member)
        } else {
            self
        }
    }

    #[must_use]
    pub fn union(self, other: Members) -> Members {
        Members(self.0 | other.0)
    }

    #[must_use]
    pub fn intersection(self, other: Members) -> Members {
        Members(self.0 & other.0)
    }

    #[must_use]
    pub fn minus(self, other: Members) -> Members {
        Members(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// In ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        ones(self.0)
    }
}

impl FromIterator<usize> for Members {
    fn from_iter<I: IntoIterator<Item = usize>>(members: I) -> Members {
        members.into_iter().fold(Members::EMPTY, Members::with)
    }
}
