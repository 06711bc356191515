//! The node of the last copy in sync was restarted: an operator decides.

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE};

use crate::returning::owners;
use crate::writes::{ON, in_sync, replace, three_data_centers};
use crate::{PATIENCE, TURN, eventually, joined, lists, run};

/// Whether a write is acknowledged.
fn writes(proxy: &Proxy) -> bool {
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    let insert = "INSERT INTO shop.orders (k, a, b, v) VALUES (1, 1, 2, 3)";
    client.try_query(insert, ONE).expect("an answer").is_ok()
}

#[test]
fn the_last_copy_is_written_to_after_a_restart_if_an_operator_says_so() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let mut cluster = three_data_centers();
    let mut node = replace(&cluster);
    let owners = owners(&mut node);
    // Nobody knows since when the others are out, so they stay it: they have rows.
    run(
        &mut node,
        &format!(
            "UPDATE helenus.copies SET version = 3, in_sync = {{1}}, since = [2, 1, 3] WHERE keyspace_name = 'shop' \
             AND table_name = 'orders' AND owners = {owners}"
        ),
    );
    let mut proxy = Proxy::start(&cluster.contact_points(), &ON).expect("a proxy");
    joined(&proxy);
    eventually("the copies are known", || in_sync(&proxy) == [1]);
    eventually("writes are acknowledged", || writes(&proxy));
    cluster.stop(2).expect("stopped");
    cluster.start(2).expect("started");
    eventually("it says what to do", || {
        let problems = lists(&proxy)["upkeep"]["problems"].to_string();
        problems.contains("layouts.adopt_restarted")
    });
    assert!(!writes(&proxy));
    proxy.terminate().expect("a signal");
    proxy.wait(PATIENCE).expect("it ends");

    let adopt = ["layouts.adopt_restarted=true"];
    let settings: Vec<&str> = ON.iter().chain(&adopt).copied().collect();
    let proxy = Proxy::start(&cluster.contact_points(), &settings).expect("a proxy");
    joined(&proxy);
    eventually("writes are acknowledged again", || writes(&proxy));
    assert_eq!(in_sync(&proxy), [1], "{}", proxy.log());
    assert!(proxy.log().contains("adopt_restarted"), "{}", proxy.log());
}
