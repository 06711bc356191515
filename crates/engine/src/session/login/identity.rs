//! Who queries run as, and how long ago a node last confirmed it.
//!
//! All workers share an [`Identity`], so its credentials are checked once for the whole proxy, and a
//! refusal ends its sessions on every worker. Nothing here is on the path of a query.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::session::login::credentials::Credentials;

/// Two clients share links only if they gave the same proof of who they are.
#[derive(Debug)]
pub struct Identity {
    /// `None` without authentication.
    credentials: Option<Credentials>,
    /// The role's name, where it can be told.
    role: Option<Arc<str>>,
    /// Of all identities that there ever were.
    number: u32,
    record: Mutex<Record>,
}

#[derive(Debug)]
struct Record {
    sessions: usize,
    /// When the last session came or went.
    idle_since: Instant,
    /// When a node last accepted the credentials.
    accepted: Instant,
    check_at: Instant,
    /// Checks begun.
    checks: u32,
    /// A check is under way, or was lost.
    checking: bool,
    /// Checks in a row that could not be made.
    failures: u32,
    ended: bool,
}

/// An identity's worth at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    /// Good, but to be checked, by the one who is told so: with the number of this check.
    Due(u32),
    /// No node could check it for too long: it has ended just now.
    Lapsed,
    Ended,
}

impl Identity {
    fn new(credentials: Option<Credentials>, number: u32, now: Instant) -> Arc<Identity> {
        Arc::new(Identity {
            role: credentials
                .as_ref()
                .and_then(Credentials::role)
                .map(Arc::from),
            credentials,
            number,
            record: Mutex::new(Record {
                sessions: 0,
                idle_since: now,
                accepted: now,
                check_at: now,
                checks: 0,
                checking: false,
                failures: 0,
                ended: false,
            }),
        })
    }

    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// The role's name, where it can be told.
    pub(crate) fn role(&self) -> Option<&Arc<str>> {
        self.role.as_ref()
    }

    /// For people: the role's name, if there is one to tell.
    pub(crate) fn shown(&self) -> String {
        self.role
            .as_ref()
            .map_or_else(|| "a role".to_owned(), |role| format!("role {role:?}"))
    }

    /// A number equal on all workers, and no other identity's.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.credentials.is_none()
    }

    /// Notes that a node has accepted the credentials; the next check is due after `every`.
    pub(crate) fn accept(&self, now: Instant, every: Duration) {
        let mut record = self.record();
        record.accepted = now;
        record.check_at = now + every;
        record.checking = false;
        record.failures = 0;
    }

    /// When a node last accepted the credentials.
    pub(crate) fn accepted(&self) -> Instant {
        self.record().accepted
    }

    /// Where it stands, for one that is in use. Who is told that it is due has `patience` to find
    /// out; nobody else is told so meanwhile.
    pub(crate) fn standing(
        &self,
        now: Instant,
        patience: Duration,
        unchecked_max: Duration,
    ) -> Standing {
        let mut record = self.record();
        if record.ended {
            return Standing::Ended;
        }
        if self.is_anonymous() {
            return Standing::Good;
        }
        if now.saturating_duration_since(record.accepted) > unchecked_max {
            record.ended = true;
            return Standing::Lapsed;
        }
        if now < record.check_at {
            return Standing::Good;
        }
        record.check_at = now + patience;
        record.checks = record.checks.wrapping_add(1);
        record.checking = true;
        Standing::Due(record.checks)
    }

    /// Checks in a row that could not be made.
    pub(crate) fn failures(&self) -> u32 {
        self.record().failures
    }

    /// Notes that a check could not be made; the next is due after `pause`.
    pub(crate) fn put_off(&self, now: Instant, pause: Duration) {
        let mut record = self.record();
        record.failures = record.failures.saturating_add(1);
        record.check_at = now + pause;
        record.checking = false;
    }

    /// Makes a check due, unless one is under way: a node refuses what others have accepted.
    pub(crate) fn doubt(&self, now: Instant) {
        let mut record = self.record();
        if !record.checking {
            record.check_at = record.check_at.min(now);
        }
    }

    /// A node refuses the credentials: whatever was opened with them is to be closed.
    pub(crate) fn end(&self) {
        self.record().ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.record().ended
    }

    /// Since when it has no session, if it has none.
    fn idle_since(&self) -> Option<Instant> {
        let record = self.record();
        (record.sessions == 0).then_some(record.idle_since)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identities in use by any worker.
pub struct Identities {
    anonymous: Arc<Identity>,
    known: Mutex<FxHashMap<Credentials, Arc<Identity>>>,
    /// How many there have been.
    count: AtomicU32,
}

/// A session's part in an identity, from [`Identities::admit`] to [`Member::leave`].
#[derive(Debug)]
pub(crate) struct Member(Arc<Identity>);

/// Too many different credentials are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Full {
    #[error(
        "Helenus: {0} different credentials are in use at a time, which is limits.identities_max; \
         try again later, or raise it"
    )]
    All(usize),
    #[error(
        "Helenus: one role is logged in with {0} different tokens at a time, which is a quarter of \
         limits.identities_max; try again later, or log in with the same token everywhere"
    )]
    OfRole(usize),
}

impl Identities {
    pub(crate) fn new(now: Instant) -> Self {
        Identities {
            anonymous: Identity::new(None, 0, now),
            known: Mutex::default(),
            count: AtomicU32::new(1),
        }
    }

    /// That of all clients of a cluster without authentication.
    pub(crate) fn anonymous(&self) -> Arc<Identity> {
        self.anonymous.clone()
    }

    /// Takes a client in whose credentials a node has just accepted; the next check is due after
    /// `every`. There may be `max` identities, a quarter of them of one role where the role can be told;
    /// those without a session make way.
    pub(crate) fn admit(
        &self,
        credentials: Credentials,
        now: Instant,
        every: Duration,
        max: usize,
    ) -> Result<Member, Full> {
        let member = self.adopt(credentials, now, now, every, max)?;
        member.identity().accept(now, every);
        Ok(member)
    }

    /// [`Identities::admit`] for a client whose credentials a node has accepted then, as the process says that it
    /// comes from.
    pub(crate) fn adopt(
        &self,
        credentials: Credentials,
        accepted: Instant,
        now: Instant,
        every: Duration,
        max: usize,
    ) -> Result<Member, Full> {
        let mut known = self.known();
        // Those that no worker has links of.
        known.retain(|_, identity| Arc::strong_count(identity) > 1 && !identity.has_ended());
        if let Some(identity) = known.get(&credentials) {
            return Ok(Member::of(identity, now));
        }
        if let Some(role) = credentials.role() {
            let same = |other: &Credentials| other.role() == Some(role);
            let most = (max / 4).max(1);
            make_way(&mut known, same, most).map_err(Full::OfRole)?;
        }
        make_way(&mut known, |_| true, max).map_err(Full::All)?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let identity = Identity::new(Some(credentials.clone()), number, now);
        identity.accept(accepted, every);
        known.insert(credentials, identity.clone());
        Ok(Member::of(&identity, now))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known().len()
    }

    fn known(&self) -> MutexGuard<'_, FxHashMap<Credentials, Arc<Identity>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that fewer than `most` of a kind are left, by ending the one that has been without a
/// session for the longest time; the error is their number.
fn make_way(
    known: &mut FxHashMap<Credentials, Arc<Identity>>,
    of_kind: impl Fn(&Credentials) -> bool,
    most: usize,
) -> Result<(), usize> {
    let all = known.iter().filter(|(credentials, _)| of_kind(credentials));
    let count = all.clone().count();
    if count < most {
        return Ok(());
    }
    let idle = all.filter_map(|(credentials, identity)| {
        Some((identity.idle_since()?, credentials, identity))
    });
    let (_, credentials, identity) = idle.min_by_key(|(since, ..)| *since).ok_or(count)?;
    identity.end();
    let credentials = credentials.clone();
    known.remove(&credentials);
    Ok(())
}

impl Member {
    /// Only with the lock on all identities: none is ended for idleness that is just being joined.
    fn of(identity: &Arc<Identity>, now: Instant) -> Member {
        let mut record = identity.record();
        record.sessions += 1;
        record.idle_since = now;
        Member(identity.clone())
    }

    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.0
    }

    /// Its session has ended.
    pub(crate) fn leave(self, now: Instant) {
        self.0.record().idle_since = now;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.record().sessions -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(60);
    const PATIENCE: Duration = Duration::from_secs(6);
    const MAX: Duration = Duration::from_secs(600);

    fn admit(identities: &Identities, token: &str, max: usize) -> Result<Member, Full> {
        let credentials = Credentials::of_password(token.as_bytes());
        identities.admit(credentials, crate::testing::begin(), EVERY, max)
    }

    #[test]
    fn a_check_is_due_once_for_all_workers_and_again_after_its_patience() {
        let begin = crate::testing::begin();
        let token = Credentials::of_token(b"x");
        let member = Identities::new(crate::testing::begin()).admit(token, begin, EVERY, 1);
        let identity = member.expect("room").identity().clone();
        let standing = |after: Duration| identity.standing(begin + after, PATIENCE, MAX);
        assert_eq!(standing(EVERY - PATIENCE), Standing::Good);
        assert_eq!(standing(EVERY), Standing::Due(1));
        assert_eq!(standing(EVERY), Standing::Good);
        assert_eq!(standing(EVERY + PATIENCE), Standing::Due(2));
        identity.accept(begin + EVERY, EVERY);
        assert_eq!(standing(EVERY + PATIENCE), Standing::Good);
        assert_eq!(standing(2 * EVERY), Standing::Due(3));
    }

    #[test]
    fn a_doubt_makes_one_check_due() {
        let begin = crate::testing::begin();
        let token = Credentials::of_token(b"x");
        let member = Identities::new(crate::testing::begin()).admit(token, begin, EVERY, 1);
        let identity = member.expect("room").identity().clone();
        let standing = |after: Duration| identity.standing(begin + after, PATIENCE, MAX);
        let second = Duration::from_secs(1);
        identity.doubt(begin + second);
        assert_eq!(standing(second), Standing::Due(1));
        // While that is under way there is no second one.
        identity.doubt(begin + second);
        assert_eq!(standing(second), Standing::Good);
        identity.accept(begin + second, EVERY);
        assert_eq!(standing(EVERY), Standing::Good);
        identity.doubt(begin + EVERY);
        assert_eq!(standing(EVERY), Standing::Due(2));
        identity.put_off(begin + EVERY, PATIENCE);
        identity.doubt(begin + EVERY);
        assert_eq!(standing(EVERY), Standing::Due(3));
    }

    #[test]
    fn what_cannot_be_checked_lapses_once_and_an_acceptance_puts_that_off() {
        let begin = crate::testing::begin();
        let token = Credentials::of_token(b"x");
        let member = Identities::new(crate::testing::begin()).admit(token, begin, EVERY, 1);
        let identity = member.expect("room").identity().clone();
        let standing = |after: Duration| identity.standing(begin + after, PATIENCE, MAX);
        for check in 0..90 {
            let now = Duration::from_secs(60 + 6 * check);
            assert_eq!(standing(now), Standing::Due(check as u32 + 1));
            identity.put_off(begin + now, PATIENCE);
        }
        assert_eq!(identity.failures(), 90);
        identity.accept(begin + MAX, EVERY);
        assert_eq!(identity.failures(), 0);
        assert_eq!(standing(MAX + MAX), Standing::Due(91));
        assert_eq!(standing(MAX + MAX + PATIENCE), Standing::Lapsed);
        assert_eq!(standing(MAX + MAX + PATIENCE), Standing::Ended);
    }

    #[test]
    fn what_another_process_has_had_accepted_is_as_old_as_it_was() {
        let begin = crate::testing::begin();
        let identities = Identities::new(begin);
        let (now, ago) = (begin + EVERY, begin + EVERY / 2);
        let credentials = || Credentials::of_token(b"x");
        let member = identities.adopt(credentials(), ago, now, EVERY, 9);
        let identity = member.as_ref().expect("room").identity().clone();
        assert_eq!(identity.accepted(), ago);
        let standing = |after: Duration| identity.standing(begin + after, PATIENCE, MAX);
        assert_eq!(standing(EVERY), Standing::Good);
        assert_eq!(standing(EVERY / 2 + EVERY), Standing::Due(1));
        // Another client of the same makes it no younger, and a node does.
        let other = identities.adopt(credentials(), begin, now, EVERY, 9);
        assert!(Arc::ptr_eq(other.expect("room").identity(), &identity));
        assert_eq!(identity.accepted(), ago);
        let _third = identities.admit(credentials(), now, EVERY, 9);
        assert_eq!(identity.accepted(), now);
    }

    #[test]
    fn one_role_and_password_are_one_identity_until_it_ends() {
        let identities = Identities::new(crate::testing::begin());
        let first = admit(&identities, "\0app\0pw", 9).expect("room");
        let noisy = admit(&identities, "noise\0app\0pw", 9).expect("room");
        let other = admit(&identities, "\0app\0other", 9).expect("room");
        assert!(Arc::ptr_eq(first.identity(), noisy.identity()));
        assert!(!Arc::ptr_eq(first.identity(), other.identity()));
        assert_eq!(identities.count(), 2);
        let members = [&first, &noisy, &other].map(|member| member.identity().number());
        let anonymous = identities.anonymous().number();
        assert_eq!((members, anonymous), ([1, 1, 2], 0));
        first.identity().end();
        let anew = admit(&identities, "\0app\0pw", 9).expect("room");
        assert!(noisy.identity().has_ended() && !anew.identity().has_ended());
    }

    #[test]
    fn past_the_bound_the_longest_idle_one_makes_way_or_nobody_comes_in() {
        let identities = Identities::new(crate::testing::begin());
        let room = |role: usize| admit(&identities, &format!("\0role{role}\0pw"), 8);
        // Links keep an identity, beyond its sessions, until their worker closes them.
        let mut links = Vec::new();
        let mut members: Vec<Member> = (0..8)
            .map(|role| {
                let member = room(role).expect("room");
                links.push(member.identity().clone());
                member
            })
            .collect();
        assert_eq!(room(8).expect_err("full"), Full::All(8));
        assert!(room(7).is_ok(), "whoever is there may have more sessions");
        let begin = crate::testing::begin();
        members.remove(3).leave(begin + EVERY);
        members.remove(5).leave(begin + 2 * EVERY);
        let _late = room(8).expect("one has made way");
        assert!(links[3].has_ended() && !links[6].has_ended());
        drop(links);
        assert_eq!(identities.count(), 8);
        drop(members);
        let _one = room(9).expect("room");
        assert_eq!(identities.count(), 2);
    }

    #[test]
    fn one_role_has_a_quarter_at_most() {
        let identities = Identities::new(crate::testing::begin());
        let room = |password: usize| admit(&identities, &format!("\0app\0{password}"), 8);
        let _members = [room(0).expect("room"), room(1).expect("room")];
        assert_eq!(room(2).expect_err("a quarter"), Full::OfRole(2));
        assert!(admit(&identities, "\0other\0pw", 8).is_ok());
    }

    #[test]
    fn the_anonymous_identity_is_never_due_and_never_lapses() {
        let anonymous = Identities::new(crate::testing::begin()).anonymous();
        let later = crate::testing::begin() + 1000 * MAX;
        assert_eq!(anonymous.standing(later, PATIENCE, MAX), Standing::Good);
    }
}
