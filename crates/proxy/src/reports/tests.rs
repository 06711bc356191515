use std::future::Future;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::Secret;

const HOST: [u8; 16] = [3; 16];
const SECRET: &str = "a secret of some length";

fn block_on<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(what)
}

/// Something that a proxy may find where it expects an agent's reporter.
async fn connected<F: Future<Output = ()> + Send + 'static>(
    secret: Option<&str>,
    reporter: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> Result<Peer, ReportError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let target = Target {
        address: listener.local_addr().expect("its address"),
        host_id: HOST,
        secret: secret.map(|secret| Secret::from(secret.to_owned())),
        connect_timeout: Duration::from_secs(1),
    };
    tokio::spawn(async move {
        if let Ok((stream, _)) = listener.accept().await {
            reporter(stream).await;
        }
    });
    Peer::connect(&target).await
}

fn greeting(has_secret: bool) -> Vec<u8> {
    [b"HRPT", &[1, u8::from(has_secret), 0, 200][..], &[5; 32]].concat()
}

#[test]
fn whatever_answers_in_place_of_a_reporter_is_told_apart() {
    let error = |secret, bytes: Vec<u8>| {
        let failed = block_on(connected(secret, |mut stream| async move {
            let _ = stream.write_all(&bytes).await;
            // Then it hangs up, whatever it is told.
            if bytes.len() >= 40 {
                let _ = stream.read(&mut [0; 200]).await;
            }
        }));
        failed.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let html = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
    assert!(error(None, html).contains("not the reporter of an agent"));
    assert!(error(None, vec![1, 2, 3]).contains("has ended"));
    assert!(error(None, greeting(true)).contains("wants a secret"));
    assert!(error(Some(SECRET), greeting(false)).contains("has no secret"));
    assert!(error(Some(SECRET), greeting(true)).contains("refuses the secret"));
    let with_proof = [greeting(true), vec![0; 32]].concat();
    assert!(error(Some(SECRET), with_proof).contains("does not know the secret"));
}

#[test]
fn without_a_secret_only_loopback_is_asked() {
    let target = Target {
        address: "192.0.2.1:9181".parse().expect("an address"),
        host_id: HOST,
        secret: None,
        connect_timeout: Duration::from_secs(1),
    };
    let failed = block_on(Peer::connect(&target));
    assert!(matches!(failed, Err(ReportError::NotLoopback)));
}

/// A true agent's part, which then sends these reports: sequence, host and share of CPU.
async fn agent(mut stream: TcpStream, secret: Option<&str>, reports: Vec<(u64, u8, u16)>) {
    let _ = stream.write_all(&greeting(secret.is_some())).await;
    let mut answer = [0; wire::ANSWER];
    stream.read_exact(&mut answer).await.expect("an answer");
    let proxy = answer[8..40].try_into().expect("a nonce");
    let keys = wire::Keys::new(secret.map(str::as_bytes), [5; 32], proxy);
    assert_eq!(answer, keys.answer());
    stream.write_all(&keys.acceptance()).await.expect("sent");
    for (sequence, host, cpu) in reports {
        let report = wire::tests::report_of(&keys.session(), sequence, [host; 16], cpu);
        let _ = stream.write_all(&report).await;
    }
    let _ = stream.read(&mut [0; 1]).await;
}

#[test]
fn reports_are_judged_one_by_one() {
    for secret in [None, Some(SECRET)] {
        block_on(async {
            let sent = vec![
                (1, 3, 5_000),
                (2, 9, 1),
                (3, 3, 20_000),
                (4, 3, 100),
                (4, 3, 1),
            ];
            let peer = connected(secret, move |stream| agent(stream, secret, sent));
            let mut peer = peer.await.expect("connected");
            let mut next = async || peer.next().await.map(|r| r.map(|r| r.resources.cpu));
            assert_eq!(next().await.expect("a report"), Ok(Some(0.5)));
            assert_eq!(next().await.expect("a report"), Err(Rejected::Identity));
            assert_eq!(next().await.expect("a report"), Err(Rejected::Range));
            assert_eq!(next().await.expect("a report"), Ok(Some(0.01)));
            let ended = next().await.expect_err("the same sequence again");
            assert!(matches!(ended, ReportError::Rejected(Rejected::Sequence)));
        });
    }
}

#[test]
fn many_late_reports_in_a_row_end_the_connection() {
    block_on(async {
        let sender = |mut stream: TcpStream| async move {
            let _ = stream.write_all(&greeting(false)).await;
            let mut answer = [0; wire::ANSWER];
            stream.read_exact(&mut answer).await.expect("an answer");
            let proxy = answer[8..40].try_into().expect("a nonce");
            let keys = wire::Keys::new(None, [5; 32], proxy);
            stream.write_all(&keys.acceptance()).await.expect("sent");
            for sequence in 1..=20 {
                let key = keys.session();
                let report = match sequence {
                    5 => wire::tests::late_report_of(&key, sequence, [9; 16]),
                    _ => wire::tests::late_report_of(&key, sequence, HOST),
                };
                let _ = stream.write_all(&report).await;
            }
            let _ = stream.read(&mut [0; 1]).await;
        };
        let mut peer = connected(None, sender).await.expect("connected");
        for sequence in 1..15 {
            let taken = peer.next().await.expect("still connected");
            let why = match sequence {
                5 => Rejected::Identity,
                _ => Rejected::Late,
            };
            assert_eq!(taken.err(), Some(why), "report {sequence}");
        }
        let ended = peer.next().await.expect_err("ten in a row");
        assert!(matches!(ended, ReportError::Rejected(Rejected::Late)));
    });
}

#[test]
fn a_node_whose_reporter_stops_keeps_its_last_report_which_ages() {
    block_on(async {
        let reports = NodeReports::default();
        let agent = |stream| agent(stream, None, vec![(1, 3, 5_000), (2, 3, 6_000)]);
        let peer = connected(None, agent).await.expect("connected");
        let (error, is_good) = tokio::time::timeout(Duration::from_millis(300), async {
            receive(peer, &reports).await
        })
        .await
        .unwrap_or((ReportError::NoRandomNumbers, true));
        assert!(is_good, "{error}");
        let latest = reports.latest().expect("a report");
        assert_eq!(latest.resources.cpu, Some(0.6));
        assert!(latest.sampled.elapsed() >= Duration::from_millis(200));
        assert_eq!(reports.received.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn an_agent_that_floods_is_left_and_tried_again_later() {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let target = Target {
            address: listener.local_addr().expect("its address"),
            host_id: HOST,
            secret: None,
            connect_timeout: Duration::from_secs(1),
        };
        let (sender, mut accepted) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = sender.send(Instant::now());
                let sent = (1..=5_000).map(|sequence| (sequence, 3, 5_000)).collect();
                // Ends when the proxy hangs up.
                agent(stream, None, sent).await;
            }
        });
        let reports = Arc::new(NodeReports::default());
        let collecting = tokio::spawn(collect(target, reports.clone()));
        let mut next = async || {
            let next = tokio::time::timeout(Duration::from_secs(30), accepted.recv());
            next.await.expect("within time").expect("a connection")
        };
        let (first, second) = (next().await, next().await);
        collecting.abort();
        let received = reports.received.load(Ordering::Relaxed);
        assert!((200..1_000).contains(&received), "{received} were taken");
        assert!(reports.rejected(Rejected::Rate) >= 1);
        let latest = reports.latest().expect("a report");
        assert_eq!(latest.resources.cpu, Some(0.5), "those before are as good");
        let again = second.duration_since(first);
        assert!(again >= PAUSE_MIN, "connected again after {again:?}");
        let error = ReportError::TooMany.to_string();
        assert!(error.contains("more than 40 reports a second"), "{error}");
    });
}
