//! How a proxy without clients stops.

use std::time::{Duration, Instant};

use helenus_tests::proxy::Proxy;

use crate::client;
use crate::nodes::{Nodes, Spec};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_balancer_that_has_not_noticed_sends_nobody_to_a_closed_port() {
    let nodes = Nodes::start(Spec::default());
    let settings = [
        "listen.workers=2",
        "listen.drain_grace_idle=true",
        "listen.drain_grace_ms=4000",
        "listen.drain_timeout_ms=9000",
    ];
    let mut proxy = Proxy::start(&nodes.addresses[..1], &settings).expect("proxy");
    proxy.terminate().expect("a signal");
    let begin = Instant::now();
    while !proxy.log().contains("stopping, in") {
        assert!(begin.elapsed() < PATIENCE, "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Nobody was there, and each worker would have ended at once.
    for _ in 0..10 {
        let mut late = client(&proxy);
        late.query("SELECT count(*) FROM ks.t").expect("a row");
        drop(late);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(proxy.wait(PATIENCE).expect("its end").success());
}
