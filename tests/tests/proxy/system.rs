//! `system.local` and `system.peers` through a proxy: its own rows, in every other respect a node's
//! answers; and tables of the same names that are somebody's own.

use std::net::{SocketAddr, TcpStream};

use helenus_client::{BatchChild, Statement, ValueRef, request};
use helenus_cluster::Cluster;
use helenus_tests::proxy::{Options, Proxy, free_addresses};
use helenus_tests::raw::{Answer, Client, ONE, Prepared, op};
use helenus_wire::write;

/// On a cluster of three nodes: each has two peers, as the proxy here.
pub(crate) fn tables_that_show_the_proxies(cluster: &Cluster) {
    let points = cluster.contact_points();
    let proxy = Proxy::launch(&Options {
        contact_points: &points,
        settings: &[
            "listen.proxies=[\"127.9.8.2:9042\",\"127.9.8.3:9042\"]",
            "listen.proxies_check_ms=0",
        ],
        addresses: Some(free_addresses("127.9.8.1").expect("ports")),
        ..Options::default()
    });
    let mut proxy = proxy.expect("a proxy");
    proxy.wait_ready().expect("ready");
    for version in [3, 4, 5] {
        let mut sides = Sides {
            direct: Client::ready(points[0], version).expect("direct"),
            through: Client::ready(proxy.address, version).expect("through"),
        };
        pages_are_as_long_as_a_nodes(&mut sides);
        odd_requests_are_answered_as_by_a_node(&mut sides);
        paging_states_of_nobody_are_refused_as_by_a_node(&mut sides);
        requests_with_a_payload_are_for_a_node(&mut sides.through, &points);
        tables_of_ones_own_are_not_the_systems(&mut sides.through);
    }
}

struct Sides {
    direct: Client<TcpStream>,
    through: Client<TcpStream>,
}

/// A QUERY, or an EXECUTE if it is of something prepared.
#[derive(Clone, Copy, Default)]
struct Ask<'a> {
    text: &'a str,
    prepared: Option<&'a Prepared>,
    consistency: Option<u16>,
    values: Option<&'a [Option<&'a [u8]>]>,
    names: &'a [&'a str],
    skip_metadata: bool,
    size: Option<i32>,
    state: Option<&'a [u8]>,
    /// v5.
    keyspace: Option<&'a str>,
}

impl Ask<'_> {
    fn statement(&self) -> Statement<'_> {
        match self.prepared {
            None => Statement::Text(self.text),
            Some(prepared) => Statement::Prepared(prepared.ids()),
        }
    }

    fn body(&self, version: u8) -> Vec<u8> {
        let values = self.values.unwrap_or_default().iter();
        let values: Vec<_> = values
            .map(|value| value.map_or(ValueRef::Null, ValueRef::Set))
            .collect();
        let names: Vec<String> = self.names.iter().map(|name| (*name).to_owned()).collect();
        let options = helenus_client::Options {
            values: self.values.map(|_| &values[..]),
            names: &names,
            skip_metadata: self.skip_metadata,
            page_size: self.size,
            paging_state: self.state,
            keyspace: self.keyspace,
            ..helenus_client::Options::at(self.consistency.unwrap_or(ONE))
        };
        request(version, self.statement(), &options)
    }

    fn of(&self, client: &mut Client<TcpStream>) -> Answer {
        let opcode = self.statement().opcode() as u8;
        let body = self.body(client.version);
        client.call(opcode, &body).expect("an answer")
    }

    /// First cells of the rows.
    fn cells(&self, client: &mut Client<TcpStream>) -> Vec<Vec<u8>> {
        let answer = self.of(client).judged().expect("an answer");
        let answer = answer.unwrap_or_else(|e| panic!("{}: {e:?}", self.text));
        let rows = answer.rows().expect("rows").into_iter();
        rows.map(|mut row| row.remove(0).expect("a value"))
            .collect()
    }
}

/// Rows on each page, and whether they come with their columns.
fn pages(client: &mut Client<TcpStream>, ask: Ask<'_>) -> Vec<(usize, bool)> {
    let mut pages = Vec::new();
    let mut state: Option<Vec<u8>> = None;
    loop {
        let asked = Ask {
            state: state.as_deref(),
            ..ask
        };
        let answer = asked.of(client).judged().expect("an answer");
        let answer = answer.unwrap_or_else(|e| panic!("{}: {e:?}", ask.text));
        let (_, told) = answer.columns().expect("rows");
        pages.push((answer.rows().expect("rows").len(), told));
        state = answer.paging_state().expect("rows");
        if state.is_none() {
            return pages;
        }
        assert!(pages.len() < 10, "{}: it does not end", ask.text);
    }
}

fn pages_are_as_long_as_a_nodes(sides: &mut Sides) {
    for rest in ["", " LIMIT 1", " LIMIT 2", " LIMIT 3", " LIMIT 9"] {
        for table in ["system.local", "system.peers", "system.peers_v2"] {
            let text = format!("SELECT * FROM {table}{rest}");
            let (mut shapes, mut prepared_shapes) = (Vec::new(), Vec::new());
            for client in [&mut sides.direct, &mut sides.through] {
                let prepared = client.prepare(&text).expect("prepared");
                for size in [None, Some(-1), Some(1), Some(2), Some(3), Some(5000)] {
                    let ask = Ask {
                        text: &text,
                        size,
                        ..Ask::default()
                    };
                    shapes.push(pages(client, ask));
                    for skip_metadata in [false, true] {
                        let ask = Ask {
                            prepared: Some(&prepared),
                            skip_metadata,
                            ..ask
                        };
                        prepared_shapes.push(pages(client, ask));
                    }
                }
            }
            for shapes in [shapes, prepared_shapes] {
                let (direct, through) = shapes.split_at(shapes.len() / 2);
                assert_eq!(direct, through, "{text}");
            }
        }
    }
    // A client of v5 that knows other columns is told of these.
    for client in [&mut sides.direct, &mut sides.through] {
        let mut prepared = client
            .prepare("SELECT * FROM system.local")
            .expect("prepared");
        if let Some(id) = &mut prepared.result_id {
            let known = std::mem::replace(id, vec![0; 16]);
            let ask = Ask {
                prepared: Some(&prepared),
                skip_metadata: true,
                ..Ask::default()
            };
            let answer = ask.of(client);
            let (_, told) = answer.columns().expect("rows");
            assert!(told && answer.body.windows(16).any(|id| id == known));
        }
    }
    // With the first part of a key, and with all of it.
    let own = |client: &mut Client<TcpStream>, table: &str| {
        let text = format!("SELECT peer FROM system.{table}");
        let ask = Ask {
            text: &text,
            ..Ask::default()
        };
        let ip: [u8; 4] = ask.cells(client)[0].clone().try_into().expect("IPv4");
        std::net::Ipv4Addr::from(ip)
    };
    for (table, rest) in [
        ("peers", ""),
        ("peers_v2", ""),
        ("peers_v2", " AND peer_port = 7000"),
    ] {
        let shapes = [&mut sides.direct, &mut sides.through].map(|client| {
            let ip = own(client, table);
            let text = format!("SELECT rack FROM system.{table} WHERE peer = '{ip}'{rest}");
            let ask = Ask {
                text: &text,
                size: Some(1),
                ..Ask::default()
            };
            pages(client, ask)
        });
        assert_eq!(shapes[0], shapes[1], "{table}{rest}");
    }
}

/// A text, names and values.
type Bound<'a> = (&'a str, &'a [&'a str], &'a [Option<&'a [u8]>]);

fn odd_requests_are_answered_as_by_a_node(sides: &mut Sides) {
    let texts = [
        "SELECT key FROM system.local LIMIT 0",
        "SELECT key FROM system.local LIMIT -1",
        "SELECT key FROM system.local LIMIT 99999999999",
        "SELECT count(*) FROM system.local",
        "SELECT count(*) FROM system.local WHERE key = 'local'",
        "SELECT count(*) AS n FROM system.peers",
        "SELECT count(*) FROM system.local LIMIT 0",
        "SELECT count(*) FROM system.peers LIMIT 1",
        "SELECT key FROM system.local WHERE key = 'local' AND key = 'local'",
        "SELECT key FROM system.local WHERE key = 'other'",
        "SELECT key FROM system.local WHERE key = 1",
        "SELECT key FROM system.local WHERE key = ?",
        "SELECT key FROM system.local WHERE key = 'local' ALLOW FILTERING",
        "SELECT key, key AS k FROM system.local",
        "SELECT nothing FROM system.local",
        "SELECT JSON key, bootstrapped FROM system.local",
        "SELECT key FROM local",
        "SELECT peer FROM system.peers WHERE peer = 'x'",
        "SELECT peer FROM system.peers_v2 WHERE peer_port = 7000",
    ];
    for text in texts {
        alike(
            sides,
            Ask {
                text,
                ..Ask::default()
            },
            None,
        );
    }
    let (by_key, by_name) = (
        "SELECT key FROM system.local WHERE key = ?",
        "SELECT key FROM system.local WHERE key = :k",
    );
    let limited = "SELECT key FROM system.local LIMIT ?";
    let by_peer = "SELECT peer FROM system.peers WHERE peer = ?";
    let none: &[&str] = &[];
    let bound: [Bound<'_>; 18] = [
        ("SELECT key FROM system.local", none, &[Some(b"local")]),
        ("SELECT key FROM system.local", &["k"], &[Some(b"local")]),
        (by_key, none, &[Some(b"local")]),
        (by_key, none, &[Some(b"local"), Some(b"more")]),
        (by_key, &["key"], &[Some(b"local")]),
        (by_key, none, &[None]),
        (by_key, none, &[Some(b"")]),
        (by_key, none, &[Some(b"\xFF\xFE")]),
        (by_key, none, &[]),
        (by_name, none, &[Some(b"local")]),
        (by_name, &["k"], &[Some(b"local")]),
        (by_name, &["x", "k"], &[Some(b"x"), Some(b"local")]),
        (by_name, &["x"], &[Some(b"local")]),
        (limited, none, &[Some(&[0, 0, 0, 1])]),
        (limited, none, &[Some(&[0; 4])]),
        (limited, none, &[Some(&[0, 1])]),
        (limited, none, &[None]),
        (by_peer, none, &[Some(b"abc")]),
    ];
    for (text, names, values) in bound {
        let ask = Ask {
            text,
            names,
            values: Some(values),
            ..Ask::default()
        };
        alike(sides, ask, None);
        alike(sides, ask, Some(text));
    }
    for consistency in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 99] {
        let ask = Ask {
            text: "SELECT key FROM system.local",
            consistency: Some(consistency),
            ..Ask::default()
        };
        alike(sides, ask, None);
    }
    let ask = Ask {
        text: "SELECT peer FROM system.peers",
        size: Some(0),
        ..Ask::default()
    };
    alike(sides, ask, None);
}

/// Checks that both sides answer with equal bytes.
fn alike(sides: &mut Sides, ask: Ask<'_>, prepare: Option<&str>) {
    let [direct, through] = [&mut sides.direct, &mut sides.through].map(|client| {
        let prepared = prepare.map(|text| client.prepare(text).expect("prepared"));
        let ask = Ask {
            prepared: prepared.as_ref(),
            ..ask
        };
        let answer = ask.of(client);
        (answer.opcode, answer.flags, answer.body)
    });
    let version = sides.direct.version;
    assert!(
        direct == through,
        "v{version}, {}: {direct:?} from the node, {through:?} through the proxy",
        ask.text
    );
}

fn paging_states_of_nobody_are_refused_as_by_a_node(sides: &mut Sides) {
    let first = Ask {
        text: "SELECT peer FROM system.peers",
        size: Some(1),
        ..Ask::default()
    };
    let state = first
        .of(&mut sides.through)
        .paging_state()
        .expect("rows")
        .expect("more pages");
    assert!(state.len() <= 13, "{} bytes", state.len());
    let mut forged: Vec<Vec<u8>> = (0..state.len()).map(|len| state[..len].to_vec()).collect();
    forged.extend([b"x".repeat(3), vec![0xFF; 10], [&state[..], b"x"].concat()]);
    for at in 0..3 {
        let mut changed = state.clone();
        changed[at] ^= 0xFF;
        forged.push(changed);
    }
    for state in &forged {
        let ask = Ask {
            state: Some(state),
            ..first
        };
        alike(sides, ask, None);
        let local = Ask {
            text: "SELECT key FROM system.local",
            ..ask
        };
        alike(sides, local, None);
    }
    // That of one table is none of the other.
    let other = Ask {
        text: "SELECT peer FROM system.peers_v2",
        state: Some(&state),
        ..first
    };
    let fault = other.of(&mut sides.through).fault().expect("an error");
    assert_eq!(fault.code, 0x000A, "{fault:?}");
}

fn requests_with_a_payload_are_for_a_node(through: &mut Client<TcpStream>, nodes: &[SocketAddr]) {
    let ask = Ask {
        text: "SELECT rpc_address FROM system.local",
        ..Ask::default()
    };
    let own = ask.cells(through);
    assert_eq!(own, [[127, 9, 8, 1]]);
    if through.version < 4 {
        return;
    }
    let mut body = vec![0, 1];
    write::string(&mut body, "name");
    write::bytes(&mut body, Some(b"value"));
    body.extend(ask.body(through.version));
    let answer = through
        .call_flagged(op::QUERY, 0x04, &body)
        .expect("an answer");
    let rows = answer.judged().expect("judged").expect("no error").rows();
    let ip = rows.expect("rows")[0][0].clone().expect("an address");
    let ip = <[u8; 4]>::try_from(ip).expect("IPv4");
    assert!(
        nodes
            .iter()
            .any(|node| node.ip() == std::net::IpAddr::from(ip)),
        "{ip:?}"
    );
}

fn tables_of_ones_own_are_not_the_systems(through: &mut Client<TcpStream>) {
    let version = through.version;
    for cql in [
        "CREATE KEYSPACE IF NOT EXISTS u WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS u.local (key text PRIMARY KEY, v int)",
        "INSERT INTO u.local (key) VALUES ('mine')",
    ] {
        through.query(cql).expect(cql);
    }
    let [mine, systems] = [[b"mine".to_vec()], [b"local".to_vec()]];
    let ask = Ask {
        text: "SELECT key FROM local",
        ..Ask::default()
    };
    let fault = ask.of(through).fault().expect("no keyspace is in force");
    assert_eq!(fault.code, 0x2200, "{fault:?}");
    through.query("USE u").expect("USE");
    let of_u = through.prepare(ask.text).expect("prepared");
    assert_eq!(ask.cells(through), mine);
    through.query("USE system").expect("USE");
    let of_system = through.prepare(ask.text).expect("prepared");
    assert_eq!(ask.cells(through), systems);
    let shown = Ask {
        text: "SELECT rpc_address FROM local",
        ..ask
    };
    assert_eq!(shown.cells(through), [[127, 9, 8, 1]], "the proxy's own");
    // A prepared statement stays with the keyspace that was in force then.
    for keyspace in ["u", "system", "u"] {
        through.query(&format!("USE {keyspace}")).expect("USE");
        for (prepared, wanted) in [(&of_u, &mine), (&of_system, &systems)] {
            let ask = Ask {
                prepared: Some(prepared),
                ..ask
            };
            assert_eq!(&ask.cells(through), wanted, "v{version} in {keyspace}");
        }
        if version < 5 {
            continue;
        }
        for (own, wanted) in [("u", &mine), ("system", &systems)] {
            let asked = Ask {
                keyspace: Some(own),
                ..ask
            };
            assert_eq!(&asked.cells(through), wanted, "{own} in {keyspace}");
            let prepared = through.prepare_in(ask.text, Some(own)).expect("prepared");
            let asked = Ask {
                prepared: Some(&prepared),
                ..ask
            };
            assert_eq!(&asked.cells(through), wanted, "{own} in {keyspace}");
        }
    }
    // A batch writes to the keyspace in force, or to its own.
    let batch = |client: &mut Client<TcpStream>, keyspace: Option<&str>, v: u8| {
        let text = format!("INSERT INTO local (key, v) VALUES ('mine', {v})");
        let insert = BatchChild {
            statement: Statement::Text(&text),
            values: &[],
        };
        let options = helenus_client::Options {
            keyspace,
            ..helenus_client::Options::at(ONE)
        };
        let answer = client.batch(0, &[insert], &options).expect("an answer");
        answer.expect("written");
        let read = Ask {
            text: "SELECT v FROM u.local",
            ..Ask::default()
        };
        assert_eq!(read.cells(client), [[0, 0, 0, v]]);
    };
    batch(through, None, version);
    if version >= 5 {
        through.query("USE system").expect("USE");
        batch(through, Some("u"), version + 1);
    }
}
