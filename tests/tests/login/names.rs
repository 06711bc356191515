//! Names that clients and links give themselves.

use std::collections::BTreeMap;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, op};
use helenus_tests::scripted;
use serde_json::Value;

use crate::{eventually, proxy};

/// Clients by driver and application, as the admin server tells.
fn told(proxy: &Proxy) -> BTreeMap<(String, String), u64> {
    let (status, json) = proxy.admin_get("/api/snapshot", None).expect("an answer");
    assert_eq!(status, 200);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let kinds = json["clients_by_name"].as_array().expect("an array");
    let text = |kind: &Value, name: &str| kind[name].as_str().expect("a text").to_owned();
    let entry = |kind: &Value| {
        let driver = format!("{} {}", text(kind, "driver"), text(kind, "driver_version"));
        let application = text(kind, "application") + &text(kind, "application_version");
        let clients = kind["clients"].as_u64().expect("a number");
        ((driver, application), clients)
    };
    kinds.iter().map(entry).collect()
}

#[test]
fn clients_are_counted_by_their_names_while_they_are_logged_in() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &["log.filter=debug"]);
    let open = |options: &[(&str, &str)]| {
        let mut client = Client::connect(proxy.address, 4).expect("connect");
        let answer = client.hello(options).expect("an answer");
        assert_eq!(answer.opcode, op::AUTHENTICATE);
        client
    };
    let java = [
        ("DRIVER_NAME", "DataStax Java driver"),
        ("DRIVER_VERSION", "4.17.0"),
        ("APPLICATION_NAME", "shop"),
        ("APPLICATION_VERSION", "\"7\"\n"),
        ("CLIENT_ID", "b6f0c3a4"),
    ];
    let long = "x".repeat(10_000);
    let mut clients = [
        open(&java),
        open(&java),
        open(&[]),
        open(&[("DRIVER_NAME", &long)]),
    ];
    assert!(
        told(&proxy).is_empty(),
        "counted before it is known who they are"
    );
    for client in &mut clients {
        client.log_in(b"\0app\0pw").expect("an answer");
    }
    let kinds = told(&proxy);
    let count = |driver: &str, application: &str| {
        let key = (driver.to_owned(), application.to_owned());
        kinds.get(&key).copied()
    };
    assert_eq!(count("DataStax Java driver 4.17.0", "shop\"7\" "), Some(2));
    assert_eq!(count(" ", ""), Some(1));
    assert_eq!(count(&format!("{} ", &long[..128]), ""), Some(1));
    assert_eq!(kinds.len(), 3);
    let (_, page) = proxy.admin_get("/metrics", None).expect("metrics");
    let line = "helenus_clients_by_name{driver=\"DataStax Java driver\",driver_version=\"4.17.0\",\
                application=\"shop\",application_version=\"\\\"7\\\" \"} 2";
    assert!(page.lines().any(|found| found == line), "{page}");
    assert!(proxy.log().contains("b6f0c3a4"), "{}", proxy.log());

    // Those beyond a bound are counted together.
    let crowd: Vec<_> = (0..100)
        .map(|n| {
            let mut client = open(&[("DRIVER_NAME", &format!("driver{n}"))]);
            client.log_in(b"\0app\0pw").expect("an answer");
            client
        })
        .collect();
    let kinds = told(&proxy);
    assert_eq!(kinds.len(), 64);
    assert_eq!(kinds.values().sum::<u64>(), 104);
    drop((clients, crowd));
    eventually("nobody is counted", || told(&proxy).is_empty());
}

#[test]
fn links_say_whose_they_are() {
    let nodes = scripted::start(1).expect("a node");
    let proxy = proxy(&nodes, &["listen.advertise=192.0.2.7:9042"]);
    let mut client = crate::client(&proxy, "app");
    crate::served_as(&mut client).expect("served");
    // Control connection, login and link alike.
    let startups = nodes[0].startups();
    assert!(startups.len() >= 3, "{startups:?}");
    for startup in startups {
        for (name, value) in [
            ("DRIVER_NAME", "Helenus"),
            ("DRIVER_VERSION", env!("CARGO_PKG_VERSION")),
            ("CLIENT_ID", "192.0.2.7:9042"),
        ] {
            let said = (name.to_owned(), value.to_owned());
            assert!(startup.contains(&said), "{startup:?}");
        }
    }
}
