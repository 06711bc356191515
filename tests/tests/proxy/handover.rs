//! A proxy that takes the place of a running one.

use std::io::{ErrorKind, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Client, PATIENCE, envelope, op};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::node::shared;
use crate::{eventually, metric, turn};

const READ: &str = "SELECT v FROM handover.t WHERE k = 1";
/// How often a proxy is replaced; more by `HELENUS_HANDOVERS`.
const TIMES: usize = 3;
/// Longer than a proxy in a hurry wants of a client, and shorter than it wants before.
const PAUSE: Duration = Duration::from_millis(250);
/// Tasks of a driver, each with one request in flight.
const TASKS: i32 = 16;

/// Counts what clients do until they are stopped.
#[derive(Clone, Default)]
struct Clients {
    stop: Arc<AtomicBool>,
    /// Those that would connect anew for each request do not.
    calm: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Clients {
    fn start(
        &self,
        act: impl Fn(&Clients) -> Result<()> + Send + 'static,
    ) -> JoinHandle<Result<()>> {
        let clients = self.clone();
        thread::spawn(move || {
            while !clients.stop.load(Ordering::Relaxed) {
                match clients.calm.load(Ordering::Relaxed) {
                    true => thread::sleep(Duration::from_millis(10)),
                    false => act(&clients)?,
                }
            }
            Ok(())
        })
    }

    fn connect(&self, address: SocketAddr, version: u8) -> Result<Client<TcpStream>> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Client::ready(address, version)
    }

    fn read(&self, client: &mut Client<TcpStream>) -> Result<()> {
        client.query(READ)?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A driver whose tasks never pause, on two connections, and that repeats nothing.
struct Driver {
    runtime: Runtime,
    tasks: JoinSet<Done>,
}

/// Results of a driver's tasks.
#[derive(Default)]
struct Done {
    requests: usize,
    failures: Vec<String>,
    /// Of two requests, one after the other.
    longest: Duration,
}

impl Driver {
    fn start(address: SocketAddr, clients: &Clients) -> Driver {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut tasks = JoinSet::new();
        runtime.block_on(async {
            let profile = ExecutionProfile::builder()
                .consistency(Consistency::One)
                .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
                .build();
            let session = SessionBuilder::new()
                .known_node_addr(address)
                .pool_size(PoolSize::PerHost(2.try_into().expect("two")))
                .default_execution_profile_handle(profile.into_handle())
                .build()
                .await
                .expect("a session");
            let session = Arc::new(session);
            let insert = "INSERT INTO handover.t (k, v) VALUES (?, ?)";
            let insert = session.prepare(insert).await.expect("prepared");
            let select = "SELECT v FROM handover.t WHERE k = ?";
            let select = session.prepare(select).await.expect("prepared");
            for key in 100..100 + TASKS {
                let (session, clients) = (session.clone(), clients.clone());
                let (insert, select) = (insert.clone(), select.clone());
                tasks.spawn(async move {
                    let mut done = Done::default();
                    for value in 0.. {
                        if clients.stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let began = Instant::now();
                        let written = session.execute_unpaged(&insert, (key, value)).await;
                        let read = session.execute_unpaged(&select, (key,)).await;
                        done.requests += 2;
                        done.longest = done.longest.max(began.elapsed());
                        let failures = &mut done.failures;
                        failures.extend(written.err().map(|e| e.to_string()));
                        match read {
                            Err(e) => failures.push(e.to_string()),
                            Ok(read) => {
                                let rows = read.into_rows_result().expect("rows");
                                let (found,) = rows.single_row::<(i32,)>().expect("a row");
                                assert!(found == value || !failures.is_empty(), "{key}");
                            }
                        }
                        clients.requests.fetch_add(2, Ordering::Relaxed);
                    }
                    done
                });
            }
        });
        Driver { runtime, tasks }
    }

    fn ended(self) -> Done {
        let mut all = Done::default();
        for done in self.runtime.block_on(self.tasks.join_all()) {
            all.requests += done.requests;
            all.failures.extend(done.failures);
            all.longest = all.longest.max(done.longest);
        }
        all
    }
}

/// True if the other side has closed a connection on which nothing is awaited.
fn is_closed(stream: &TcpStream) -> Result<bool> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match peeked {
        Ok(0) => Ok(true),
        Ok(_) => Ok(false),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// True if the next event is about this table.
fn hears_of(listener: &mut Client<TcpStream>, table: &str) -> bool {
    let event = listener.receive().expect("an event");
    assert_eq!(event.opcode, op::EVENT);
    let of = event.body.windows(table.len());
    of.into_iter().any(|word| word == table.as_bytes())
}

/// Where proxies follow each other.
struct Place {
    contact_points: Vec<SocketAddr>,
    handover: String,
    /// For clients, and for operators.
    addresses: (SocketAddr, SocketAddr),
}

impl Place {
    /// Starts a proxy before these nodes.
    fn launch_at(&self, addresses: (SocketAddr, SocketAddr), points: &[SocketAddr]) -> Proxy {
        Proxy::launch(&Options {
            contact_points: points,
            settings: &["listen.drain_timeout_ms=3000", &self.handover],
            addresses: Some(addresses),
            ..Options::default()
        })
        .expect("started")
    }

    fn launch(&self) -> Proxy {
        let mut proxy = self.launch_at(self.addresses, &self.contact_points);
        proxy.wait_ready().expect("ready");
        proxy
    }
}

/// Clients without a driver.
fn start_all(clients: &Clients, address: SocketAddr) -> Vec<JoinHandle<Result<()>>> {
    // Some connect anew for each request, others keep their connections and pause between requests.
    let mut threads = Vec::new();
    for number in 0..6 {
        let version = 3 + number % 3;
        threads.push(match number % 2 {
            0 => clients.start(move |clients| {
                let mut client = clients.connect(address, version)?;
                clients.read(&mut client)
            }),
            _ => clients.start(move |clients| {
                let stream = TcpStream::connect(address)?;
                let watched = stream.try_clone()?;
                clients.connections.fetch_add(1, Ordering::Relaxed);
                let mut client = Client::of(stream, version)?;
                client.hello(&[])?;
                while !is_closed(&watched)? && !clients.stop.load(Ordering::Relaxed) {
                    clients.read(&mut client)?;
                    thread::sleep(PAUSE);
                }
                Ok(())
            }),
        });
    }
    // One in each version whose requests follow each other without a pause, on one connection.
    for version in 3..=5 {
        threads.push(clients.start(move |clients| {
            let mut client = clients.connect(address, version)?;
            client.query("USE handover")?;
            while !clients.stop.load(Ordering::Relaxed) {
                client.query("SELECT v FROM t WHERE k = 1")?;
                clients.requests.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
    }
    threads
}

#[test]
fn a_proxy_is_replaced_and_no_client_is_refused_or_loses_an_answer() {
    let _turn = turn("handover", Duration::from_secs(240));
    let contact_points = {
        let mut node = shared();
        let table = "CREATE TABLE handover.t (k int PRIMARY KEY, v int)";
        node.keyspace("handover", &[table]);
        node.cluster().contact_points()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("handover.sock");
    let place = Place {
        contact_points,
        handover: format!("listen.handover={:?}", path.display().to_string()),
        addresses: free_addresses("127.0.0.1").expect("addresses"),
    };
    let mut proxy = place.launch();
    let address = proxy.address;
    let clients = Clients::default();
    let threads = start_all(&clients, address);
    let driver = Driver::start(address, &clients);
    // These wait in the middle of a message, and for an event.
    let mut halved = Client::ready(address, 4).expect("a client");
    let query = envelope(4, 7, op::QUERY, &halved.query_body(READ, 1));
    let mut sent = 0;
    let mut listener = Client::ready(address, 5).expect("a client");
    listener.register(&["SCHEMA_CHANGE"]).expect("registered");
    let times = std::env::var("HELENUS_HANDOVERS").ok();
    let times = times.map_or(TIMES, |times| times.parse().expect("a number"));
    for time in 0..times {
        let end = (query.len() - 1).min(sent + 3);
        halved.stream.write_all(&query[sent..end]).expect("sent");
        sent = end;
        let before = clients.requests.load(Ordering::Relaxed);
        eventually("requests", PATIENCE, || {
            clients.requests.load(Ordering::Relaxed) > before + 50
        });
        let next = place.launch();
        let status = proxy.wait(PATIENCE).expect("it ends by itself");
        assert!(status.success(), "{status}");
        proxy.expect_logged("another proxy has taken over");
        proxy = next;
        // It has links a moment later.
        eventually("its admin server says so", PATIENCE, || {
            let answer = proxy.admin_get("/ready", None);
            answer.is_ok_and(|(status, _)| status == 200)
        });
        let table = format!("CREATE TABLE IF NOT EXISTS handover.other{time} (k int PRIMARY KEY)");
        let mut other = Client::ready(address, 5).expect("a client");
        other.query(&table).expect("created");
        while !hears_of(&mut listener, &format!("other{time}")) {}
    }
    proxy = all_are_passed_on(&place, proxy, &clients);
    clients.stop.store(true, Ordering::Relaxed);
    let done = driver.ended();
    println!(
        "{} of {} requests of a driver failed, two took {:?} at most",
        done.failures.len(),
        done.requests,
        done.longest
    );
    assert_eq!(done.failures, [""; 0]);
    halved.stream.write_all(&query[sent..]).expect("sent");
    let answer = halved.receive().expect("an answer");
    assert_eq!((answer.stream, answer.opcode), (7, op::RESULT));
    drop((halved, listener));
    for thread in threads {
        let outcome = thread.join().expect("no panic");
        outcome.expect("every connection and every answer");
    }
    println!(
        "{times} handovers, {} connections, {} requests",
        clients.connections.load(Ordering::Relaxed),
        clients.requests.load(Ordering::Relaxed)
    );
    nobody_takes_the_place_who_cannot(&place, proxy);
    assert!(!path.exists(), "nothing is left");
    who_waits_for_a_place_that_is_free_has_it(&place);
}

/// As many as there are, while they work.
fn all_are_passed_on(place: &Place, mut proxy: Proxy, clients: &Clients) -> Proxy {
    clients.calm.store(true, Ordering::Relaxed);
    let (mut count, mut same) = (0.0, 0);
    eventually("nobody comes and nobody goes", PATIENCE, || {
        let now = metric(&proxy, "helenus_clients");
        same = if now == count { same + 1 } else { 0 };
        count = now;
        same == 10
    });
    // Without a driver: three that pause, three that do not, one in the middle of a message, one that waits
    // for an event. A driver: two for requests, one for events.
    assert_eq!(count, 11.0);
    let next = place.launch();
    assert!(proxy.wait(PATIENCE).expect("it ends by itself").success());
    assert_eq!(metric(&next, "helenus_clients_adopted_total"), count);
    assert_eq!(metric(&next, "helenus_clients"), count);
    proxy.expect_logged(&format!("passed={count}"));
    let before = clients.requests.load(Ordering::Relaxed);
    eventually("they go on", PATIENCE, || {
        clients.requests.load(Ordering::Relaxed) > before + 50
    });
    next
}

fn nobody_takes_the_place_who_cannot(place: &Place, mut proxy: Proxy) {
    let address = proxy.address;
    // Other settings are no reason to take its place.
    let others = free_addresses("127.0.0.1").expect("addresses");
    let mut wrong = place.launch_at(others, &place.contact_points);
    assert!(!wrong.wait(PATIENCE).expect("it ends").success());
    assert!(wrong.log().contains("listen.handover"), "{}", wrong.log());
    // One that cannot get ready leaves everything as it is.
    let nowhere = ["127.0.0.1:1".parse().expect("an address")];
    let waits = place.launch_at(place.addresses, &nowhere);
    eventually("it asks", PATIENCE, || waits.log().contains("taking over"));
    let mut client = Client::ready(address, 5).expect("a client");
    client.query(READ).expect("served");
    waits.kill().expect("killed");
    drop(waits);
    client.query(READ).expect("still served");

    // Nor is the port held, while a client is still there, by what was for a successor.
    proxy.terminate().expect("SIGTERM");
    let began = Instant::now();
    eventually("nobody listens", PATIENCE, || {
        // It is not idle.
        let _ = client.query(READ);
        TcpStream::connect(address).is_err()
    });
    println!("the port was closed after {:?}", began.elapsed());
    drop(client);
    assert!(proxy.wait(PATIENCE).expect("it ends").success());
}

/// One whose predecessor dies meanwhile has an admin server of its own.
fn who_waits_for_a_place_that_is_free_has_it(place: &Place) {
    let nowhere = ["127.0.0.1:1".parse().expect("an address")];
    let old = place.launch();
    let new = place.launch_at(place.addresses, &nowhere);
    eventually("it asks", PATIENCE, || new.log().contains("taking over"));
    old.kill().expect("killed");
    eventually("it says why it is not ready", PATIENCE, || {
        let ready = new.admin_get("/ready", None);
        ready.is_ok_and(|(status, _)| status == 503)
    });
}
