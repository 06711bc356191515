use super::*;
use crate::worker::turns::WorkerTurns;

/// Before any node has responded.
fn admin(settings: &str) -> Admin {
    let config = crate::config::from_toml(settings).expect("settings");
    let shared = crate::testing::process(config);
    let shared = Arc::new(shared);
    let failure = "10.0.0.1:9042: refused".to_owned();
    shared.contact_failure.store(Some(Arc::new(failure)));
    Admin {
        patience: PATIENCE,
        shared,
        started: SystemTime::now(),
        large: Arc::new(Semaphore::new(LARGE_MAX)),
    }
}

fn ask(admin: &Admin, uri: &str, headers: &[(&str, &str)]) -> (u16, String) {
    call(admin, Method::GET, Door::Tcp, uri, headers)
}

fn call(
    admin: &Admin,
    method: Method,
    door: Door,
    uri: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    use http_body_util::BodyExt;
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        let answer = admin.answer(&request, door).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body");
        let text = String::from_utf8(body.to_bytes().to_vec());
        (status, text.expect("a text"))
    })
}

/// Everything that is read with a token.
const DATA: &[&str] = &[
    "/metrics",
    "/api/snapshot",
    "/api/clients",
    "/api/statements",
    STATEMENTS,
    "/api/slow",
    "/api/errors",
    "/api/history",
    "/api/summary",
    "/api/events",
    "/api/keys",
    "/api/nodes",
    "/api/queues",
    "/api/pools",
    "/api/rules",
    "/api/pauses",
    "/api/proxies",
    "/api/config",
];

/// Everything that changes something, with what is answered where that is allowed: there are no workers, and
/// nothing is paused.
const ACTIONS: &[(&str, u16)] = &[
    ("/api/clients/0-1/kill", 400),
    ("/api/clients/x/kill", 400),
    ("/api/clients/kill", 400),
    ("/api/clients/kill?idle_s=60", 200),
    ("/api/resume?role=app", 404),
    ("/api/pause?role=app&seconds=0", 400),
    ("/api/pause", 400),
    ("/api/capture?seconds=0", 400),
    ("/api/capture?share_ppm=1000001", 400),
    ("/api/capture?values=true", 400),
];

const TOKEN: &str = "[admin]\naddress = '0.0.0.0:9180'\ntoken = 's3cret'\n";

#[test]
fn probes_need_no_token_and_tell_strangers_no_names() {
    let admin = admin(TOKEN);
    let host = ("Host", "10.1.2.3:9180");
    assert_eq!(ask(&admin, "/health", &[host]).0, 200);
    let (status, reason) = ask(&admin, "/ready", &[host]);
    assert_eq!(status, 503);
    assert!(reason.contains("cluster.contact_points"), "{reason}");
    assert!(!reason.contains("10.0.0.1"), "{reason}");
    let known = ("Authorization", "Bearer s3cret");
    let (status, reason) = ask(&admin, "/ready", &[host, known]);
    assert_eq!(status, 503);
    assert!(reason.contains("10.0.0.1:9042: refused"), "{reason}");
}

#[test]
fn a_proxy_with_a_worker_that_is_stuck_for_long_is_not_healthy() {
    let mut admin = admin("");
    let (now, host) = (Instant::now(), ("Host", "localhost"));
    let began = now - Duration::from_secs(60);
    let shared = Arc::get_mut(&mut admin.shared).expect("its only user");
    shared.turns_of_workers = WorkerTurns::new(began);
    shared.turns_of_workers.begin(2, began);
    shared.turns_of_workers.note(0, now);
    let (status, why) = ask(&admin, "/health", &[host]);
    assert_eq!(status, 503);
    assert!(
        why.starts_with("worker 1 has answered nobody for 6"),
        "{why}"
    );
    admin.shared.turns_of_workers.note(1, now);
    assert_eq!(ask(&admin, "/health", &[host]), (200, "ok\n".to_owned()));
}

#[test]
fn the_page_needs_no_token_and_holds_no_data() {
    let admin = admin(TOKEN);
    assert_eq!(ask(&admin, "/", &[]), (200, DASHBOARD.to_owned()));
}

#[test]
fn data_needs_the_token_and_takes_it_only_from_the_header() {
    let admin = admin(TOKEN);
    for path in DATA {
        assert_eq!(ask(&admin, path, &[]).0, 401, "{path}");
        assert_eq!(ask(&admin, path, &[("Authorization", "Bearer x")]).0, 401);
        let known = ("Authorization", "Bearer s3cret");
        assert_eq!(ask(&admin, path, &[known]).0, 200, "{path}");
        let sign = if path.contains('?') { '&' } else { '?' };
        let in_address = format!("{path}{sign}token=s3cret");
        assert_eq!(ask(&admin, &in_address, &[]).0, 401, "{in_address}");
    }
}

#[test]
fn without_a_token_foreign_names_are_refused() {
    let admin = admin("[admin]\nhosts = ['helenus.internal']\n");
    for path in ["/", "/health", "/ready"].iter().chain(DATA) {
        let (status, text) = ask(&admin, path, &[("Host", "rebound.example:9180")]);
        assert_eq!(status, 403, "{path}");
        assert!(text.contains("admin.hosts"), "{text}");
        for host in ["127.0.0.1:9180", "localhost", "helenus.internal:80"] {
            assert_ne!(ask(&admin, path, &[("Host", host)]).0, 403, "{path} {host}");
        }
        // The name in the request line takes precedence over the Host header.
        let absolute = format!("http://rebound.example{path}");
        assert_eq!(ask(&admin, &absolute, &[("Host", "localhost")]).0, 403);
    }
}

const STATEMENTS: &str = "/api/statements?table=shop.orders";

#[test]
fn statements_of_a_table_are_asked_for_by_its_name() {
    let admin = admin("");
    assert_eq!(ask(&admin, STATEMENTS, &[]), (200, "[]".to_owned()));
    for unnamed in ["/api/statements?table=", "/api/statements?table=orders"] {
        let (status, text) = ask(&admin, unnamed, &[]);
        assert_eq!(status, 400, "{unnamed}");
        assert!(text.contains("keyspace.table"), "{text}");
    }
}

#[test]
fn the_token_that_reads_reads_everything_and_changes_nothing() {
    let admin = admin("[admin]\ntoken = 's3cret'\nread_token = 'r3ad'\n");
    let reads = [("Authorization", "Bearer r3ad")];
    let acts = [("Authorization", "Bearer s3cret")];
    for path in DATA {
        assert_eq!(ask(&admin, path, &reads).0, 200, "{path}");
        let (status, text) = call(&admin, Method::POST, Door::Tcp, path, &acts);
        assert_eq!(status, 405, "{path}: {text}");
    }
    for (path, allowed) in ACTIONS {
        let status = |headers| call(&admin, Method::POST, Door::Tcp, path, headers).0;
        assert_eq!(status(&[]), 401, "{path}");
        assert_eq!(status(&[("Authorization", "Bearer x")]), 401, "{path}");
        assert_eq!(status(&reads), 403, "{path}");
        assert_eq!(status(&acts), *allowed, "{path}");
        assert_eq!(ask(&admin, path, &acts).0, 405, "{path}: with GET");
    }
}

#[test]
fn without_a_token_nothing_is_changed_but_over_the_socket() {
    let admin = admin("");
    let local = [("Host", "localhost")];
    for (path, allowed) in ACTIONS {
        let (status, text) = call(&admin, Method::POST, Door::Tcp, path, &local);
        assert_eq!(status, 403, "{path}");
        assert!(
            text.contains("admin.token") && text.contains("admin.socket"),
            "{text}"
        );
        let (status, _) = call(&admin, Method::POST, Door::Socket, path, &[]);
        assert_eq!(status, *allowed, "{path}");
    }
    for path in DATA {
        let (status, _) = call(&admin, Method::GET, Door::Socket, path, &[]);
        assert_eq!(status, 200, "{path}");
    }
}

#[test]
fn pauses_begin_once_and_are_shown_until_they_end() {
    let admin = admin("");
    let post = |path: &str| call(&admin, Method::POST, Door::Socket, path, &[]);
    let (status, text) = post("/api/pause?keyspace=shop&seconds=60&waiting_max=5");
    assert_eq!(status, 200, "{text}");
    assert_eq!(post("/api/pause?keyspace=shop").0, 409);
    let (_, shown) = ask(&admin, "/api/pauses", &[]);
    assert!(
        shown.contains("\"keyspace\":\"shop\"") && shown.contains("\"waiting_max\":5"),
        "{shown}"
    );
    assert_eq!(post("/api/resume?keyspace=other").0, 404);
    assert_eq!(post("/api/resume?keyspace=shop").0, 200);
    assert_eq!(ask(&admin, "/api/pauses", &[]).1, "[]");
    admin
        .shared
        .draining
        .store(true, std::sync::atomic::Ordering::Release);
    assert_eq!(post("/api/pause?keyspace=shop").0, 409);
}

#[test]
fn settings_are_shown_without_secrets() {
    let text = "[admin]\ntoken = 'hunter2'\nread_token = 'hunter3'\n[cluster]\nusername = 'u'\npassword = 'hunter4'\n";
    let known = [("Authorization", "Bearer hunter3")];
    let (status, shown) = ask(&admin(text), "/api/config", &known);
    assert_eq!(status, 200);
    assert!(
        !shown.contains("hunter") && shown.contains("<redacted>"),
        "{shown}"
    );
}

#[test]
fn values_are_shown_to_those_who_act_and_with_show_keys_only() {
    let rules = "[[rules]]\nname = 'r'\nkeyspace = 'shop'\ntable = 'orders'\nkey = ['hunter2']\nin_flight = 1\n\
                 [[rules]]\nname = 's'\nstatement = \"SELECT v FROM shop.t WHERE k = 'hunter2'\"\nin_flight = 1\n";
    let tokens = "token = 's3cret'\nread_token = 'r3ad'\n";
    let reads = [("Authorization", "Bearer r3ad")];
    let acts = [("Authorization", "Bearer s3cret")];
    for path in ["/api/rules", "/api/config"] {
        let hidden = admin(&format!("[admin]\n{tokens}{rules}"));
        let (_, text) = ask(&hidden, path, &reads);
        assert!(!text.contains("hunter2"), "{path}: {text}");
        assert!(text.contains("WHERE k = ?"), "{path}: {text}");
        assert!(ask(&hidden, path, &acts).1.contains("hunter2"), "{path}");
        let shown = admin(&format!("[admin]\nshow_keys = true\n{tokens}{rules}"));
        assert!(ask(&shown, path, &reads).1.contains("hunter2"), "{path}");
    }
}

#[tokio::test]
async fn a_socket_that_nobody_asked_for_is_no_reason_to_end() {
    let path = "/nonexistent/helenus/admin.sock";
    let settings = format!("[admin]\nsocket = '{path}'\n");
    let asked = admin(&settings).shared;
    let error = start(&asked, None, true).err().map(|e| format!("{e:#}"));
    assert!(error.is_some_and(|error| error.contains("admin.socket")));
    assert!(bind_socket(path.as_ref(), false).is_ok_and(|bound| bound.is_none()));
}

#[test]
fn misspelt_parameters_are_named() {
    let admin = admin("");
    for path in [
        "/api/clients?order=x",
        "/api/slow?limit=0",
        "/api/clients?sort=x",
    ] {
        let (status, text) = ask(&admin, path, &[]);
        assert_eq!(status, 400, "{path}: {text}");
    }
}

/// An answer, as JSON.
fn shown(admin: &Admin, uri: &str) -> serde_json::Value {
    let (status, text) = ask(admin, uri, &[("Host", "localhost")]);
    assert_eq!(status, 200, "{uri}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_last_hour_is_told_from_where_one_has_stopped() {
    use crate::records::history::{Gauges, Seen};
    use helenus_policy::schedule::Class;

    let admin = admin("");
    let shared = &admin.shared;
    let began = crate::system::boot_time::now();
    for second in 1..=12 {
        shared.stats.latency[Class::Point as usize].record(700);
        shared
            .stats
            .global
            .requests_failed
            .fetch_add(2, std::sync::atomic::Ordering::Relaxed);
        let seen = Seen {
            stats: &shared.stats,
            nodes: &[],
            standing: &[],
            gauges: Gauges::default(),
            cpu_us: 0,
        };
        shared
            .history
            .record(began + Duration::from_secs(second), &seen);
    }
    shared
        .events
        .note(crate::records::events::Kind::NodeDown, "10.0.0.3 is down");
    let all = shown(&admin, "/api/history");
    assert_eq!(all["fine"]["steps"].as_array().map(Vec::len), Some(12));
    assert_eq!(all["fine"]["next"], 12);
    assert_eq!(all["coarse"]["steps"].as_array().map(Vec::len), Some(1));
    let step = &all["fine"]["steps"][11];
    let counters = all["counters"].as_array().expect("names");
    let failed = counters.iter().position(|name| name == "requests_failed");
    assert_eq!(step["counters"], serde_json::json!([failed, 2]));
    let point = &step["classes"]["point"];
    assert_eq!(point["latency_sum_us"], 700);
    let bucket = point["latency"][0].as_u64().expect("a bucket") as usize;
    let bound = |at: usize| all["bounds_us"][at].as_u64().expect("a bound");
    assert!(bound(bucket - 1) <= 700 && 700 < bound(bucket));
    assert_eq!(step["classes"].as_object().map(|of| of.len()), Some(1));
    assert_eq!(all["events"]["events"][0]["kind"], "node_down");
    assert_eq!(all["events"]["events"][0]["severity"], "bad");

    let new = shown(&admin, "/api/history?fine=11&coarse=none&events=1");
    assert_eq!(new["fine"]["steps"].as_array().map(Vec::len), Some(1));
    assert_eq!(new["coarse"], serde_json::Value::Null);
    assert_eq!(
        new["events"],
        serde_json::json!({ "next": 1, "events": [] })
    );
    // As after a restart.
    let other = shown(&admin, "/api/history?fine=999&coarse=0&events=999");
    assert_eq!(other["fine"]["steps"].as_array().map(Vec::len), Some(12));
    assert_eq!(other["events"]["events"].as_array().map(Vec::len), Some(1));

    let sum = shown(&admin, "/api/summary?from_ms=0&to_ms=10100");
    assert_eq!(sum["ms"].as_u64().map(|ms| ms / 1_000), Some(10));
    assert!(
        sum["classes"]["point"]["p99_us"]
            .as_f64()
            .is_some_and(|us| us > 600.0)
    );
    assert_eq!(sum["classes"]["scan"]["p99_us"], serde_json::Value::Null);
    let past = shown(&admin, "/api/events?limit=1");
    assert_eq!(past["events"][0]["text"], "10.0.0.3 is down");
    assert!(past["events"][0]["at_unix_ms"].as_u64() > Some(1_600_000_000_000));
}

#[test]
fn nodes_that_have_left_are_told_of_in_the_time_in_which_they_were_there() {
    use crate::records::history::{Gauges, Seen};
    use helenus_engine::snapshot::{Node, Snapshot};
    use helenus_policy::ring::NodeIndex;
    use std::sync::atomic::Ordering;

    let admin = admin("");
    let shared = &admin.shared;
    let address = "10.0.0.1:9042".parse().expect("an address");
    let node = |host_id, gone| Node {
        address,
        host_id,
        dc: "dc1".to_owned(),
        rack: "r1".to_owned(),
        release_version: "5.0.5".to_owned(),
        processors: None,
        timeouts: None,
        batches: None,
        pages: None,
        hints: None,
        gone,
    };
    // The second has never got anything, the third has the first one's address now.
    let nodes = [([1; 16], true), ([2; 16], true), ([3; 16], false)];
    let nodes = nodes.map(|(host_id, gone)| node(host_id, gone));
    shared.snapshot.store(Arc::new(Snapshot {
        nodes: nodes.into(),
        ..Snapshot::unknown()
    }));
    let stats: Vec<_> = (0..3)
        .map(|at| shared.stats.node(NodeIndex(at), || "n".to_owned()))
        .collect();
    let began = crate::system::boot_time::now();
    for second in 1..=20 {
        if second <= 10 {
            let requests = &stats[0].counters.requests;
            requests.fetch_add(7, Ordering::Relaxed);
        }
        let seen = Seen {
            stats: &shared.stats,
            nodes: &stats,
            standing: &[],
            gauges: Gauges::default(),
            cpu_us: 0,
        };
        let at = began + Duration::from_secs(second);
        shared.history.record(at, &seen);
    }
    let told = |uri| {
        let nodes = shown(&admin, uri)["nodes"].take();
        let nodes = nodes.as_array().expect("nodes").iter();
        let told = nodes.map(|of| (of["number"].as_u64(), of["gone"].as_bool()));
        told.map(|(number, gone)| (number.expect("a number"), gone.expect("a flag")))
            .collect::<Vec<_>>()
    };
    let first = "/api/summary?from_ms=0&to_ms=9000";
    assert_eq!(told(first), [(0, true), (2, false)]);
    assert!(shown(&admin, first)["nodes"][0]["requests_per_s"].as_f64() > Some(6.0));
    let second = "/api/summary?from_ms=11000&to_ms=19000";
    assert_eq!(told(second), [(2, false)]);
    let numbers = shown(&admin, "/api/nodes");
    let numbers = numbers.as_array().expect("nodes").iter();
    assert!(
        numbers
            .map(|of| of["number"].as_u64())
            .eq([Some(0), Some(1), Some(2)])
    );
}

#[test]
fn what_is_wrong_with_settings_is_told_to_those_who_may_see_values() {
    let texts = |settings| {
        let admin = admin(settings);
        let kind = crate::records::events::Kind::SettingsRefused;
        let why = "line 3: unknown variant `s3cret`".to_owned();
        let events = &admin.shared.events;
        events.note_detailed(kind, "nothing reloaded", why);
        ["/api/history", "/api/events"].map(|uri| ask(&admin, uri, &[("Host", "localhost")]).1)
    };
    for text in texts("") {
        assert!(
            text.contains("nothing reloaded: the log says why"),
            "{text}"
        );
        assert!(!text.contains("s3cret"), "{text}");
    }
    for text in texts("[admin]\nshow_keys = true") {
        assert!(text.contains("nothing reloaded: line 3"), "{text}");
    }
}

#[test]
fn history_names_what_is_wrong_with_a_question() {
    let admin = admin("");
    for (uri, part) in [
        ("/api/history?fine=x", "fine must be"),
        ("/api/history?fine=-1", "fine must be"),
        ("/api/history?from=1", "no parameter \"from\""),
        ("/api/summary?seconds=0", "from 1 to 3600"),
        ("/api/summary?from_ms=5", "belong together"),
        ("/api/summary?from_ms=5&to_ms=5", "less than to_ms"),
        ("/api/summary?from_ms=5&to_ms=9&seconds=1", "either seconds"),
        ("/api/summary?points=1000", "from 0 to 360"),
        ("/api/events?limit=0", "from 1 to 1000"),
    ] {
        let (status, text) = ask(&admin, uri, &[("Host", "localhost")]);
        assert_eq!(status, 400, "{uri}");
        assert!(text.contains(part), "{uri}: {text}");
    }
    // Any time that may be asked for is only empty.
    let ask = format!("/api/summary?from_ms=0&to_ms={}&points=360", u64::MAX);
    shown(&admin, &ask);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_of_a_capture_is_given_up() {
    use helenus_engine::features::capture::Captured;
    use tokio::io::AsyncWriteExt;

    let admin = Admin {
        patience: Patience {
            last_answer: Duration::from_millis(20),
            idle: Duration::from_millis(100),
        },
        ..admin("")
    };
    let shared = admin.shared.clone();
    let (mut client, server) = tokio::io::duplex(256);
    let places = Places::new(CONNECTIONS);
    let (place, _replaced) = places.take(None, Instant::now()).expect("a place");
    let serving = tokio::spawn(Arc::new(admin).connection(server, Door::Socket, place));
    let request = b"POST /api/capture HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.write_all(request).await.expect("written");
    while !serving.is_finished() {
        let captured = Captured {
            ticket: 1,
            block: vec![0; 64 * 1024],
            records: 1,
            lost: 0,
        };
        shared.captures.take(captured);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (events, _) = shared.events.from(0);
    let said = |what: &str| events.iter().any(|event| event.text.contains(what));
    assert!(said("records what clients ask"));
    assert!(said("its reader has taken nothing for"));
    assert!(shared.captures.begin().is_some(), "there is room again");
    drop(client);
}

#[tokio::test]
async fn a_connection_is_busy_until_its_answer_is_sent() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (mut client, server) = tokio::io::duplex(1_024);
    let places = Places::new(Bounds {
        all: 1,
        address: 1,
        quiet: Duration::ZERO,
    });
    let (place, _replaced) = places.take(None, Instant::now()).expect("a place");
    let serving = tokio::spawn(Arc::new(admin("")).connection(server, Door::Socket, place));
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.write_all(request).await.expect("written");
    client.read_exact(&mut [0; 512]).await.expect("its begin");
    assert!(
        places.take(None, Instant::now()).is_none(),
        "most of the page is not sent"
    );
    let reading = tokio::spawn(async move {
        // All of it, and the end of the connection.
        let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
    });
    while places.take(None, Instant::now()).is_none() {
        assert!(!reading.is_finished());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!serving.is_finished(), "it waits for the next request");
    serving.abort();
}

#[test]
fn where_no_client_was_idle_there_is_no_event() {
    let admin = admin("");
    let uri = "/api/clients/kill?idle_s=5";
    let (status, text) = call(&admin, Method::POST, Door::Socket, uri, &[]);
    assert_eq!(status, 200, "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&value["killed"], &value["silent_workers"]),
        (&0.into(), &0.into())
    );
    let (events, _) = admin.shared.events.from(0);
    assert!(events.iter().all(|event| !event.text.contains("idle for")));
}

#[tokio::test]
async fn who_only_connects_keeps_no_probe_out() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let settings: crate::config::Config =
        crate::config::from_toml("[admin]\naddress = '127.0.0.1:0'\n").expect("settings");
    let port = bind(&settings.admin).expect("bound").expect("a port");
    let address = port.local_addr().expect("bound");
    let shared = Arc::new(crate::testing::process(settings));
    let _serving = start(&shared, Some(port), false).expect("served");
    let mut silent = Vec::new();
    for _ in 0..3 {
        for _ in 0..2 * CONNECTIONS.all {
            silent.push(TcpStream::connect(address).await.expect("connected"));
        }
        let mut probe = TcpStream::connect(address).await.expect("connected");
        let asked = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        probe.write_all(asked).await.expect("written");
        let mut said = String::new();
        // Not only once the others have been closed for their silence, in two turns.
        let answered = timeout(HEAD_TIMEOUT, probe.read_to_string(&mut said));
        answered.await.expect("it is answered").expect("read");
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
}
