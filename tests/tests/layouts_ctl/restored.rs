//! A table with a derived layout that is restored from a snapshot, as the runbook says.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use helenus_tests::proxy::Proxy;
use helenus_tests::raw::Client;

use crate::sweep::{COLUMNS, Ends, ON, PATIENCE, assert_equal, make, read};
use crate::{Node, eventually};

const TABLE: &str = "snapped.t";
const COPY: &str = "snapped__layouts.t__layout_x";

/// The folder of the table's files.
fn folder(node: &Node) -> PathBuf {
    let folders = fs::read_dir(node.turn.data_dir(1).join("snapped")).expect("a folder");
    let mut paths = folders.map(|entry| entry.expect("an entry").path());
    let path = paths.find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("t-"))
    });
    path.expect("the table's")
}

/// The names of data files.
fn data_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names
        .filter(|name| name.ends_with(".db") || name.ends_with(".txt") || name.ends_with(".crc32"))
        .collect()
}

/// The table is emptied, and gets the files of the snapshot.
fn restore(node: &mut Node, snapshot: &Path) {
    node.run(&format!("TRUNCATE {TABLE}"));
    let folder = folder(node);
    // Those that come may have the names of those that go.
    eventually("the table's files are gone", PATIENCE, || {
        data_files(&folder).is_empty()
    });
    for name in data_files(snapshot) {
        fs::copy(snapshot.join(&name), folder.join(&name)).expect("copied");
    }
    node.turn
        .nodetool(1, &["refresh", "snapped", "t"])
        .expect("refreshed");
}

#[test]
fn a_restored_table_and_its_derived_layout_are_equal_once_that_was_distrusted_and_rebuilt() {
    let mut node = Node::take();
    make(&mut node, "snapped", 6);
    let proxy = Proxy::start(&[node.address], &ON).expect("a proxy");
    let mut client = Client::ready(proxy.address, 5).expect("a client");
    eventually("the layout is read", PATIENCE, || {
        read(&proxy, &mut client, "snapped", 1) == (10, true)
    });
    let before = node.rows(TABLE, COLUMNS);
    let snapshot = node
        .turn
        .nodetool(1, &["snapshot", "--tag", "before", "snapped"]);
    snapshot.expect("a snapshot");
    let snapshot = folder(&node).join("snapshots").join("before");
    // Times of the past and of the future of what was there, with and without a trace in the layout.
    for cql in [
        "DELETE FROM snapped.t WHERE k = 0",
        "DELETE FROM snapped.t WHERE k = 1 AND a = 2 AND b = 3",
        "DELETE FROM snapped.t WHERE k = 2 AND a >= 5",
        "UPDATE snapped.t SET v = 77 WHERE k = 3 AND a = 3 AND b = 3",
        "INSERT INTO snapped.t (k, a, b, v) VALUES (3, 30, 3, 30) USING TTL 100000",
        "INSERT INTO snapped.t (k, a, b, v) VALUES (4, 40, 3, 40) USING TIMESTAMP 5",
        "INSERT INTO snapped.t (k, a, b, v) VALUES (7, 1, 3, 1)",
    ] {
        client.query(cql).expect(cql);
    }
    node.layouts(&["distrust", TABLE]).succeeded();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // It goes on through all that follows.
        let writer = scope.spawn(|| {
            let mut client = Client::ready(proxy.address, 4).expect("a client");
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let key = format!("k = 8 AND a = {} AND b = 3", count % 20);
                let cql = match count % 7 {
                    6 => format!("DELETE FROM {TABLE} WHERE {key}"),
                    _ => format!("UPDATE {TABLE} SET v = {count} WHERE {key}"),
                };
                client.query(&cql).expect(&cql);
                count += 1;
                thread::sleep(Duration::from_millis(20));
            }
            count
        });
        let ends = Ends(&stop);
        restore(&mut node, &snapshot);
        let own = node.rows(TABLE, COLUMNS);
        assert!(before.iter().all(|row| own.contains(row)), "{own:?}");
        assert_ne!(node.rows(COPY, COLUMNS), own);
        for k in 0..6 {
            assert_eq!(read(&proxy, &mut client, "snapped", k), (10, false));
        }
        node.layouts(&["rebuild", TABLE]).succeeded();
        drop(ends);
        assert!(writer.join().expect("no write fails") > 100);
    });
    assert_equal(&mut node, "snapped");
    // One of the partitions had been in doubt since before.
    node.layouts(&["sweep", TABLE, "--once"]).succeeded();
    assert_equal(&mut node, "snapped");
    for k in 0..6 {
        eventually("the layout is read again", PATIENCE, || {
            read(&proxy, &mut client, "snapped", k) == (10, true)
        });
    }
    fs::remove_dir_all(snapshot).expect("removed");
}
