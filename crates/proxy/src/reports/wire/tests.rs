use super::*;

const SECRET: &[u8] = b"a secret of some length";

/// The bytes in the agent's own test (ReportProtocolTest.java).
const REPORT_HEX: &str = "4852505401000098000000000000002a00000000004c4b40000000fa00c8251c0fa02710ffff0019\
         000005dc000001900000000012c00000000000002000000000000000000004d20000000700000002\
         0000002000000001000000030000002100000005000000000123456789abcdef0123456789abcdef\
         10d061d33168e24355bf2fa04e75c427f4e504717938edd9a0b86396063e10a2";
const AGENT_PROOF_HEX: &str = "cce84c94668ded250702f44f1d846803f936ed9405c6177ef8c417cd7657b2dc";
const PROXY_PROOF_HEX: &str = "2716529317c21e8e87dfd031f5033af0a4fd65984633138058ec5cf5e10636eb";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn nonce(first: u8) -> [u8; NONCE] {
    std::array::from_fn(|at| first + at as u8)
}

fn keys() -> Keys {
    Keys::new(Some(SECRET), nonce(1), nonce(101))
}

/// A report with these bytes and the right authenticator.
fn signed(key: &hmac::Key, body: &[u8]) -> Vec<u8> {
    [body, hmac::sign(key, body).as_ref()].concat()
}

/// The report above with this sequence, node and share of CPU.
pub(in crate::reports) fn report_of(
    key: &hmac::Key,
    sequence: u64,
    host: HostId,
    cpu: u16,
) -> Vec<u8> {
    let mut body = bytes(REPORT_HEX)[..BODY].to_vec();
    body[8..16].copy_from_slice(&sequence.to_be_bytes());
    body[30..32].copy_from_slice(&cpu.to_be_bytes());
    body[104..120].copy_from_slice(&host);
    signed(key, &body)
}

/// One that says itself that it is too old.
pub(in crate::reports) fn late_report_of(key: &hmac::Key, sequence: u64, host: HostId) -> Vec<u8> {
    let mut body = bytes(REPORT_HEX)[..BODY].to_vec();
    body[8..16].copy_from_slice(&sequence.to_be_bytes());
    body[24..28].copy_from_slice(&6_000_000_u32.to_be_bytes());
    body[104..120].copy_from_slice(&host);
    signed(key, &body)
}

#[test]
fn a_report_as_the_agent_sends_it() {
    let key = keys().session();
    let told = report(&key, &bytes(REPORT_HEX)).expect("a report");
    assert_eq!(
        (told.sequence, told.sampled_us, told.age_us),
        (42, 5_000_000, 250)
    );
    assert_eq!(told.host_id[..4], [0x01, 0x23, 0x45, 0x67]);
    let expected = Resources {
        cpu: Some(0.95),
        cpu_process: Some(0.4),
        cpu_machine: Some(1.0),
        disk: None,
        collecting: Some(0.0025),
        disk_queue: 1.5,
        cores: 0.4,
        heap_used: 300 << 20,
        heap_max: 512 << 20,
        collected_ms: 1_234,
        read_pending: 7,
        read_active: 2,
        read_max: 32,
        mutation_pending: 1,
        mutation_active: 3,
        mutation_max: 33,
        compactions_pending: 5,
    };
    assert_eq!(told.resources, expected);
}

#[test]
fn proofs_as_the_agent_makes_and_expects_them() {
    assert!(keys().is_proof(&bytes(AGENT_PROOF_HEX)));
    assert!(
        !keys().is_proof(&bytes(PROXY_PROOF_HEX)),
        "the proxy's own, sent back"
    );
    assert!(!keys().is_proof(&[]));
    for other in [None, Some(&b"another secret, as long"[..])] {
        let keys = Keys::new(other, nonce(1), nonce(101));
        assert!(!keys.is_proof(&bytes(AGENT_PROOF_HEX)));
    }
    let answer = keys().answer();
    assert_eq!(answer[..8], *b"HRPT\x01\0\0\0");
    assert_eq!(answer[8..40], nonce(101));
    assert_eq!(answer[40..], bytes(PROXY_PROOF_HEX));
}

#[test]
fn greetings() {
    let of = |head: &[u8]| [head, &nonce(1)].concat();
    let good = greeting(&of(b"HRPT\x01\x01\0\xc8")).expect("a greeting");
    assert_eq!(
        good,
        Greeting {
            has_secret: true,
            nonce: nonce(1)
        }
    );
    assert!(
        !greeting(&of(b"HRPT\x01\0\0\xc8"))
            .expect("a greeting")
            .has_secret
    );
    for (head, why) in [
        (b"HTTP\x01\0\0\0", Rejected::Format),
        (b"HRPT\x02\0\0\0", Rejected::Version),
        (b"HRPT\x01\x02\0\0", Rejected::Format),
    ] {
        assert_eq!(greeting(&of(head)), Err(why));
    }
    assert_eq!(greeting(b"HRPT"), Err(Rejected::Length));
    assert_eq!(greeting(&[0; 41]), Err(Rejected::Length));
}

#[test]
fn each_thing_that_can_be_wrong_has_its_reason() {
    let key = keys().session();
    let good = bytes(REPORT_HEX)[..BODY].to_vec();
    let changed = |at: usize, to: &[u8]| {
        let mut body = good.clone();
        body[at..at + to.len()].copy_from_slice(to);
        report(&key, &signed(&key, &body)).err()
    };
    assert_eq!(changed(0, b"HRPT"), None);
    for (at, to, why) in [
        (0, &b"X"[..], Rejected::Format),
        (4, &[2], Rejected::Version),
        (5, &[1], Rejected::Format),
        (6, &[0, 151], Rejected::Length),
        (28, &[0xff, 0xff], Rejected::Range),
        (30, &10_001_u16.to_be_bytes(), Rejected::Range),
        (36, &0xfffe_u16.to_be_bytes(), Rejected::Range),
        (44, &u32::MAX.to_be_bytes(), Rejected::Range),
        (48, &(513_u64 << 20).to_be_bytes(), Rejected::Range),
        (56, &u64::MAX.to_be_bytes(), Rejected::Range),
        (72, &u32::MAX.to_be_bytes(), Rejected::Range),
        (96, &u32::MAX.to_be_bytes(), Rejected::Range),
        (100, &[0, 0, 0, 1], Rejected::Format),
    ] {
        assert_eq!(changed(at, to), Some(why), "byte {at}");
    }
    let whole = bytes(REPORT_HEX);
    assert_eq!(report(&key, &whole[1..]), Err(Rejected::Length));
    let other = Keys::new(Some(SECRET), nonce(1), nonce(102)).session();
    assert_eq!(report(&other, &whole), Err(Rejected::Authenticator));
}

/// Random bytes, and good reports with a few bytes changed: with a wrong authenticator nothing is taken, with
/// a right one nothing that cannot be true.
#[test]
fn random_bytes_are_rejected_and_never_more_than_that() {
    let seed = std::env::var("HELENUS_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    println!("replay with HELENUS_SEED={seed}");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    let key = keys().session();
    let good = bytes(REPORT_HEX);
    let mut taken = 0;
    for _ in 0..20_000 {
        let length = next() as usize % (REPORT + 20);
        let garbage: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        assert!(report(&key, &garbage).is_err());
        let _ = greeting(&garbage);

        let mut body = good[..BODY].to_vec();
        for _ in 0..1 + next() % 4 {
            body[next() as usize % BODY] ^= 1 << (next() % 8);
        }
        if body == good[..BODY] {
            continue;
        }
        let forged = [&body, &good[BODY..]].concat();
        assert!(
            report(&key, &forged).is_err(),
            "its authenticator is another's"
        );
        let Ok(told) = report(&key, &signed(&key, &body)) else {
            continue;
        };
        taken += 1;
        let of = told.resources;
        for share in [
            of.cpu,
            of.cpu_process,
            of.cpu_machine,
            of.disk,
            of.collecting,
            of.memory(),
        ] {
            assert!(
                share.is_none_or(|share| (0.0..=1.0).contains(&share)),
                "{of:?}"
            );
        }
        assert!(of.disk_queue.is_finite() && of.cores.is_finite());
    }
    assert!(
        taken > 100,
        "{taken}: most changes leave a report that could be true"
    );
}
