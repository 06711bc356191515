//! A design from what clients ask through a proxy, and from rows of the nodes.

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::{Client, ONE};
use serde_json::Value;

use crate::Node;

const ON: [&str; 2] = ["layouts.enabled=true", "listen.workers=1"];
const BY_CLERK: &str =
    "SELECT sum(total) FROM learned.orders WHERE region = ? AND clerk = ? ALLOW FILTERING";
const BY_DAY: &str = "SELECT id FROM orders -- of a day\n WHERE region = ? AND day = ?";
const LIMITED: &str = "SELECT id FROM learned.orders WHERE region = ? LIMIT ?";
/// How often each is asked. The first is a filter, which the table's order does not help.
const ASKED: [(&str, usize); 3] = [(BY_CLERK, 480), (BY_DAY, 160), (LIMITED, 64)];
const REGIONS: i32 = 8;
const ROWS_PER_REGION: i32 = 1_000;

/// Eight regions of 1,000 orders: 50 days, 40 clerks.
fn fill(node: &mut Node) {
    node.table(
        "learned",
        "CREATE TABLE learned.orders (region int, day int, id int, clerk text, total int, PRIMARY KEY \
         (region, day, clerk, id)) WITH CLUSTERING ORDER BY (day DESC, clerk ASC, id ASC) AND comment = 'a;b'",
    );
    for region in 0..REGIONS {
        for begin in (0..ROWS_PER_REGION).step_by(250) {
            let rows: String = (begin..begin + 250)
                .map(|id| {
                    format!(
                        "INSERT INTO learned.orders (region, day, id, clerk, total) VALUES ({region}, {}, {id}, \
                         'clerk{}', 1); ",
                        id % 50,
                        id * 7 % 40
                    )
                })
                .collect();
            node.run(&format!("BEGIN UNLOGGED BATCH {rows} APPLY BATCH"));
        }
    }
}

/// Asks through a proxy, in turn, as `ASKED` says.
fn ask(proxy: &Proxy) {
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    client.query("USE learned").expect("the keyspace is there");
    for (text, times) in ASKED {
        let prepared = client.prepare(text).expect("valid");
        for n in 0..times {
            let region = (n as i32 % REGIONS).to_be_bytes();
            let (clerk, day) = (format!("clerk{}", n % 40), (n as i32 % 50).to_be_bytes());
            let second = match text {
                BY_CLERK => clerk.as_bytes(),
                BY_DAY => &day[..],
                _ => &[0, 0, 0, 5],
            };
            let answer = client.execute(&prepared, &[&region, second], ONE);
            answer.expect("an answer").expect("rows");
        }
    }
}

fn near(found: &Value, expected: f64) -> bool {
    let found = found.as_f64().expect("a number");
    (found - expected).abs() <= 48.0 + expected / 10.0
}

#[test]
fn a_design_is_learned_from_clients_and_created() {
    let mut node = Node::take();
    fill(&mut node);
    // Texts as they were prepared, with comments and values.
    let shown = [&ON[..], &["admin.show_keys=true"]].concat();
    let proxies: Vec<Proxy> = (0..2)
        .map(|_| Proxy::start(&[node.address], &shown).expect("a proxy"))
        .collect();
    let urls: Vec<String> = proxies
        .iter()
        .map(|p| format!("http://{}", p.admin))
        .collect();
    let urls = urls.join(",");
    let advise = ["advise", "learned.orders", "--learned", &urls];
    let more = ["--replicas", "1"];
    node.layouts(&[&advise[..], &more].concat())
        .failed("the proxies have counted no prepared SELECT");
    for proxy in &proxies {
        ask(proxy);
    }
    let path = "/api/statements?table=learned.orders";
    let (status, told) = proxies[0].admin_get(path, None).expect("an answer");
    assert_eq!(status, 200, "{told}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    println!("{told:#}");
    assert_eq!(told.as_array().map(Vec::len), Some(ASKED.len()), "{told}");
    for (statement, (text, times)) in told.as_array().into_iter().flatten().zip(ASKED) {
        assert_eq!(statement["text"], text);
        let names_keyspace = text.contains("learned.");
        assert_eq!(statement["keyspace"] == "learned", !names_keyspace);
        assert!(near(&statement["asked"], times as f64), "{statement}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (kept, design) = (folder.path().join("kept.cql"), folder.path().join("design"));
    let paths = [&kept, &design].map(|path| path.to_str().expect("a path"));
    let keep = ["--json", "--write-workload", paths[0]];
    let learned = node.layouts(&[&advise[..], &more, &keep].concat());
    let learned = learned.succeeded();
    let report = learned.json();
    let rows = f64::from(REGIONS * ROWS_PER_REGION);
    assert_eq!(
        report["sampled"]["rows_total_estimated"], rows,
        "{report:#}"
    );
    assert_eq!(report["statements"].as_array().map(Vec::len), Some(2));
    assert!(near(&report["learned"]["asked"], 2.0 * 704.0), "{report:#}");
    let left_out = &report["learned"]["left_out"][0];
    assert_eq!(left_out["statement"], LIMITED);
    assert!(
        left_out["reason"].to_string().contains("LIMIT"),
        "{left_out}"
    );
    assert_eq!(report["layouts"][0]["clustering"][0], "clerk", "{report:#}");
    // There is nothing in use yet.
    let redesign = &report["redesign"];
    assert_eq!(redesign["in_use"], Value::Array(Vec::new()), "{redesign:#}");
    assert_eq!(redesign["build"][0], "A", "{redesign:#}");
    assert!(
        redesign["queries_per_s"].as_f64() > Some(0.0),
        "{redesign:#}"
    );
    assert!(redesign["build_s"].as_f64() > Some(0.0), "{redesign:#}");
    let text = node.layouts(&[&advise[..], &more].concat()).succeeded();
    println!("{}", text.out);
    assert!(text.out.contains("rows from the nodes"), "{}", text.out);
    assert!(text.out.contains("left out"), "{}", text.out);
    // Of a few partitions the same follows.
    let few = [&advise[..], &more, &["--json", "--sample-rows", "300"]].concat();
    let few = node.layouts(&few).succeeded().json();
    let sampled = &few["sampled"];
    println!("{sampled:#}");
    assert_eq!(sampled["rows"].as_i64().map(|rows| rows % 1_000), Some(0));
    assert!(sampled["rows"].as_f64() < Some(rows), "{sampled}");
    assert!(sampled["ranges_read"].as_i64() < sampled["ranges"].as_i64());
    assert_eq!(sampled["partitions_cut"], false);
    assert_eq!(
        few["layouts"][0]["clustering"],
        report["layouts"][0]["clustering"]
    );
    // The workload that was kept gives the same design, without the proxies.
    let again = ["advise", "--workload", paths[0], "--json"];
    let again = node.layouts(&[&again[..], &more].concat()).succeeded();
    assert_eq!(again.json()["layouts"], report["layouts"]);
    std::fs::write(&design, &learned.out).expect("a file");
    let create = ["create", "learned.orders", "--design", paths[1]];
    node.layouts(&create).succeeded();
    assert_eq!(node.states("learned", "orders")["a"], "ready");
    // The layout in use is the best, also by a file of what was seen before.
    let state = folder.path().join("state.json");
    let state = ["--json", "--state", state.to_str().expect("a path")];
    let in_use = ["advise", "learned.orders", "--learned", &urls];
    for _ in 0..2 {
        let again = node.layouts(&[&in_use[..], &state].concat()).succeeded();
        let redesign = &again.json()["redesign"];
        assert_eq!(redesign["recommendation"], "keep", "{redesign:#}");
        assert_eq!(redesign["in_use"][0]["name"], "a", "{redesign:#}");
        assert_eq!(redesign["in_use"][0]["stays"], true, "{redesign:#}");
        assert!(
            redesign["in_use"][0]["saves_us"].as_f64() > Some(0.0),
            "{redesign:#}"
        );
        assert_eq!(redesign["build"], Value::Array(Vec::new()), "{redesign:#}");
        assert_eq!(again.json()["layouts"].as_array().map(Vec::len), Some(1));
    }
    let text = node.layouts(&in_use).succeeded();
    assert!(text.out.contains("recommendation: keep"), "{}", text.out);
    drop(proxies);
    node.layouts(&["drop", "learned.orders", "--no-proxies", "--all"])
        .succeeded();
}

/// Whole tables in pieces, in parts, and several partitions at once.
#[test]
fn reads_are_counted_whatever_way_they_take() {
    const TIMES: usize = 96;
    let mut node = Node::take();
    node.table(
        "ways",
        "CREATE TABLE ways.t (k int, a int, b int, v int, PRIMARY KEY (k, a, b))",
    );
    for k in 0..40 {
        let rows: String = (0..100)
            .map(|a| format!("INSERT INTO ways.t (k, a, b, v) VALUES ({k}, {a}, 1, 1); "))
            .collect();
        node.run(&format!("BEGIN UNLOGGED BATCH {rows} APPLY BATCH"));
    }
    let settings = ["layouts.enabled=true", "listen.workers=2"];
    let proxy = Proxy::start(&[node.address], &settings).expect("a proxy");
    let mut keys = 40_i32.to_be_bytes().to_vec();
    for k in 0..40_i32 {
        keys.extend(4_i32.to_be_bytes());
        keys.extend(k.to_be_bytes());
    }
    let limit = 3_000_i32.to_be_bytes();
    let ways: [(&str, &[&[u8]]); 3] = [
        ("SELECT count(*) FROM ways.t", &[]),
        ("SELECT v FROM ways.t LIMIT ?", &[&limit]),
        ("SELECT v FROM ways.t WHERE k IN ?", &[&keys]),
    ];
    for (text, values) in ways {
        // Of either worker, as it comes.
        for version in [4, 5] {
            let mut client = Client::ready(proxy.address, version).expect("a client");
            let prepared = client.prepare(text).expect("valid");
            for _ in 0..TIMES {
                let answer = client.execute(&prepared, values, ONE);
                answer.expect("an answer").expect("rows");
            }
            // It is asked without being prepared as well, which is not counted.
            client.query("SELECT v FROM ways.t").expect("rows");
        }
    }
    let path = "/api/statements?table=ways.t";
    let (_, told) = proxy.admin_get(path, None).expect("an answer");
    println!("{told}");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told.as_array().map(Vec::len), Some(ways.len()), "{told}");
    for (text, _) in ways {
        let mut statements = told.as_array().into_iter().flatten();
        let statement = statements.find(|statement| statement["text"] == text);
        let statement = statement.unwrap_or_else(|| panic!("no {text}: {told}"));
        assert!(near(&statement["asked"], 2.0 * TIMES as f64), "{statement}");
        assert!(statement["mean_us"].as_f64() > Some(0.0), "{statement}");
    }
}
