//! Lists as the catalogue's rows have them, and whether they can be true.
//!
//! Rows are written by other proxies, by other versions, and by hand. A list decides who is waited for, so
//! what cannot be true is refused, and never mended here.

use super::list::{COPIES_MAX, Copies, LISTED_MAX, List, PROXIES_MAX, Proxies, State, TABLE};
use super::members::Members;

/// A list as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// 0: the list was never changed.
    pub version: i64,
    pub in_sync: Vec<i32>,
    pub joining: Vec<i32>,
    /// The version that has brought each member into its state, from member 0 on; 0 if it was never listed.
    pub since: Vec<i64>,
    /// Which start of each member's node its state is about.
    pub boot: Vec<i32>,
}

impl Stored {
    /// What a CQL UPDATE that stores it sets.
    pub fn assignments(&self) -> String {
        format!(
            "version = {}, in_sync = {{{}}}, joining = {{{}}}, since = [{}], boot = [{}]",
            self.version,
            in_commas(&self.in_sync),
            in_commas(&self.joining),
            in_commas(&self.since),
            in_commas(&self.boot)
        )
    }
}

fn in_commas(items: &[impl ToString]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A proxy of their list, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredProxy<'a> {
    pub number: i32,
    /// [`State::name`]
    pub state: &'a str,
    pub since: i64,
}

/// Why a stored list is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadList {
    #[error("{0} is no version")]
    NoVersion(i64),
    #[error("it has {members} members, and may have 1 to {max}")]
    MemberCount { members: usize, max: usize },
    #[error("it tells of {told} members in the column {column}, and has {members}")]
    ColumnLength {
        column: &'static str,
        told: usize,
        members: usize,
    },
    #[error("it has no member {0}")]
    NoSuchMember(i32),
    #[error("member {0} is listed twice")]
    ListedTwice(usize),
    #[error("member {member} has the state {state:?}, which is unknown")]
    UnknownState { member: usize, state: String },
    #[error("member {member} is as it is since version {since}; the list has version {version}")]
    NoSuchSince {
        member: usize,
        since: i64,
        version: i64,
    },
    #[error("member {member}: {boot} is no number of a start")]
    NoBoot { member: usize, boot: i32 },
    /// Each change makes a version and brings one member into its state with it.
    #[error("no member is as it is since version {0}, which is that of the list")]
    Torn(i64),
    #[error("neither a copy nor the table is in sync")]
    NoneInSync,
    #[error("it has version {now}, and had version {before} before")]
    WentBack { before: u64, now: u64 },
    #[error("it was changed, and still has version {0}")]
    SameVersion(u64),
    #[error("member {0} was changed, and is as it is since the same version as before")]
    SameSince(usize),
}

impl State {
    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            State::InSync => "in sync",
            State::Joining => "joining",
            State::Out => "out",
        }
    }

    fn of_name(name: &str) -> Option<State> {
        let states = [State::InSync, State::Joining, State::Out];
        states.into_iter().find(|state| state.name() == name)
    }
}

impl Stored {
    /// What is to be stored of the list of so many copies. The table itself has a place from when it was first
    /// listed; between its place and theirs nobody was ever listed.
    pub fn of(list: &Copies, copies: usize) -> Stored {
        // None of these numbers comes near the limits of its type: they are checked when read, and grow by one.
        let numbers = |members: Members| members.iter().map(|member| member as i32).collect();
        let all = || match list.since(TABLE) {
            0 => 0..copies.min(COPIES_MAX),
            _ => 0..LISTED_MAX,
        };
        Stored {
            version: list.version() as i64,
            in_sync: numbers(list.in_sync()),
            joining: numbers(list.joining()),
            since: all().map(|member| list.since(member) as i64).collect(),
            boot: all().map(|member| list.boot(member) as i32).collect(),
        }
    }

    /// The list of a row's copies, of which there are `members`, and of the table itself if it was ever listed.
    pub fn copies(&self, members: usize) -> Result<Copies, BadList> {
        if !(1..=COPIES_MAX).contains(&members) {
            let max = COPIES_MAX;
            return Err(BadList::MemberCount { members, max });
        }
        let has_table = self.since.len() == LISTED_MAX;
        let places = if has_table { LISTED_MAX } else { members };
        for (column, told) in [("since", self.since.len()), ("boot", self.boot.len())] {
            if told != places {
                return Err(BadList::ColumnLength {
                    column,
                    told,
                    members: places,
                });
            }
        }
        let list: Copies = self.list()?;
        let mut nobody = (members..COPIES_MAX).filter(|_| has_table);
        if let Some(member) = nobody.find(|member| list.since(*member) > 0) {
            return Err(BadList::NoSuchMember(member as i32));
        }
        if let boot @ 1.. = list.boot(TABLE) {
            let (member, boot) = (TABLE, boot as i32);
            return Err(BadList::NoBoot { member, boot });
        }
        // The list of a new table has all in sync, and the last one is never evicted.
        if list.in_sync().is_empty() {
            return Err(BadList::NoneInSync);
        }
        Ok(list)
    }

    fn list<const N: usize>(&self) -> Result<List<N>, BadList> {
        let version = self.version;
        let no_version = BadList::NoVersion(version);
        let number = u64::try_from(version).map_err(|_| no_version.clone())?;
        if version == i64::MAX {
            return Err(no_version);
        }
        let mut listed = Members::EMPTY;
        let mut in_sync = Members::EMPTY;
        let told = self.in_sync.iter().map(|number| (number, true));
        let told = told.chain(self.joining.iter().map(|number| (number, false)));
        for (number, is_in_sync) in told {
            let member = self.member::<N>(*number)?;
            if listed.contains(member) {
                return Err(BadList::ListedTwice(member));
            }
            listed = listed.with(member);
            if is_in_sync {
                in_sync = in_sync.with(member);
            }
        }
        let (mut since, mut boot) = ([0; N], [0; N]);
        for (member, told) in self.since.iter().enumerate() {
            let known = u64::try_from(*told).ok().filter(|since| *since <= number);
            let known = known.filter(|since| *since > 0 || !listed.contains(member));
            since[member] = known.ok_or(BadList::NoSuchSince {
                member,
                since: *told,
                version,
            })?;
        }
        for (member, told) in self.boot.iter().enumerate() {
            let known = u32::try_from(*told).ok();
            boot[member] = known.ok_or(BadList::NoBoot {
                member,
                boot: *told,
            })?;
        }
        if !since.contains(&number) {
            return Err(BadList::Torn(version));
        }
        let joining = listed.minus(in_sync);
        Ok(List::from_parts(number, in_sync, joining, since, boot))
    }

    fn member<const N: usize>(&self, number: i32) -> Result<usize, BadList> {
        let member = usize::try_from(number).ok();
        let member = member.filter(|member| *member < N && *member < self.since.len());
        member.ok_or(BadList::NoSuchMember(number))
    }
}

/// The list of proxies. Without any, nobody has ever changed it: version 0.
pub fn proxies(version: i64, rows: &[StoredProxy<'_>]) -> Result<Proxies, BadList> {
    let mut stored = Stored {
        version,
        since: vec![0; PROXIES_MAX],
        ..Stored::default()
    };
    let mut told = Members::EMPTY;
    for row in rows {
        let member = stored.member::<PROXIES_MAX>(row.number)?;
        if told.contains(member) {
            return Err(BadList::ListedTwice(member));
        }
        told = told.with(member);
        match State::of_name(row.state) {
            Some(State::InSync) => stored.in_sync.push(row.number),
            Some(State::Joining) => stored.joining.push(row.number),
            Some(State::Out) => {}
            None => {
                let state = row.state.to_owned();
                return Err(BadList::UnknownState { member, state });
            }
        }
        stored.since[member] = row.since;
    }
    stored.list()
}

/// Whether `now` may have been read after `before` was. Answers to reads may overtake each other, so
/// [`BadList::WentBack`] alone proves nothing wrong.
pub fn check_order<const N: usize>(before: &List<N>, now: &List<N>) -> Result<(), BadList> {
    let (old, new) = (before.version(), now.version());
    if new < old {
        let (before, now) = (old, new);
        return Err(BadList::WentBack { before, now });
    }
    if new == old {
        return match before == now {
            true => Ok(()),
            false => Err(BadList::SameVersion(new)),
        };
    }
    for member in 0..N {
        let as_before =
            before.state(member) == now.state(member) && before.boot(member) == now.boot(member);
        let (old_since, new_since) = (before.since(member), now.since(member));
        let is_in_order = match new_since == old_since {
            true => as_before,
            false => new_since > old,
        };
        if !is_in_order {
            return Err(BadList::SameSince(member));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Copies {
        let list = Copies::new(Members::first(3), [4; LISTED_MAX]);
        let list = list.evict(1).expect("others are in sync");
        list.join(1, 5).expect("it is out")
    }

    /// Rows of `number state since`.
    fn rows<'a>(texts: &[&'a str]) -> Vec<StoredProxy<'a>> {
        let row = |text: &&'a str| {
            let (number, rest) = text.split_once(' ').expect("a number");
            let (state, since) = rest.rsplit_once(' ').expect("a state");
            StoredProxy {
                number: number.parse().expect("a number"),
                state,
                since: since.parse().expect("a version"),
            }
        };
        texts.iter().map(row).collect()
    }

    #[test]
    fn a_list_is_the_same_when_it_was_stored_and_read() {
        let stored = Stored::of(&three(), 3);
        let expected = Stored {
            version: 3,
            in_sync: vec![0, 2],
            joining: vec![1],
            since: vec![1, 3, 1],
            boot: vec![4, 5, 4],
        };
        assert_eq!(stored, expected);
        let read = stored.copies(3).expect("it is good");
        assert_eq!(Stored::of(&read, 3), stored);
        assert_eq!((read.state(1), read.boot(1)), (State::Joining, 5));
        assert_eq!(read.state(3), State::Out, "there is no such copy");
    }

    #[test]
    fn copies_that_cannot_be_so_are_refused() {
        let good = Stored::of(&three(), 3);
        type Spoil = fn(&mut Stored);
        let cases: [(Spoil, BadList); 13] = [
            (|list| list.version = -1, BadList::NoVersion(-1)),
            (|list| list.version = i64::MAX, BadList::NoVersion(i64::MAX)),
            (|list| list.version = 4, BadList::Torn(4)),
            (|list| list.in_sync = vec![0, 3], BadList::NoSuchMember(3)),
            (|list| list.in_sync = vec![-1], BadList::NoSuchMember(-1)),
            (
                |list| list.joining = vec![i32::MAX],
                BadList::NoSuchMember(i32::MAX),
            ),
            (|list| list.joining = vec![1, 2], BadList::ListedTwice(2)),
            (|list| list.in_sync = vec![0, 0], BadList::ListedTwice(0)),
            (|list| list.in_sync.clear(), BadList::NoneInSync),
            (
                |list| list.since[0] = 9,
                BadList::NoSuchSince {
                    member: 0,
                    since: 9,
                    version: 3,
                },
            ),
            (
                |list| list.since[2] = 0,
                BadList::NoSuchSince {
                    member: 2,
                    since: 0,
                    version: 3,
                },
            ),
            (
                |list| list.boot[1] = -1,
                BadList::NoBoot {
                    member: 1,
                    boot: -1,
                },
            ),
            (
                |list| list.boot.clear(),
                BadList::ColumnLength {
                    column: "boot",
                    told: 0,
                    members: 3,
                },
            ),
        ];
        for (spoil, expected) in cases {
            let mut list = good.clone();
            spoil(&mut list);
            assert_eq!(list.copies(3), Err(expected), "{list:?}");
        }
        let too_few = BadList::ColumnLength {
            column: "since",
            told: 3,
            members: 4,
        };
        assert_eq!(good.copies(4), Err(too_few));
        for members in [0, COPIES_MAX + 1] {
            let refused = BadList::MemberCount {
                members,
                max: COPIES_MAX,
            };
            assert_eq!(good.copies(members), Err(refused));
        }
    }

    #[test]
    fn the_table_itself_has_a_place_behind_those_that_copies_may_have() {
        let alone = Copies::new(Members::of(TABLE), [4, 4, 0, 0, 0, 0]);
        let stored = Stored::of(&alone, 2);
        let expected = Stored {
            version: 1,
            in_sync: vec![5],
            joining: vec![],
            since: vec![0, 0, 0, 0, 0, 1],
            boot: vec![4, 4, 0, 0, 0, 0],
        };
        assert_eq!(stored, expected);
        assert_eq!(stored.copies(2), Ok(alone));
        let gone = alone.join(0, 4).and_then(|list| list.promote(0, 2));
        let gone = gone.and_then(|list| list.evict(TABLE)).expect("another is");
        let stored = Stored::of(&gone, 2);
        assert_eq!(stored.since, [3, 0, 0, 0, 0, 4]);
        assert_eq!(stored.copies(2), Ok(gone));
        // As it was stored before tables could be listed.
        let before = Copies::new(Members::first(2), [4, 4, 0, 0, 0, 0]);
        let stored = Stored::of(&before, 2);
        assert_eq!((stored.since.len(), stored.boot.len()), (2, 2));
        let listed = before.join(TABLE, 0).expect("it is out");
        let listed = Stored::of(&listed, 2).copies(2).expect("it is good");
        assert_eq!(check_order(&before, &listed), Ok(()));
    }

    #[test]
    fn a_table_that_cannot_be_listed_so_is_refused() {
        let good = Stored::of(&Copies::new(Members::of(TABLE), [4, 4, 0, 0, 0, 0]), 2);
        type Spoil = fn(&mut Stored);
        let unlisted = BadList::NoSuchSince {
            member: TABLE,
            since: 0,
            version: 1,
        };
        let short = BadList::ColumnLength {
            column: "boot",
            told: 2,
            members: LISTED_MAX,
        };
        let cases: [(Spoil, BadList); 5] = [
            (|list| list.since[3] = 1, BadList::NoSuchMember(3)),
            (|list| list.since[5] = 0, unlisted),
            (|list| list.boot.truncate(2), short),
            (
                |list| list.boot[5] = 7,
                BadList::NoBoot {
                    member: TABLE,
                    boot: 7,
                },
            ),
            (|list| list.in_sync = vec![6], BadList::NoSuchMember(6)),
        ];
        for (spoil, expected) in cases {
            let mut list = good.clone();
            spoil(&mut list);
            assert_eq!(list.copies(2), Err(expected), "{list:?}");
        }
        let mut without = Stored::of(&three(), 3);
        without.in_sync = vec![0, 5];
        assert_eq!(without.copies(3), Err(BadList::NoSuchMember(5)));
    }

    #[test]
    fn proxies_are_read_from_a_row_each() {
        let empty = proxies(0, &[]).expect("nobody has joined yet");
        assert_eq!((empty.version(), empty.listed()), (0, Members::EMPTY));
        let list = proxies(7, &rows(&["3 joining 7", "0 in sync 5", "1 out 6"]));
        let list = list.expect("it is good");
        assert_eq!(
            [0, 1, 2, 3].map(|proxy| (list.state(proxy), list.since(proxy))),
            [
                (State::InSync, 5),
                (State::Out, 6),
                (State::Out, 0),
                (State::Joining, 7)
            ]
        );
        let alone = proxies(1, &rows(&["0 joining 1"])).expect("the first one joins");
        let next = empty.join(0, 0).expect("it is out");
        assert_eq!(alone, next);
    }

    #[test]
    fn proxies_that_cannot_be_so_are_refused() {
        let unknown = BadList::UnknownState {
            member: 0,
            state: "resting".to_owned(),
        };
        let beyond = BadList::NoSuchSince {
            member: 0,
            since: 3,
            version: 2,
        };
        for (version, texts, expected) in [
            (2, &["0 resting 2"][..], unknown),
            (2, &["64 out 2"], BadList::NoSuchMember(64)),
            (2, &["-1 out 2"], BadList::NoSuchMember(-1)),
            (2, &["0 out 1", "0 in sync 2"], BadList::ListedTwice(0)),
            (2, &["0 out 3", "1 in sync 2"], beyond),
            (2, &["0 in sync 1"], BadList::Torn(2)),
            (2, &[], BadList::Torn(2)),
        ] {
            let refused = proxies(version, &rows(texts));
            assert_eq!(refused, Err(expected), "{texts:?}");
        }
    }

    #[test]
    fn a_list_follows_only_what_it_can_have_come_from() {
        let before = Copies::new(Members::first(3), [4; LISTED_MAX]);
        let now = three();
        assert_eq!(check_order(&before, &now), Ok(()));
        assert_eq!(check_order(&now, &now), Ok(()));
        let back = BadList::WentBack { before: 3, now: 1 };
        assert_eq!(check_order(&now, &before), Err(back));
        let parts = |version, joining, since| {
            let in_sync = Members::first(3).minus(joining);
            Copies::from_parts(version, in_sync, joining, since, [4; LISTED_MAX])
        };
        let none = Members::EMPTY;
        let changed = parts(1, Members::of(1), [1, 1, 1, 0, 0, 0]);
        assert_eq!(check_order(&before, &changed), Err(BadList::SameVersion(1)));
        let unseen = parts(2, Members::of(1), [2, 1, 1, 0, 0, 0]);
        assert_eq!(check_order(&before, &unseen), Err(BadList::SameSince(1)));
        let older = parts(4, none, [4, 2, 1, 0, 0, 0]);
        assert_eq!(check_order(&now, &older), Err(BadList::SameSince(1)));
    }
}
