//! Which members are in sync, as the catalogue has it, and how that may change.
//!
//! Every change makes a new list with the next version, to be stored by compare-and-set on the version
//! before. A compare-and-set whose outcome is unknown is no reason to assume anything: read the catalogue,
//! and act on what it says.

use super::members::Members;

/// Copies of a row, at most.
pub const COPIES_MAX: usize = 5;
/// Proxies of a cluster, at most. One that starts takes a number of its own.
pub const PROXIES_MAX: usize = Members::MAX;

/// The number of the table itself, beside those of its copies: while it is listed, Cassandra keeps all rows in it, too.
/// It has replicas of its own, on any nodes, so it has no start ([`List::boot`]).
pub const TABLE: usize = COPIES_MAX;
/// Members of a list of copies, at most.
pub const LISTED_MAX: usize = COPIES_MAX + 1;

pub type Copies = List<LISTED_MAX>;
pub type Proxies = List<PROXIES_MAX>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Has all that was acknowledged, and may be read.
    InSync,
    /// Is waited for, and not read.
    Joining,
    Out,
}

/// Why a list cannot change in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("no member has the number {0}")]
    NoSuchMember(usize),
    #[error("member {0} is the last in sync: without it nobody knows what was acknowledged")]
    LastInSync(usize),
    #[error("member {0} is not the last in sync: evict it, and compare it with the others")]
    NotLastInSync(usize),
    #[error("member {0} is out already")]
    IsOut(usize),
    #[error("member {0} is not out: evict it before it joins again")]
    IsNotOut(usize),
    #[error("member {0} is not joining, or has begun anew since")]
    IsNotJoining(usize),
}

/// The states of up to `N` members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<const N: usize> {
    version: u64,
    in_sync: Members,
    joining: Members,
    /// The version that has brought a member into its state; 0 if it was never listed.
    since: [u64; N],
    /// Which start of the member's node this is about: one that has been restarted may have lost the last
    /// writes that it had answered.
    boot: [u32; N],
}

impl<const N: usize> List<N> {
    /// The list of a new table: its copies are empty, and so in sync.
    pub fn new(in_sync: Members, boot: [u32; N]) -> List<N> {
        let in_sync = in_sync.intersection(Members::first(N));
        List {
            version: 1,
            in_sync,
            joining: Members::EMPTY,
            since: std::array::from_fn(|member| u64::from(in_sync.contains(member))),
            boot,
        }
    }

    /// The list as the catalogue has it. Who is called both in sync and joining is joining.
    pub fn from_parts(
        version: u64,
        in_sync: Members,
        joining: Members,
        since: [u64; N],
        boot: [u32; N],
    ) -> List<N> {
        let joining = joining.intersection(Members::first(N));
        let in_sync = in_sync.intersection(Members::first(N)).minus(joining);
        List {
            version,
            in_sync,
            joining,
            since,
            boot,
        }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn in_sync(&self) -> Members {
        self.in_sync
    }

    pub fn joining(&self) -> Members {
        self.joining
    }

    /// Those that are not out.
    pub fn listed(&self) -> Members {
        self.in_sync.union(self.joining)
    }

    pub fn state(&self, member: usize) -> State {
        if self.in_sync.contains(member) {
            State::InSync
        } else if self.joining.contains(member) {
            State::Joining
        } else {
            State::Out
        }
    }

    /// The version that has brought it into its state; 0 if it was never listed.
    pub fn since(&self, member: usize) -> u64 {
        self.since.get(member).copied().unwrap_or(0)
    }

    /// The start of its node that its state is about.
    pub fn boot(&self, member: usize) -> u32 {
        self.boot.get(member).copied().unwrap_or(0)
    }

    /// Leaves a member out, as long as another is in sync.
    pub fn evict(&self, member: usize) -> Result<List<N>, Refused> {
        match self.state(member) {
            State::Out => return Err(Refused::IsOut(member)),
            State::InSync if self.in_sync.len() == 1 => return Err(Refused::LastInSync(member)),
            State::InSync | State::Joining => {}
        }
        Ok(self.with_state(member, State::Out))
    }

    /// A member that is out leaves anew: who would let it join, as it was before, is refused.
    pub fn leave_anew(&self, member: usize) -> Result<List<N>, Refused> {
        match self.state(member) {
            State::Out => Ok(self.with_state(member, State::Out)),
            State::Joining | State::InSync => Err(Refused::IsNotOut(member)),
        }
    }

    /// From the next version on everybody waits for this member, whose node has been started for the
    /// `boot`th time.
    pub fn join(&self, member: usize, boot: u32) -> Result<List<N>, Refused> {
        if member >= N {
            return Err(Refused::NoSuchMember(member));
        }
        if self.state(member) != State::Out {
            return Err(Refused::IsNotOut(member));
        }
        let mut list = self.with_state(member, State::Joining);
        list.boot[member] = boot;
        Ok(list)
    }

    /// The node of a member in sync has been started for the `boot`th time, and nothing was lost with it, or that is
    /// accepted: of the last one in sync only, because any other is evicted and compared instead.
    pub fn adopt_start(&self, member: usize, boot: u32) -> Result<List<N>, Refused> {
        if self.state(member) != State::InSync {
            return Err(Refused::IsOut(member));
        }
        if self.in_sync.len() > 1 {
            return Err(Refused::NotLastInSync(member));
        }
        let mut list = self.with_state(member, State::InSync);
        list.boot[member] = boot;
        Ok(list)
    }

    /// A member that joined with version `since`, and has been compared after that, may be read.
    pub fn promote(&self, member: usize, since: u64) -> Result<List<N>, Refused> {
        if self.state(member) != State::Joining || self.since(member) != since {
            return Err(Refused::IsNotJoining(member));
        }
        Ok(self.with_state(member, State::InSync))
    }

    fn with_state(&self, member: usize, state: State) -> List<N> {
        let mut list = *self;
        let one = Members::of(member);
        list.version += 1;
        list.since[member] = list.version;
        list.in_sync = list.in_sync.minus(one);
        list.joining = list.joining.minus(one);
        match state {
            State::InSync => list.in_sync = list.in_sync.with(member),
            State::Joining => list.joining = list.joining.with(member),
            State::Out => {}
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_leaves_and_comes_back_in_two_steps() {
        let list = Copies::new(Members::first(3), [1; LISTED_MAX]);
        let out = list.evict(2).expect("two others are in sync");
        assert_eq!(
            (out.version(), out.state(2), out.since(2)),
            (2, State::Out, 2)
        );
        assert_eq!(out.promote(2, 2), Err(Refused::IsNotJoining(2)));
        let joining = out.join(2, 7).expect("it is out");
        assert_eq!((joining.joining(), joining.boot(2)), (Members::of(2), 7));
        assert_eq!(joining.promote(2, 2), Err(Refused::IsNotJoining(2)));
        let back = joining.promote(2, 3).expect("it has joined with version 3");
        assert_eq!((back.in_sync(), back.since(2)), (Members::first(3), 4));
        assert_eq!((back.since(0), back.boot(0)), (1, 1));
    }

    #[test]
    fn a_member_that_joined_anew_is_not_promoted_by_who_saw_it_join_before() {
        let list = Copies::new(Members::first(2), [1; LISTED_MAX]);
        let first = list.evict(1).and_then(|l| l.join(1, 1)).expect("joins");
        let again = first.evict(1).and_then(|l| l.join(1, 1)).expect("joins");
        let since = first.since(1);
        assert_eq!(again.promote(1, since), Err(Refused::IsNotJoining(1)));
    }

    #[test]
    fn a_member_that_is_out_leaves_anew_by_a_new_version() {
        let list = Copies::new(Members::first(2), [1; LISTED_MAX]);
        assert_eq!(list.leave_anew(1), Err(Refused::IsNotOut(1)));
        let out = list.evict(1).expect("another is in sync");
        let anew = out.leave_anew(1).expect("it is out");
        assert_eq!((anew.version(), anew.since(1)), (3, 3));
        assert_eq!((anew.state(1), anew.boot(1)), (State::Out, 1));
        assert_eq!((anew.since(0), anew.in_sync()), (1, Members::of(0)));
        super::super::stored::check_order(&out, &anew).expect("proxies believe it");
    }

    #[test]
    fn a_later_start_of_the_last_one_in_sync_makes_a_version() {
        let list = Copies::new(Members::first(2), [1; LISTED_MAX]);
        assert_eq!(list.adopt_start(0, 9), Err(Refused::NotLastInSync(0)));
        let last = list.evict(1).expect("another is in sync");
        let adopted = last.adopt_start(0, 9).expect("it is in sync");
        assert_eq!((adopted.version(), adopted.since(0)), (3, 3));
        assert_eq!((adopted.boot(0), adopted.in_sync()), (9, Members::of(0)));
        assert_eq!(last.adopt_start(1, 9), Err(Refused::IsOut(1)));
        let joining = last.join(1, 1).expect("it is out");
        assert_eq!(joining.adopt_start(1, 2), Err(Refused::IsOut(1)));
    }

    #[test]
    fn the_last_in_sync_stays() {
        let list = Copies::new(Members::first(2), [1; LISTED_MAX]);
        let one = list.evict(0).expect("another is in sync");
        assert_eq!(one.evict(1), Err(Refused::LastInSync(1)));
        assert_eq!(one.evict(0), Err(Refused::IsOut(0)));
        let joining = one.join(0, 1).expect("it is out");
        let refused = joining.evict(1);
        assert_eq!(
            refused,
            Err(Refused::LastInSync(1)),
            "joining is not enough"
        );
        assert_eq!(joining.join(LISTED_MAX, 1), Err(Refused::NoSuchMember(6)));
        assert_eq!(joining.join(1, 1), Err(Refused::IsNotOut(1)));
    }
}
