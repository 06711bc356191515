//! Reads with `IN` on the partition key: byte for byte as a node answers, wherever the keys are.

use std::net::SocketAddr;

use helenus_tests::kinds::can_mask;
use helenus_tests::proxy::Proxy;
use helenus_tests::raw::Client;

use crate::metric;
use crate::scans::{Ask, pages};

/// A value of type list.
fn list(values: &[Vec<u8>]) -> Vec<u8> {
    let mut out = (values.len() as u32).to_be_bytes().to_vec();
    for value in values {
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(value);
    }
    out
}

fn int(n: i32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// Keys that sort by version first, and those of version 1 by a time that is not in front.
fn uuids() -> Vec<Vec<u8>> {
    let uuid = |n: u128, version: u128| {
        let bits = n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        let bits = bits & !(0xF << 76) & !(0x3 << 62) | version << 76 | 0x2 << 62;
        bits.to_be_bytes().to_vec()
    };
    let versions = [1, 4, 1, 7];
    (0..40)
        .map(|n| uuid(n + 1, versions[n as usize % versions.len()]))
        .collect()
}

pub(crate) fn several_keys(node: SocketAddr, proxy: &Proxy) {
    let mut direct = Client::ready(node, 5).expect("direct");
    let mut through = Client::ready(proxy.address, 5).expect("through");
    for cql in [
        "CREATE TABLE s.u (k uuid PRIMARY KEY, v int)",
        "CREATE TABLE s.w (a int, b text, c int, v text, PRIMARY KEY ((a, b), c))",
    ] {
        through.query(cql).expect(cql);
    }
    let masked = "CREATE TABLE s.m (k int MASKED WITH mask_default() PRIMARY KEY, v int)";
    if can_mask() {
        through.query(masked).expect(masked);
    }
    for (v, key) in uuids().iter().enumerate() {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let cql = format!("INSERT INTO s.u (k, v) VALUES (blobAsUuid(0x{key}), {v})");
        through.query(&cql).expect(&cql);
    }
    let texts: Vec<Vec<u8>> = (0..30).map(|n| format!("b{}", n * 7 % 30).into()).collect();
    for text in &texts {
        let b = String::from_utf8_lossy(text);
        for c in 0..3 {
            let cql = format!("INSERT INTO s.w (a, b, c, v) VALUES (7, '{b}', {c}, '{c} of {b}')");
            through.query(&cql).expect(&cql);
        }
    }
    let keys: Vec<Vec<u8>> = (-3..40).map(|n| int(n * 29 % 83)).collect();
    let few = || keys[..9].to_vec();
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("SELECT * FROM s.t WHERE k IN ?", vec![list(&keys)]),
        (
            "SELECT * FROM s.t WHERE k IN ? LIMIT 500",
            vec![list(&keys)],
        ),
        (
            "SELECT v, k AS key FROM s.t WHERE k IN (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            few(),
        ),
        (
            "SELECT k, c FROM s.t WHERE k IN ? LIMIT ?",
            vec![list(&keys), int(5)],
        ),
        (
            "SELECT k, c FROM s.t WHERE k IN :keys PER PARTITION LIMIT 1 LIMIT 30",
            vec![list(&keys)],
        ),
        (
            "SELECT DISTINCT k, st FROM s.t WHERE k IN ?",
            vec![list(&keys)],
        ),
        (
            "SELECT k, v FROM s.t WHERE k IN ? AND c IN (1, 3)",
            vec![list(&keys)],
        ),
        (
            "SELECT k, c FROM s.t WHERE k IN ? AND c > ? AND v > '2' ALLOW FILTERING",
            vec![list(&keys), int(0)],
        ),
        ("SELECT * FROM s.u WHERE k IN ?", vec![list(&uuids())]),
        (
            "SELECT c, b, a, v FROM s.w WHERE a = ? AND b IN ?",
            vec![int(7), list(&texts)],
        ),
        (
            "SELECT * FROM s.w WHERE b IN (?, ?, ?, ?, ?, ?, ?) AND a = 7 AND c < 2",
            texts[..7].to_vec(),
        ),
    ];
    let split = || metric(proxy, "helenus_reads_by_owner_total");
    for (cql, values) in &cases {
        let before = split();
        same_pages(&mut direct, &mut through, cql, values);
        assert!(split() > before, "not split: {cql}");
    }
    // Reads that must go as they are: the order of the rows could not be known, or is another.
    let before = split();
    let mut as_they_are: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("SELECT v FROM s.t WHERE k IN ?", vec![list(&keys)]),
        ("SELECT JSON * FROM s.t WHERE k IN ?", vec![list(&keys)]),
        (
            "SELECT k, count(*) FROM s.t WHERE k IN ?",
            vec![list(&keys)],
        ),
        (
            "SELECT k, max(c) FROM s.t WHERE k IN ? GROUP BY k",
            vec![list(&keys)],
        ),
        ("SELECT k FROM s.t WHERE k IN ?", vec![list(&keys[..1])]),
        ("SELECT k FROM s.t WHERE k IN ?", vec![list(&[])]),
    ];
    if can_mask() {
        // Some roles are shown other keys than those by which the rows are in order.
        as_they_are.push(("SELECT k, v FROM s.m WHERE k IN ?", vec![list(&keys)]));
    }
    for (cql, values) in &as_they_are {
        same_pages(&mut direct, &mut through, cql, values);
    }
    assert_eq!(split(), before, "split");
    // More than a page: the node's own pages, now and from now on.
    let cql = "SELECT k, c, v FROM s.t WHERE k IN ?";
    let values = [list(&keys)];
    let prepared = direct.prepare(cql).expect(cql);
    through.prepare(cql).expect(cql);
    let ask = Ask::Prepared(&prepared, &values);
    for size in [7, 7, 5_000] {
        let expected = pages(&mut direct, &ask, Some(size));
        assert!(expected == pages(&mut through, &ask, Some(size)), "{size}");
    }
    assert_eq!(split(), before + 1.0, "learned");
    for bad in [
        vec![0, 0, 0, 9, 0, 0, 0, 4],
        vec![255, 255],
        list(&[vec![], vec![1]]),
    ] {
        let values = [bad];
        let ask = Ask::Prepared(&prepared, &values);
        let fault = |client: &mut Client<_>| {
            let body = crate::scans::paged(client, &ask, Some(5_000), None);
            let answer = client.call(ask.opcode(), &body).expect("an answer");
            answer.fault().expect("an error").message
        };
        let expected = fault(&mut direct);
        assert_eq!(fault(&mut through), expected);
    }
}

fn same_pages(
    direct: &mut Client<std::net::TcpStream>,
    through: &mut Client<std::net::TcpStream>,
    cql: &str,
    values: &[Vec<u8>],
) {
    let prepared = direct.prepare(cql).expect(cql);
    let again = through.prepare(cql).expect(cql);
    assert_eq!(prepared.id, again.id);
    let ask = Ask::Prepared(&prepared, values);
    for size in [None, Some(-1), Some(5_000), Some(60), Some(5)] {
        let expected = pages(direct, &ask, size);
        let got = pages(through, &ask, size);
        assert!(
            expected == got,
            "page size {size:?}: {cql}\n{expected:?}\n{got:?}"
        );
    }
}
