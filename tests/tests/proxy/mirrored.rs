//! Reads of a proxy's clients, sent to a second cluster as well.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use helenus_cluster::Cluster;
use helenus_tests::proxy::{Proxy, helenus};
use helenus_tests::raw::{Client, ONE};
use helenus_tests::{kinds, pool};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::node::shared;
use crate::{directly, eventually, turn};

const KEYS: i32 = 100;
/// From this key on the second cluster has other values, and none of the last key.
const DIFFERENT: i32 = 90;
const READ: &str = "SELECT v FROM mirrored.t WHERE k = ?";
const PATIENCE: Duration = Duration::from_secs(60);
const BEGUN: &str = "an operator records what clients ask";

/// `helenus mirror` under way. It is killed with this value.
struct Mirroring {
    child: Child,
    said: PathBuf,
    json: PathBuf,
}

impl Mirroring {
    /// Begins it and waits until the proxy has begun to record.
    fn begin(proxy: &Proxy, folder: &Path, options: &[&str]) -> Mirroring {
        let begun = || proxy.log().matches(BEGUN).count();
        let before = begun();
        let [said, json] = ["said", "json"].map(|name| folder.join(format!("{name}-{before}")));
        let socket = folder.join("admin.sock");
        let [socket, result] = [&socket, &json].map(|path| path.to_str().expect("a path"));
        // Nothing is to be dropped on a busy machine.
        let common = [
            "mirror",
            "--socket",
            socket,
            "--json",
            result,
            "--lag-max",
            "10m",
        ];
        let mut command = helenus(&[&common[..], options].concat()).expect("a command");
        let output = File::create(&said).expect("created");
        let child = command.stdout(Stdio::null()).stderr(output).spawn();
        let mirroring = Mirroring {
            child: child.expect("started"),
            said,
            json,
        };
        eventually("the proxy records", PATIENCE, || begun() > before);
        mirroring
    }

    /// The last line of progress.
    fn line(&self) -> String {
        let said = std::fs::read_to_string(&self.said).expect("readable");
        said.lines().last().unwrap_or_default().to_owned()
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> Value {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a pid"), Signal::INT).expect("signalled");
        let status = self.child.wait().expect("ended");
        assert!(status.success(), "{status}: {}", self.line());
        let json = std::fs::read(&self.json).expect("a result");
        serde_json::from_slice(&json).expect("JSON")
    }
}

impl Drop for Mirroring {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A keyspace with rows, as they are in the first or the second cluster.
fn fill(cluster: &Cluster, is_second: bool) {
    let mut node = cluster.connect(1).expect("node");
    directly(
        &mut node,
        &[
            "DROP KEYSPACE IF EXISTS mirrored",
            "CREATE KEYSPACE mirrored WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE mirrored.t (k int PRIMARY KEY, v text)",
        ],
    );
    for k in 0..KEYS {
        let v = match is_second && k >= DIFFERENT {
            true if k == KEYS - 1 => continue,
            true => format!("another {k}"),
            false => format!("value {k}"),
        };
        let insert = format!("INSERT INTO mirrored.t (k, v) VALUES ({k}, '{v}')");
        directly(&mut node, &[&insert]);
    }
}

/// Reads all rows, how many times: in both versions of the protocol, and as drivers do it, without descriptions of columns.
fn read_all(proxy: &Proxy) -> i32 {
    let readers = [(4, false), (5, false), (4, true), (5, true)];
    for (version, skips) in readers {
        let mut client = Client::ready(proxy.address, version).expect("client");
        let prepared = client.prepare(READ).expect("prepared");
        for k in 0..KEYS {
            let key = k.to_be_bytes();
            let answer = match skips {
                true => client.execute_known(&prepared, &[&key]),
                false => client.execute(&prepared, &[&key], ONE),
            };
            answer.expect("answer").expect("rows");
        }
    }
    readers.len() as i32
}

/// Reads of which the result says what became of them.
fn accounted(result: &Value) -> i64 {
    let counters = ["played", "dropped", "lost", "unfinished"];
    let counted: i64 = counters.iter().filter_map(|of| result[of].as_i64()).sum();
    let left_out = result["not_played"].as_object().expect("an object").iter();
    let left_out = left_out.filter(|(why, _)| !why.starts_with("preparations"));
    let left_out: i64 = left_out.filter_map(|(_, count)| count.as_i64()).sum();
    counted + left_out
}

fn mirrored<'a>(result: &'a Value, what: &str) -> &'a Value {
    assert_eq!(result["groups"][0]["name"], "all", "{result:#}");
    &result["groups"][0][what]
}

#[test]
fn a_second_cluster_gets_reads_differs_dies_and_comes_back() {
    let _turn = turn("mirrored", Duration::from_secs(420));
    let mut first = shared();
    let mut second = pool::take(kinds::impatient()).expect("a node");
    fill(first.cluster(), false);
    fill(&second, true);
    let folder = tempfile::tempdir().expect("a folder");
    let points = first.cluster().contact_points();
    let socket = folder.path().join("admin.sock");
    let settings = [
        &format!("admin.socket='{}'", socket.display()),
        "admin.show_keys=true",
    ];
    let proxy = Proxy::start_patient(&points, &settings).expect("proxy");
    // Requests to the proxy itself are not recorded: it would never end.
    let to_first = format!("first={}", proxy.address);
    let to_second = format!("second={}", second.contact_points()[0]);

    // Both clusters, row for row.
    let options = ["--endpoint", &to_first, "--endpoint", &to_second];
    let mirroring = Mirroring::begin(&proxy, folder.path(), &options);
    let times = read_all(&proxy);
    let different = (KEYS - DIFFERENT) * times;
    eventually("all differences", PATIENCE, || {
        mirroring
            .line()
            .ends_with(&format!("{different} differences"))
    });
    let result = mirroring.end();
    assert_eq!(mirrored(&result, "different"), different, "{result:#}");
    let same = mirrored(&result, "same").as_i64();
    let all = i64::from(KEYS * times);
    let most = all - i64::from(different);
    assert!(same > Some(300) && same <= Some(most), "{result:#}");
    assert_eq!(accounted(&result), all, "{result:#}");
    assert_eq!(
        (&result["dropped"], &result["lost"]),
        (&0.into(), &0.into())
    );

    // The second, encrypted, by what clients of the first got.
    let files = second.tls_files().expect("certificates");
    let ca = files.ca_pem.to_str().expect("a path");
    let options = ["--endpoint", &to_second, "--tls-ca", ca];
    let mirroring = Mirroring::begin(&proxy, folder.path(), &options);
    read_all(&proxy);
    eventually("all differences", PATIENCE, || {
        mirroring
            .line()
            .ends_with(&format!("{different} differences"))
    });
    let mut client = Client::ready(proxy.address, 5).expect("client");
    let prepared = client.prepare(READ).expect("prepared");
    let mut read = || {
        let answer = client.execute(&prepared, &[&1_i32.to_be_bytes()], ONE);
        answer.expect("answer").expect("a row");
    };
    // It is not there for a while, and the clients do not notice.
    second.kill(1).expect("killed");
    eventually("errors of the second", PATIENCE, || {
        read();
        mirroring.line().contains("errors)")
    });
    second.start(1).expect("started");
    eventually("answers of the second", PATIENCE, || {
        read();
        let line = mirroring.line();
        !line.contains("errors)") && !line.contains("second p50 –")
    });
    // Writes are no business of it.
    let write = "INSERT INTO mirrored.t (k, v) VALUES (1, 'written')";
    client.query(write).expect("written");
    let result = mirroring.end();
    assert_eq!(mirrored(&result, "different"), different, "{result:#}");
    let of = mirrored(&result, "of");
    assert_eq!(of[0]["errors"], serde_json::json!({}), "{result:#}");
    let errors = of[1]["errors"].as_object().expect("an object");
    let errors: u64 = errors.values().filter_map(Value::as_u64).sum();
    assert!(errors > 0, "{result:#}");
    assert_eq!(mirrored(&result, "failed"), errors, "{result:#}");
    assert!(result["broken_off"].is_null(), "{result:#}");
    let mut node = second.connect(1).expect("node");
    let rows = node.query(
        "SELECT v FROM mirrored.t WHERE k = 1",
        helenus_cluster::Consistency::One,
    );
    let rows = rows.expect("rows");
    assert!(
        format!("{rows:?}").contains(&format!("{:?}", b"value 1")),
        "{rows:?}"
    );
}
