//! A proxy with a part that has failed: it ends, or is found to be of no use, so that whoever supervises it starts
//! it again. Programs built for debugging can be told to fail (`planted.rs` of the proxy).

use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use helenus_tests::proxy::{Options, Proxy};
use rustix::process::Signal;

use crate::nodes::{Nodes, Spec};
use crate::service_manager::next;

const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy that fails like this.
fn with_fault(nodes: &Nodes, fault: &str, options: Options<'_>) -> Proxy {
    let environment = [options.environment, &[("HELENUS_PLANTED", fault)]].concat();
    Proxy::launch(&Options {
        contact_points: &nodes.addresses[..1],
        settings: &["listen.workers=2"],
        environment: &environment,
        ..options
    })
    .expect("a proxy")
}

/// Checks that a proxy ends with the panic in its log if it panics there.
fn ends(place: &str, cause: impl FnOnce(&mut Proxy)) {
    let nodes = Nodes::start(Spec::default());
    let fault = format!("panic in {place}");
    let mut proxy = with_fault(&nodes, &fault, Options::default());
    cause(&mut proxy);
    let status = proxy.wait(PATIENCE).expect("its end");
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{place}");
    let log = proxy.log();
    let panic = log.find(&format!("planted in {place}")).expect("the panic");
    // Nothing that was logged before is lost.
    let before = log.find("connected to Cassandra");
    assert!(before.is_some_and(|before| before < panic), "{log}");
}

#[test]
fn a_panic_of_a_workers_timer_ends_the_proxy() {
    ends("timer", |_| {});
}

#[test]
fn a_panic_of_the_control_connections_task_ends_the_proxy() {
    ends("control", |_| {});
}

#[test]
fn a_panic_of_a_worker_ends_the_proxy() {
    ends("worker", |proxy| {
        proxy.wait_ready().expect("ready");
        let _client = TcpStream::connect(proxy.address).expect("accepted");
    });
}

#[test]
fn a_panic_of_the_admin_server_ends_the_proxy() {
    ends("admin", |proxy| {
        proxy.wait_ready().expect("ready");
        assert!(proxy.admin_get("/health", None).is_err());
    });
}

#[test]
fn a_worker_that_stands_still_fails_both_probes_and_the_watchdog() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("bound");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let nodes = Nodes::start(Spec::default());
    let mut proxy = with_fault(
        &nodes,
        "a worker stands still",
        Options {
            notify_socket: Some(&socket),
            environment: &[("WATCHDOG_USEC", "1000000")],
            ..Options::default()
        },
    );
    proxy.wait_ready().expect("ready");
    while next(&manager) != "WATCHDOG=1\n" {}
    let health = |path| proxy.admin_get(path, None).expect("an answer");
    assert_eq!(health("/health").0, 200);
    let until = |path, wanted| {
        let begin = Instant::now();
        loop {
            let (status, text) = health(path);
            if status == wanted {
                break text;
            }
            assert!(begin.elapsed() < PATIENCE, "{path} says {text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    until("/ready", 200);
    // It does not answer any more.
    let _client = TcpStream::connect(proxy.address).expect("accepted");
    for (path, other) in [("/ready", Some("/health")), ("/health", None)] {
        let text = until(path, 503);
        assert!(text.contains("has answered nobody for"), "{text}");
        assert!(other.is_none_or(|other| health(other).0 == 200));
    }
    // Messages from before, and no more: silence for four times as long as it takes to say that all is well.
    manager
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("set");
    let mut heard = 0;
    let mut bytes = [0; 4096];
    while manager.recv(&mut bytes).is_ok() {
        heard += 1;
        assert!(heard < 100, "the watchdog is fed");
    }
    proxy.expect_logged("watchdog hears no more: worker ");
    proxy.kill().expect("a signal");
}
