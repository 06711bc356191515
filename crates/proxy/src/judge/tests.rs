use std::net::SocketAddr;

use helenus_policy::ring::NodeIndex;
use helenus_wire::{Version, write};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::Config;
use helenus_engine::SessionKey;

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
            session: SessionKey::default(),
            stream: 0,
            token: Vec::new(),
            asked,
            peer: SocketAddr::from(([127, 0, 0, 1], 9)),
            deadline: Instant::now(),
            version: Version::V4,
            nodes: (0..).map(NodeIndex).zip(addresses).collect(),
        };
        let judge = Judge {
            limits: LoginLimits {
                total: 1,
                per_address: 1,
            },
            logins: Arc::default(),
            dialer: Dialer {
                connect_timeout: Duration::from_millis(500),
                ..Dialer::new(&config).expect("a dialer")
            },
        };
        let mut met = Met::default();
        judge.greet(&login, &mut met).await.expect("the third");
        let failed: Vec<u16> = met.failed.iter().map(|(node, _)| node.0).collect();
        assert_eq!((failed, met.answered), (vec![0, 1], Some(NodeIndex(2))));
    });
}
