use std::cell::RefCell;
use std::rc::Rc;

use helenus_policy::route::{Locality, NodeTable};
use helenus_wire::write;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::config::Config;
use crate::server;
use crate::shared::{Common, Shared};
use crate::snapshot::{Node, Snapshot};

/// A worker without links, before this many nodes.
fn worker(nodes: u8) -> Rc<RefCell<State>> {
    let config = Config::default();
    let dialer = server::dialer(&config).expect("a dialer");
    let (control, _) = mpsc::channel(1);
    let (recalls, _) = mpsc::channel(1);
    let (changes, _) = mpsc::channel(1);
    let common = Common::new(config, dialer, None, control, recalls, changes);
    let node = |number| Node {
        address: SocketAddr::from(([10, 0, 0, number], 9042)),
        host_id: [number; 16],
        dc: String::new(),
        rack: String::new(),
        release_version: String::new(),
        processors: None,
        timeouts: None,
        gone: false,
    };
    common.publish(Snapshot {
        epoch: 1,
        nodes: (0..nodes).map(node).collect(),
        places: NodeTable::from_localities((0..nodes).map(|_| Locality::LocalDc)),
        ..Snapshot::unknown()
    });
    State::new(Arc::new(Shared::new(Arc::new(common))), 0, 1, 1)
}

#[test]
fn nodes_that_logins_could_not_reach_are_tried_last_until_they_answer() {
    let worker = worker(5);
    let mut state = worker.borrow_mut();
    let first = |state: &mut State| state.nodes_for_login()[0].0.0;
    let firsts = |state: &mut State| {
        let mut firsts: Vec<u16> = (0..20).map(|_| first(state)).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    };
    assert_eq!(firsts(&mut state), [0, 1, 2, 3, 4]);
    let failed = |nodes: &[u16]| Met {
        failed: nodes
            .iter()
            .map(|node| (NodeIndex(*node), "refused".to_owned()))
            .collect(),
        answered: None,
    };
    // Ten at a time, before the next try is due.
    for _ in 0..10 {
        state.note_met(&failed(&[0, 1, 2]));
    }
    assert_eq!(state.nodes[0].failures, 1);
    assert_eq!(firsts(&mut state), [3, 4]);
    state.note_met(&failed(&[3, 4]));
    // All the same: nothing better is known.
    assert_eq!(firsts(&mut state), [0, 1, 2, 3, 4]);
    state.nodes[1].suspect_until = Some(state.now + Duration::from_secs(60));
    state.note_met(&Met {
        failed: Vec::new(),
        answered: Some(NodeIndex(1)),
    });
    assert_eq!(firsts(&mut state), [1]);
}

#[test]
fn a_login_tells_which_nodes_could_not_be_reached_and_which_answered() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut asked = Vec::new();
    write::string(
        &mut asked,
        "org.apache.cassandra.auth.PasswordAuthenticator",
    );
    runtime.block_on(async {
        let bind = || async { TcpListener::bind(("127.0.0.1", 0)).await.expect("bound") };
        let (silent, hangs_up, asks) = (bind().await, bind().await, bind().await);
        let address = |listener: &TcpListener| listener.local_addr().expect("an address");
        let addresses = [&silent, &hangs_up, &asks].map(address);
        drop(hangs_up);
        let authenticate = asked.clone();
        tokio::spawn(async move {
            let (mut client, _) = asks.accept().await.expect("a client");
            let mut startup = vec![0; 4096];
            let read = client.read(&mut startup).await.expect("STARTUP");
            assert!(read > 9);
            let mut answer = vec![0x84, 0, startup[2], startup[3], Opcode::Authenticate as u8];
            answer.extend((authenticate.len() as u32).to_be_bytes());
            answer.extend(authenticate);
            client.write_all(&answer).await.expect("sent");
        });
        let config = Config::default();
        let login = Login {
            token: Vec::new(),
            asked,
            peer: IpAddr::from([127, 0, 0, 1]),
            limits: LoginLimits {
                total: 1,
                per_address: 1,
            },
            logins: Arc::default(),
            deadline: Instant::now(),
            dialer: Dialer {
                connect_timeout: Duration::from_millis(500),
                ..server::dialer(&config).expect("a dialer")
            },
            version: Version::V4,
            nodes: (0..).map(NodeIndex).zip(addresses).collect(),
        };
        let mut met = Met::default();
        login.greet(&mut met).await.expect("the third");
        let failed: Vec<u16> = met.failed.iter().map(|(node, _)| node.0).collect();
        assert_eq!((failed, met.answered), (vec![0, 1], Some(NodeIndex(2))));
    });
}
