use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::{Opcode, Version, code, write};

use super::*;
use crate::config::Config;
use crate::keys::{LinkKey, NodeRequestKey};
use crate::pipeline::engine::Engine;
use crate::pipeline::engine::lent::Stations;
use crate::pipeline::node_request::{Form, NodeRequest, Owner, Prediction, Target};
use crate::pipeline::nodes::errand::{Errand, Lesson};
use crate::pipeline::query::Query;
use crate::session::login::credentials::Credentials;
use crate::shared::{Common, Shared};
use crate::snapshot::Snapshot;
use crate::support::tick::TICK;
use crate::testing::{bytes_of, dial_all, error, node, take_sent};

/// A worker of two before nodes that ask for a password.
struct Bench {
    engine: Engine,
    now: Instant,
}

/// True if links are wanted that are not being opened for the sake of others, as of the last tick.
fn have_postponed(bench: &Bench) -> bool {
    let mut pools = bench.engine.links().pools.values();
    pools.any(|pool| pool.is_postponed)
}

fn asked() -> Vec<u8> {
    let mut body = Vec::new();
    write::string(&mut body, "org.apache.cassandra.auth.PasswordAuthenticator");
    body
}

impl Bench {
    fn new(nodes: u8, change: impl FnOnce(&mut Config)) -> Bench {
        Bench::among(&vec![Locality::LocalDc; nodes.into()], change)
    }

    fn among(places: &[Locality], change: impl FnOnce(&mut Config)) -> Bench {
        let mut config = Config::default();
        config.links.per_node = 2;
        config.limits.identities_max = 10_000;
        change(&mut config);
        let now = crate::testing::begin();
        let common = Arc::new(Common::new(config, 1 << 30, now));
        let snapshot = Snapshot::builder()
            .epoch(1)
            .nodes((0..places.len() as u8).map(node))
            .places(NodeTable::from_localities(places.iter().copied()))
            .authenticate(Some(asked()));
        common.store(snapshot.build());
        let shared = Arc::new(Shared::new(common));
        let engine = Engine::new(shared, 0, 2, 1, now, Duration::ZERO);
        Bench { engine, now }
    }

    /// A role with so many clients.
    fn enter(&mut self, role: &str, clients: usize) -> PoolKey {
        let credentials = Credentials::of_password(format!("\0{role}\0pw").as_bytes());
        let Stations { links, cx, .. } = self.engine.stations();
        let identities = &cx.shared.identities;
        let member = identities.admit(credentials, cx.now, Duration::from_secs(60), 10_000);
        let pool = links.pool_of(cx, member.expect("room").identity());
        for _ in 0..clients {
            links.enter_pool(pool);
        }
        pool
    }

    /// A node request that waits for a link of a role.
    fn ask(&mut self, pool: PoolKey) -> NodeRequestKey {
        let query = Query {
            pool,
            ..Query::new(Opcode::Prepare, Version::V4, Vec::new())
        };
        let owner = Owner::Errand(Errand::Lesson(Lesson {
            id: (*b"id").into(),
            node: NodeIndex(0),
        }));
        let form = Form::Other(Box::new(query));
        let request = NodeRequest::new(owner, form, Prediction::Learned, Target::ANY, self.now);
        let Stations {
            requests,
            links,
            cx,
            ..
        } = self.engine.stations();
        let key = requests.nodes.insert(&cx.memory, request);
        assert!(links.wait_for_link(pool, key));
        key
    }

    fn waiting(&self, pool: PoolKey) -> usize {
        let pool = self.engine.links().of_role(pool);
        pool.expect("its pool").waiting.len()
    }

    /// A node is asked to let a role in, and says nothing.
    fn leave_unjudged(&mut self, link: LinkKey) {
        take_sent(&mut self.engine, link);
        self.say(link, 1, Opcode::Authenticate, &asked());
        take_sent(&mut self.engine, link);
    }

    /// The connections that are wanted, with their nodes.
    fn dialed(&mut self) -> Vec<(u8, LinkKey)> {
        let dialed = dial_all(&mut self.engine, self.now);
        let number = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(_) => panic!("an address of version 4"),
        };
        dialed
            .into_iter()
            .map(|(address, key)| (number(address), key))
            .collect()
    }

    fn say(&mut self, link: LinkKey, stream: i16, opcode: Opcode, body: &[u8]) {
        let bytes = bytes_of((Version::V4, false), stream, opcode, body);
        self.engine.on_link_bytes(self.now, link, &bytes);
    }

    /// A node lets a role in. Returns which.
    fn accept(&mut self, link: LinkKey) -> String {
        take_sent(&mut self.engine, link);
        self.say(link, 1, Opcode::Authenticate, &asked());
        let sent = take_sent(&mut self.engine, link);
        let token = sent.split(|byte| *byte == 0).rev().nth(1);
        let role = String::from_utf8_lossy(token.expect("a token")).into_owned();
        self.say(link, 2, Opcode::AuthSuccess, &[0xff; 4]);
        take_sent(&mut self.engine, link);
        let unable = error(code::SERVER, "system.local cannot be read");
        self.say(link, 3, Opcode::Error, &unable);
        assert!(self.engine.links().is_up(link));
        assert_eq!(self.engine.contradictions(), Vec::<String>::new());
        role
    }

    /// A node does not let a role in.
    fn refuse(&mut self, link: LinkKey) {
        take_sent(&mut self.engine, link);
        self.say(link, 1, Opcode::Authenticate, &asked());
        take_sent(&mut self.engine, link);
        let wrong = error(code::BAD_CREDENTIALS, "wrong password");
        self.say(link, 2, Opcode::Error, &wrong);
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            self.engine.on_deadline(self.now, Duration::ZERO);
        }
    }
}

#[test]
fn a_node_is_asked_for_few_logins_at_a_time_and_every_role_gets_its_links() {
    let mut bench = Bench::new(3, |config| config.limits.logins_max = 24);
    let roles: Vec<String> = (0..50).map(|number| format!("role{number}")).collect();
    let pools: Vec<PoolKey> = roles.iter().map(|role| bench.enter(role, 1)).collect();
    let mut under_way = std::collections::VecDeque::new();
    let mut first = Vec::new();
    let mut opened = 0;
    loop {
        under_way.extend(bench.dialed());
        for number in 0..3 {
            let at_node = under_way.iter().filter(|(node, _)| *node == number);
            assert!(at_node.count() <= 4, "24 over three nodes and two workers");
        }
        let Some((_, link)) = under_way.pop_front() else {
            break;
        };
        let role = bench.accept(link);
        opened += 1;
        if !first.contains(&role) {
            first.push(role);
            // Those that came first have begun before there were others.
            assert!(
                opened <= first.len() + 12,
                "one each, before others have more"
            );
        }
    }
    assert_eq!(opened, 50 * 3);
    for pool in pools {
        for number in 0..3 {
            assert!(bench.engine.links().has_link(pool, NodeIndex(number)));
        }
    }
    bench.wait(TICK);
    assert!(!have_postponed(&bench));
}

#[test]
fn roles_with_many_clients_come_before_those_with_few() {
    let mut bench = Bench::new(1, |config| config.limits.logins_max = 1);
    let roles = [("first", 1), ("few", 2), ("most", 30), ("some", 9)];
    for (role, clients) in roles {
        bench.enter(role, clients);
    }
    let mut order = Vec::new();
    while let [(_, link)] = bench.dialed()[..] {
        order.push(bench.accept(link));
    }
    // The one that was there before the others is on its way already.
    assert_eq!(order, ["first", "most", "some", "few"]);
}

#[test]
fn requests_wait_for_a_link_that_is_postponed_and_not_for_one_that_is_not() {
    let mut bench = Bench::new(1, |config| {
        config.limits.logins_max = 1;
        config.links.connect_timeout_ms = 500;
    });
    bench.enter("first", 1);
    let second = bench.enter("second", 1);
    let [(_, silent)] = bench.dialed()[..] else {
        panic!("one login at a time");
    };
    let request = bench.ask(second);
    assert_eq!(bench.engine.stations().links.take_stranded().len(), 0);
    // The node does not answer: nothing is on its way any more until it is tried again.
    bench.wait(Duration::from_millis(1_500));
    assert!(!bench.engine.links().is_up(silent));
    assert!(!have_postponed(&bench));
    assert!(!bench.engine.stations().links.wait_for_link(second, request));
    assert_eq!(bench.waiting(second), 0, "who has waited goes on");
}

#[test]
fn requests_of_a_role_wait_for_its_own_link_while_the_login_of_another_hangs() {
    let mut bench = Bench::new(1, |config| {
        config.limits.logins_max = 1;
        config.links.connect_timeout_ms = 500;
    });
    let first = bench.enter("first", 1);
    let second = bench.enter("second", 1);
    let [(_, hanging)] = bench.dialed()[..] else {
        panic!("one login at a time");
    };
    bench.leave_unjudged(hanging);
    bench.ask(second);
    bench.wait(Duration::from_millis(1_500));
    assert!(!bench.engine.links().is_open(hanging));
    assert_eq!(bench.waiting(second), 1, "its own login is on its way");
    assert_eq!(bench.engine.links().failures(NodeIndex(0)), 0);
    let request = NodeRequestKey::default();
    assert!(!bench.engine.stations().links.wait_for_link(first, request));
    let [(_, link)] = bench.dialed()[..] else {
        panic!("the other login");
    };
    assert_eq!(bench.accept(link), "second");
    assert_eq!(bench.waiting(second), 0);
    // The one that has failed is tried again after a pause.
    let tried_again = || {
        bench.wait(TICK);
        bench.dialed().pop()
    };
    let link = std::iter::repeat_with(tried_again)
        .take(200)
        .flatten()
        .next();
    assert_eq!(bench.accept(link.expect("a second try").1), "first");
}

/// The login has hardly begun when its time is over.
#[test]
fn a_node_that_answers_late_to_startup_is_not_taken_for_one_that_judges_slowly() {
    for (asks_after_ms, is_unreachable) in [(1_000, false), (1_100, true), (1_400, true)] {
        let mut bench = Bench::new(1, |config| {
            config.limits.logins_max = 1;
            config.links.connect_timeout_ms = 500;
        });
        let pool = bench.enter("role", 1);
        let [(_, link)] = bench.dialed()[..] else {
            panic!("one login at a time");
        };
        bench.wait(Duration::from_millis(asks_after_ms));
        bench.leave_unjudged(link);
        assert!(bench.engine.links().is_open(link));
        bench.wait(Duration::from_millis(1_500 - asks_after_ms));
        assert!(!bench.engine.links().is_open(link));
        let links = bench.engine.links();
        let role = links.of_role(pool).expect("its pool");
        assert_eq!(
            (links.failures(NodeIndex(0)) == 1, role.unjudged.is_empty()),
            (is_unreachable, is_unreachable),
            "asked after {asks_after_ms} ms"
        );
        assert_eq!(bench.dialed(), [], "a pause comes first");
    }
}

#[test]
fn requests_that_end_while_they_wait_for_a_link_are_forgotten() {
    let mut bench = Bench::new(1, |config| config.limits.logins_max = 1);
    bench.enter("first", 1);
    let second = bench.enter("second", 1);
    let (gone, _stays) = (bench.ask(second), bench.ask(second));
    bench.engine.drop_node_request(gone);
    assert_eq!(bench.waiting(second), 2);
    bench.wait(TICK);
    assert!(have_postponed(&bench));
    assert_eq!(bench.waiting(second), 1);
}

/// Those that have none at all come after it.
#[test]
fn a_role_whose_first_login_hangs_comes_next_at_another_node() {
    let mut bench = Bench::new(2, |config| config.limits.logins_max = 1);
    bench.enter("begun", 1);
    let mut dialed = bench.dialed();
    dialed.sort_by_key(|(node, _)| *node);
    let [(0, at_first), (1, at_second)] = dialed[..] else {
        panic!("one login at each node");
    };
    for (role, clients) in [("hanging", 30), ("others", 2), ("few", 1)] {
        bench.enter(role, clients);
    }
    let next = |bench: &mut Bench, node: u8| match bench.dialed()[..] {
        [(of, link)] if of == node => link,
        _ => panic!("one more login at node {node}"),
    };
    assert_eq!(bench.accept(at_first), "begun");
    let hangs = next(&mut bench, 0);
    bench.leave_unjudged(hangs);
    assert_eq!(bench.accept(at_second), "begun");
    let link = next(&mut bench, 1);
    bench.wait(FIRST_LINK_GRACE);
    assert_eq!(bench.accept(link), "others", "soon enough");
    let link = next(&mut bench, 1);
    assert_eq!(bench.accept(link), "few", "nothing is on its way for it");
    let link = next(&mut bench, 1);
    assert_eq!(bench.accept(link), "hanging");
}

#[test]
fn nodes_that_are_not_asked_take_no_share_of_the_logins() {
    let places = [Locality::LocalDc, Locality::Remote, Locality::Remote];
    for (is_remote_asked, share) in [(false, 6), (true, 2)] {
        let mut bench = Bench::among(&places, |config| {
            config.limits.logins_max = 12;
            config.cluster.allow_remote_dc = is_remote_asked;
        });
        for number in 0..10 {
            bench.enter(&format!("role{number}"), 1);
        }
        let dialed = bench.dialed();
        let at_local = dialed.iter().filter(|(node, _)| *node == 0);
        assert_eq!(
            at_local.count(),
            share,
            "remote nodes asked: {is_remote_asked}"
        );
    }
}

/// Its clients have left, and what one of them has sent still waits for a link that was postponed.
#[test]
fn who_waits_for_a_role_that_ends_goes_on_before_it_is_forgotten() {
    let mut bench = Bench::new(1, |config| config.limits.logins_max = 1);
    bench.enter("first", 1);
    let second = bench.enter("second", 1);
    let request = NodeRequestKey::default();
    let Stations { links, cx, .. } = bench.engine.stations();
    assert!(links.wait_for_link(second, request));
    links.leave_pool(second, cx.now);
    links.identity_of(second).expect("its role").end();
    links.maintain(cx);
    assert_eq!(links.take_stranded(), [(second, vec![request])]);
    assert!(!links.wait_for_link(second, request));
    links.maintain(cx);
    assert!(links.of_role(second).is_none());
}

#[test]
fn a_role_alone_gets_all_its_links_at_once() {
    let mut bench = Bench::new(3, |config| {
        config.links.per_node = 8;
        config.limits.logins_max = 1;
    });
    bench.enter("app", 1);
    assert_eq!(bench.dialed().len(), 3 * 4);
}

/// One node has outdated credentials of it, and the other has not been asked yet because of other roles.
#[test]
fn a_role_does_not_end_before_the_node_that_it_is_postponed_at_has_judged() {
    let mut bench = Bench::new(2, |config| config.limits.logins_max = 1);
    bench.enter("first", 1);
    let second = bench.enter("second", 1);
    let [(_, at_one), (_, at_other)] = bench.dialed()[..] else {
        panic!("one login at each node");
    };
    for (link, has_ended) in [(at_one, false), (at_other, true)] {
        assert_eq!(bench.accept(link), "first");
        let [(_, link)] = bench.dialed()[..] else {
            panic!("the place that was postponed");
        };
        bench.refuse(link);
        let identity = bench.engine.links().identity_of(second);
        assert_eq!(identity.is_none_or(|of| of.has_ended()), has_ended);
    }
}

#[test]
fn roles_whose_logins_fail_come_after_others() {
    let mut bench = Bench::new(2, |config| config.limits.logins_max = 1);
    let failing = bench.enter("failing", 30);
    bench.enter("others", 1);
    let Stations { links, .. } = bench.engine.stations();
    links.pools.get_mut(failing).expect("its pool").has_failed = true;
    let dialed = bench.dialed();
    let [(_, link), _] = dialed[..] else {
        panic!("one login at each node");
    };
    assert_eq!(bench.accept(link), "failing", "it came first");
    let [(_, link)] = bench.dialed()[..] else {
        panic!("the place that is free");
    };
    assert_eq!(bench.accept(link), "others");
}
