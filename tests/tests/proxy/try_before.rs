//! Captures of a proxy's traffic, played against it and against its node directly.

use std::path::Path;
use std::time::Duration;

use helenus_tests::capturing::Capturing;
use helenus_tests::proxy::{Proxy, helenus};
use serde_json::Value;

use crate::node::shared;
use crate::turn;

/// Runs a command that succeeds.
fn run(arguments: &[&str]) -> String {
    let output = helenus(arguments)
        .expect("a command")
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn load(proxy: &str, options: &[&str]) {
    let common = [
        "load",
        "--contact",
        proxy,
        "--client",
        "raw",
        "--quiet",
        "--clients",
        "8",
        "--warmup",
        "0s",
        "--keys",
        "300",
        "--mix",
        "read=0.7,write=0.3",
        "--operations",
        "2000",
        "--keyspace",
        "tried",
    ];
    run(&[&common[..], options].concat());
}

fn replay(file: &Path, endpoints: [&str; 2], json: &Path, options: &[&str]) -> Value {
    let (file, json) = (
        file.to_str().expect("a path"),
        json.to_str().expect("a path"),
    );
    let [direct, proxy] = endpoints.map(|of| ["--endpoint", of]);
    let common = ["replay", file, "--json", json, "--rounds", "2"];
    run(&[&common[..], &direct, &proxy, options].concat());
    let written = std::fs::read(json).expect("a result");
    serde_json::from_slice(&written).expect("JSON")
}

#[test]
fn what_a_proxy_has_captured_is_answered_alike_by_it_and_by_the_node() {
    let _turn = turn("try_before", Duration::from_secs(180));
    let mut cluster = shared();
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("admin.sock");
    let points = cluster.cluster().contact_points();
    let settings = [
        &format!("admin.socket='{}'", socket.display()),
        "admin.show_keys=true",
    ];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    let address = proxy.address.to_string();
    load(&address, &[]);
    let endpoints = [
        format!("direct={}", points[0]),
        format!("helenus={address}"),
    ];
    let endpoints = [&*endpoints[0], &*endpoints[1]];
    let json = folder.path().join("result.json");
    for (name, options) in [("values", &["--values"][..]), ("hashes", &[])] {
        let file = folder.path().join(format!("{name}.cap"));
        let capturing = Capturing::begin(&socket, file.clone(), options).expect("a capture");
        load(&address, &["--no-fill", "--seed", "7"]);
        // All that are executed, beside what prepares them.
        let all = capturing.until("all requests", |of| {
            let executed = of.requests.iter().filter(|of| of.request.opcode == 0x0A);
            executed.count() >= 2_000
        });
        all.expect("captured");
        let (_, captured) = capturing.end().expect("it ends");
        assert_eq!(captured.mark.lost, 0);
        let reads = captured.requests.iter().filter(|of| {
            of.parts
                .first()
                .is_some_and(|(of, _)| captured.statements[*of].text.starts_with("SELECT"))
                && of.request.opcode == 0x0A
        });
        let reads = reads.count() as u64;
        let options: &[&str] = match name {
            "values" => &["--closed"],
            _ => &["--speed", "5", "--fill"],
        };
        let result = replay(&file, endpoints, &json, options);
        let all = &result["groups"][0];
        assert_eq!(all["compared"], reads, "{result:#}");
        assert_eq!(all["same"], reads, "{result:#}");
        assert_eq!(all["of"][0]["answered"], reads, "{result:#}");
        assert_eq!(all["of"][1]["answered"], reads, "{result:#}");
        let left_out = result["not_played"].as_object().expect("an object");
        let writes = left_out.iter().find(|(why, _)| why.contains("--writes"));
        assert!(
            writes.is_some_and(|(_, count)| count.as_u64() > Some(100)),
            "{result:#}"
        );
        if name == "hashes" {
            assert!(result["filled_rows"].as_u64() > Some(100), "{result:#}");
        }
    }
    // Writes change data, and are played where that is wanted.
    let file = folder.path().join("values.cap");
    let result = replay(&file, endpoints, &json, &["--writes", "--closed"]);
    let answered = result["groups"][0]["of"][0]["answered"].as_u64();
    assert!(answered >= Some(2_000), "{result:#}");
    assert_eq!(result["groups"][0]["failed"], 0, "{result:#}");
}
