//! Columns of encoded JSON documents before real nodes: random histories through the proxy, and directly over
//! a plain table, must give the same answers, whatever state the columns are in.

mod history;
mod session;
mod statements;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use helenus_catalogue::change::Change;
use helenus_catalogue::{Encoding, Feature, Flag, TableKey, stored};
use helenus_payload::learn;
use helenus_tests::catalogue::change;
use helenus_tests::proxy::Proxy;
use helenus_tests::{kinds, pool};
use history::{COLUMNS, Counts, History, KEYSPACES};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use session::Session;

fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{name} is not a number")),
        Err(_) => Ok(default),
    }
}

const CATALOGUE: [&str; 3] = [
    "CREATE KEYSPACE helenus WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    stored::CREATE,
    stored::CREATE_DICTIONARIES,
];

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Which column is written, one state after another: before rows are encoded, while they are, when all are,
/// and back again.
const STATES: [&str; 8] = [
    "announced",
    "text",
    "both",
    "encoded",
    "encoded_only",
    "encoded",
    "both",
    "text",
];

#[test]
fn encoded_columns_answer_as_plain_ones() -> Result<()> {
    let seed = setting("HELENUS_SEED", rand::random::<u32>().into())?;
    let operations = setting("HELENUS_PAYLOAD_OPERATIONS", 3_000)?;
    println!("seed {seed} (HELENUS_SEED), {operations} operations (HELENUS_PAYLOAD_OPERATIONS)");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let cluster = pool::take(kinds::brisk()).context("the node does not start")?;
    let address = cluster.address(1)?;
    let mut node = Session::open(address, 5)?;
    let mut run = |text: &str| {
        let done = node.client.query(text).map(|_| ());
        done.with_context(|| text.chars().take(200).collect::<String>())
    };
    for text in CATALOGUE {
        run(text)?;
    }
    for keyspace in KEYSPACES {
        run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ))?;
        run(&format!(
            "CREATE TABLE {keyspace}.t (k int, c int, doc text, \"Note\" text, n int, m map<int, text>, \
             PRIMARY KEY (k, c))"
        ))?;
    }
    let samples: Vec<String> = (0..500).map(|_| statements::document(&mut rng)).collect();
    let learned = learn(samples.iter().map(String::as_str));
    run(&format!(
        "INSERT INTO helenus.dictionaries (keyspace_name, table_name, id, column_name, learned) \
         VALUES ('ks', 't', 1, 'doc', {})",
        hex(&learned.to_bytes())
    ))?;
    for (_, hidden, _) in COLUMNS {
        run(&format!("ALTER TABLE ks.t ADD \"{hidden}\" blob"))?;
    }
    let flag = Flag {
        feature: Feature::Encodings,
        table: TableKey::new("ks", "t"),
        number: 1,
    };
    put(
        &mut node,
        &[Change::Begin(flag.feature, flag.number)],
        "text",
    );
    node.client.query(&flag.create())?;
    let settings = ["payload.enabled=true", "aggregation.merge_writes=[\"ks\"]"];
    let proxy = Proxy::start_patient(&cluster.contact_points(), &settings)?;
    let versions = [4, 5];
    let mut histories = Vec::new();
    for version in versions {
        let sessions = [
            Session::open(proxy.address, version)?,
            Session::open(address, version)?,
        ];
        histories.push(History::new(sessions, learned_again(&learned)?));
    }
    let mut counts = Counts::default();
    for (at, state) in STATES.into_iter().enumerate() {
        put_state(&mut node, &proxy, state)?;
        for history in &mut histories {
            let of = operations / (STATES.len() * versions.len()) as u64;
            let ran = history.run(&mut rng, of, state, &mut counts);
            ran.with_context(|| {
                format!("in state {at}, {state}; replay with HELENUS_SEED={seed}")
            })?;
        }
        if state == "encoded" {
            // All rows; in the second of these states they are moved back in the next.
            histories[0].move_all(&mut counts)?;
        }
    }
    println!("{counts:?}");
    ensure!(counts.rows > counts.selects, "most answers were empty");
    ensure!(
        counts.invalid < counts.selects / 4,
        "most statements were refused"
    );
    ensure!(counts.moved > 5, "hardly a row was moved");
    ensure!(counts.encoded > 5, "hardly a value was stored encoded");
    histories[0].told_of_the_schema()
}

fn learned_again(learned: &helenus_payload::Learned) -> Result<helenus_payload::Learned> {
    Ok(helenus_payload::Learned::from_bytes(&learned.to_bytes())?)
}

/// Has the columns in this state, after these changes.
fn put(node: &mut Session, first: &[Change<'_>], state: &str) {
    let columns = COLUMNS.map(|(column, hidden, codec)| Encoding {
        column: column.to_owned(),
        hidden: hidden.to_owned(),
        state: state.to_owned(),
        codec: codec.to_string(),
        dictionary: Some(1),
        ..Encoding::default()
    });
    let mut changes = first.to_vec();
    changes.extend(columns.iter().map(Change::PutEncoding));
    let run = |text: &str| node.client.query(text).expect(text);
    change(run, &TableKey::new("ks", "t"), &changes);
}

/// Changes the catalogue, and waits until the proxy knows.
fn put_state(node: &mut Session, proxy: &Proxy, state: &str) -> Result<()> {
    put(node, &[], state);
    let wanted = format!(
        "helenus_encoded_columns{{state=\"{state}\"}} {}",
        COLUMNS.len()
    );
    let began = Instant::now();
    loop {
        let (_, metrics) = proxy.admin_get("/metrics", None)?;
        if metrics.lines().any(|line| line == wanted) {
            // The other worker may hear of it a moment later.
            std::thread::sleep(Duration::from_millis(100));
            return Ok(());
        }
        ensure!(
            began.elapsed() < Duration::from_secs(30),
            "the proxy does not hear of state {state}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
