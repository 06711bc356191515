use http_body_util::BodyExt;

use helenus_engine::capture::Captured;

use super::*;
use crate::capture::WAITING_BYTES_MAX;
use crate::testing::process;

const LIMITS: Limits = Limits {
    time: Duration::from_secs(60),
    share_ppm: 1_000_000,
    bytes_max: 1 << 20,
    has_values: false,
};

fn shared() -> Arc<Process> {
    let config = crate::config::from_toml("").expect("settings");
    Arc::new(process(config))
}

fn captured(ticket: u64, bytes: usize) -> Captured {
    Captured {
        ticket,
        block: vec![0; bytes],
        records: 3,
        lost: 0,
    }
}

async fn next(stream: &mut Stream) -> Option<Bytes> {
    let frame = stream.frame().await?;
    frame.expect("infallible").into_data().ok()
}

#[tokio::test]
async fn there_is_one_at_a_time_and_it_ends_with_its_reader() {
    let shared = shared();
    let first = begin(&shared, LIMITS).expect("none is under way");
    let refused = begin(&shared, LIMITS).err().expect("one is under way");
    assert!(refused.contains("one at a time"), "{refused}");
    drop(first);
    assert!(begin(&shared, LIMITS).is_ok());
}

#[tokio::test]
async fn what_a_slow_reader_leaves_no_room_for_is_counted() {
    const BYTES: usize = 1 << 20;
    let room = WAITING_BYTES_MAX / BYTES;
    let shared = shared();
    let limits = Limits {
        bytes_max: 1 << 30,
        ..LIMITS
    };
    let mut stream = begin(&shared, limits).expect("none is under way");
    for _ in 0..room + 5 {
        shared.captures.take(captured(stream.ticket, BYTES));
    }
    // Of another capture: neither passed on nor counted.
    shared.captures.take(captured(stream.ticket + 1, 9));
    assert_eq!(stream.mark().lost, 5 * 3);
    assert!(
        next(&mut stream)
            .await
            .expect("a start")
            .starts_with(helenus_capture::MAGIC)
    );
    let mut blocks = 0;
    while blocks < room {
        blocks += usize::from(next(&mut stream).await.expect("more").len() == BYTES);
    }
    // There is room again.
    for _ in 0..room + 1 {
        shared.captures.take(captured(stream.ticket, BYTES));
    }
    assert_eq!(stream.mark().lost, 6 * 3);
}

#[tokio::test]
async fn it_ends_when_its_time_or_its_size_is_reached() {
    let shared = shared();
    let mut last = None;
    let limits = Limits {
        time: Duration::from_millis(1),
        ..LIMITS
    };
    let mut stream = begin(&shared, limits).expect("none is under way");
    while let Some(block) = next(&mut stream).await {
        last = Some(block);
    }
    let is_end = |block: &Option<Bytes>, reason: Reason| {
        let block = block.as_ref().expect("a block");
        (block[0], block[5]) == (4, reason as u8)
    };
    assert!(is_end(&last, Reason::Time));
    drop(stream);
    let mut stream = begin(&shared, LIMITS).expect("none is under way");
    shared.captures.take(captured(stream.ticket, 600_000));
    shared.captures.take(captured(stream.ticket, 600_000));
    let (mut last, mut bytes) = (None, 0);
    while let Some(block) = next(&mut stream).await {
        bytes += block.len();
        last = Some(block);
    }
    assert!(is_end(&last, Reason::Size));
    assert!(bytes > 600_000 && bytes < 700_000, "{bytes}");
}
