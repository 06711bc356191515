use std::collections::VecDeque;
use std::future::poll_fn;

use helenus_wire::{Compression, Decoder, Encoder, Flow, Header, MAX_RESPONSE_BODY};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;

use super::*;

/// Random numbers from a seed; a failing test prints it.
struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    /// From 1 byte to 1 MiB, with all orders of magnitude equally likely.
    fn size(&mut self) -> usize {
        let power = self.below(21);
        (1 << power) + self.below(1 << power) as usize / 2
    }
}

impl Drop for Dice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with HELENUS_SEED={}", self.seed);
        }
    }
}

/// Runs `check` for a few seeds, or only for `HELENUS_SEED`.
fn with_dice(check: impl Fn(Dice)) {
    let only = std::env::var("HELENUS_SEED")
        .ok()
        .map(|text| text.parse().expect("HELENUS_SEED is a number"));
    for seed in only.map_or(0..4, |seed: u64| seed..seed + 1) {
        check(Dice { seed, state: seed });
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, future).await.expect("in time") })
}

fn tls() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    (one.expect("connected"), other.expect("accepted").0)
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Tls,
}

/// Client's and server's end.
async fn pair(kind: Kind) -> (Transport, Transport) {
    let (one, other) = sockets().await;
    match kind {
        Kind::Plain => (Transport::Plain(one), Transport::Plain(other)),
        Kind::Tls => {
            let (server, client) = tls();
            let (one, other) = tokio::join!(
                Transport::connect(one, client, localhost()),
                Transport::accept(other, server)
            );
            (one.expect("connected"), other.expect("accepted"))
        }
    }
}

/// The bytes of a message: no two messages, and no two shifts of one, are equal.
fn body(number: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at ^ at >> 8 ^ at >> 16 ^ (number * 31)) as u8;
    (0..len).map(byte).collect()
}

/// One end: what it still has to send, and how much of the other end's data it has read.
struct End {
    transport: Transport,
    encoder: Encoder,
    /// The socket has not accepted all bytes.
    blocked: bool,
    decoder: Decoder,
    sends: VecDeque<(usize, usize)>,
    expects: VecDeque<(usize, usize)>,
}

impl End {
    fn new(transport: Transport, sends: &[usize], expects: &[usize], framed: bool) -> End {
        let mut encoder = Encoder::new();
        let mut decoder = Decoder::new(MAX_RESPONSE_BODY);
        encoder.set_mode(framed, Compression::None);
        decoder.set_mode(framed, Compression::None);
        End {
            transport,
            encoder,
            blocked: false,
            decoder,
            sends: sends.iter().copied().enumerate().collect(),
            expects: expects.iter().copied().enumerate().collect(),
        }
    }

    /// Sends the next few messages, packed together; true if there was progress.
    fn write(&mut self, cx: &mut Context<'_>, dice: &mut Dice) -> bool {
        let together = 1 + dice.below(40) as usize;
        for (number, len) in self.sends.drain(..together.min(self.sends.len())) {
            let header = Header {
                version: 4,
                response: false,
                flags: 0,
                stream: number as i16,
                opcode: 7,
                body_len: 0,
            };
            self.encoder.push_slice(header, &body(number, len));
        }
        if self.encoder.pending_len() == 0 && !self.blocked {
            return false;
        }
        let sent = self.transport.poll_send(cx, &mut self.encoder, |_| {});
        self.blocked = sent.map(|sent| sent.expect("sent")).is_pending();
        !self.blocked
    }

    /// Reads at most this many bytes; true if there was progress.
    fn read(&mut self, cx: &mut Context<'_>, len: usize) -> bool {
        let mut buf = vec![0; len];
        let Poll::Ready(read) = self.transport.poll_read(cx, &mut buf) else {
            return false;
        };
        let n = read.expect("read");
        assert!(n > 0, "the stream ends before {:?}", self.expects.front());
        let expects = &mut self.expects;
        let fed = self
            .decoder
            .feed(&buf[..n], &mut Vec::new(), |header, found| {
                let (number, len) = expects.pop_front().expect("no more messages");
                assert_eq!(header.stream, number as i16);
                assert!(found == body(number, len), "message {number} of {len} B");
                Flow::Continue
            });
        fed.expect("a well-formed stream");
        true
    }
}

/// Lets both ends write and read in random order until everything has arrived. A slow end reads
/// little, and only occasionally or when nothing else makes progress.
async fn converse(mut ends: [End; 2], mut dice: Dice, slow: bool) {
    poll_fn(|cx| {
        while ends.iter().any(|end| !end.expects.is_empty()) {
            let mut went_on = false;
            for _ in 0..8 {
                let end = &mut ends[dice.below(2) as usize];
                let len = 1 + dice.below(if slow { 5_000 } else { 128 * 1024 }) as usize;
                let reads = dice.below(if slow { 16 } else { 2 }) == 0;
                went_on |= match reads && !end.expects.is_empty() {
                    true => end.read(cx, len),
                    false => end.write(cx, &mut dice),
                };
            }
            // An end that merely was not polled must not count as stuck.
            if !went_on {
                for end in &mut ends {
                    went_on |= end.write(cx, &mut dice);
                    went_on |= !end.expects.is_empty() && end.read(cx, 10_000);
                }
            }
            if !went_on {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    })
    .await;
}

#[test]
fn messages_of_every_size_arrive_whole_and_in_order() {
    for kind in [Kind::Plain, Kind::Tls] {
        with_dice(|mut dice| {
            let mut sizes = || (0..40).map(|_| dice.size()).collect::<Vec<_>>();
            let (there, back) = (sizes(), sizes());
            let (framed, slow) = (dice.seed % 2 == 1, dice.seed % 4 >= 2);
            block_on(async {
                let (one, other) = pair(kind).await;
                let ends = [
                    End::new(one, &there, &back, framed),
                    End::new(other, &back, &there, framed),
                ];
                converse(ends, dice, slow).await;
            });
        });
    }
}

/// One flight of many messages, each smaller than a TLS record or a little larger.
#[test]
fn a_flight_of_equal_messages_arrives_whole() {
    for kib in [2, 6, 10, 12, 16, 40] {
        let there = vec![kib * 1024; 8_000 / kib];
        block_on(async {
            let (one, other) = pair(Kind::Tls).await;
            let ends = [
                End::new(one, &there, &[], false),
                End::new(other, &[], &there, false),
            ];
            converse(ends, Dice { seed: 0, state: 0 }, false).await;
        });
    }
}

#[test]
fn what_was_written_before_the_end_is_read_before_the_end() {
    for kind in [Kind::Plain, Kind::Tls] {
        block_on(async {
            let (mut one, mut other) = pair(kind).await;
            let sent = async {
                let mut encoder = Encoder::new();
                let header = Header {
                    version: 4,
                    response: true,
                    flags: 0,
                    stream: 1,
                    opcode: 0,
                    body_len: 0,
                };
                encoder.push_slice(header, &[7; 300_000]);
                poll_fn(|cx| one.poll_send(cx, &mut encoder, |_| {}))
                    .await
                    .expect("sent");
                poll_fn(|cx| one.poll_shutdown(cx)).await.expect("told");
            };
            let read = async {
                let mut total = 0;
                let mut buf = vec![0; 10_000];
                loop {
                    // With TLS an end without close_notify would be an error.
                    match poll_fn(|cx| other.poll_read(cx, &mut buf)).await {
                        Ok(0) => return total,
                        Ok(n) => total += n,
                        Err(e) => panic!("{kind:?}: {e}"),
                    }
                }
            };
            assert_eq!(tokio::join!(sent, read).1, 300_009, "{kind:?}");
        });
    }
}

#[test]
fn a_dropped_encrypted_stream_tells_its_end() {
    block_on(async {
        let (one, mut other) = pair(Kind::Tls).await;
        drop(one);
        let end = poll_fn(|cx| other.poll_read(cx, &mut [0; 10])).await;
        assert_eq!(end.expect("close_notify"), 0);
    });
}

/// An unencrypted alert, `close_notify`, and a record after it.
const CLOSE_NOTIFY: &[u8] = b"\x15\x03\x03\x00\x02\x01\x00";
const RECORD: &[u8] = b"\x17\x03\x03\x00\x10 sixteen bytes!!";

#[test]
fn bytes_behind_close_notify_end_a_handshake() {
    block_on(async {
        let (mut one, other) = sockets().await;
        let sent = [CLOSE_NOTIFY, RECORD, CLOSE_NOTIFY, RECORD].concat();
        one.write_all(&sent).await.expect("sent");
        Transport::accept(other, tls().0).await.expect_err("no TLS");
    });
}

#[test]
fn bytes_behind_close_notify_are_the_end_of_a_stream() {
    block_on(async {
        let (one, other) = sockets().await;
        let (server, client) = tls();
        let connecting = TlsConnector::from(client).connect(localhost(), one);
        let (one, other) = tokio::join!(connecting, Transport::accept(other, server));
        let (mut one, mut other) = (one.expect("connected"), other.expect("accepted"));
        one.write_all(b"last words").await.expect("written");
        one.get_mut().1.send_close_notify();
        one.flush().await.expect("flushed");
        // On the bare socket, bypassing TLS.
        let (socket, _) = one.get_mut();
        socket.write_all(&RECORD.repeat(1_000)).await.expect("sent");
        let mut read = Vec::<u8>::new();
        loop {
            let mut buf = [0; 4];
            match poll_fn(|cx| other.poll_read(cx, &mut buf)).await {
                Ok(0) => break,
                Ok(n) => read.extend(&buf[..n]),
                Err(e) => panic!("{e}"),
            }
        }
        assert_eq!(read, b"last words");
        let again = poll_fn(|cx| other.poll_read(cx, &mut [0; 4])).await;
        assert_eq!(again.expect("still the end"), 0);
    });
}

#[test]
fn a_client_that_is_refused_reads_why() {
    block_on(async {
        let (mut one, other) = sockets().await;
        // More than the first message of a plain-text client, so that some of it is never read.
        one.write_all(&[4; 100_000]).await.expect("sent");
        let read = async {
            let mut told = Vec::new();
            one.read_to_end(&mut told).await.expect("no reset");
            told
        };
        let (refused, told) = tokio::join!(Transport::accept(other, tls().0), read);
        let error = refused.expect_err("not TLS");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert_eq!(told.first(), Some(&0x15), "an alert");
    });
}
