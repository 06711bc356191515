use http_body_util::BodyExt;

use helenus_engine::features::capture::Captured;

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

/// True if it is the last block, and says this.
fn is_end(block: Option<&Bytes>, reason: Reason) -> bool {
    // Behind the head.
    let block = block.expect("a block");
    (block[0], block[13]) == (4, reason as u8)
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
    assert!(is_end(last.as_ref(), Reason::Time));
    drop(stream);
    let mut stream = begin(&shared, LIMITS).expect("none is under way");
    shared.captures.take(captured(stream.ticket, 600_000));
    shared.captures.take(captured(stream.ticket, 600_000));
    let (mut last, mut bytes) = (None, 0);
    while let Some(block) = next(&mut stream).await {
        bytes += block.len();
        last = Some(block);
    }
    assert!(is_end(last.as_ref(), Reason::Size));
    assert!(bytes > 600_000 && bytes < 700_000, "{bytes}");
}

#[tokio::test]
async fn one_with_values_ends_when_values_are_not_to_be_shown_any_more() {
    for has_values in [true, false] {
        let shared = shared();
        let show_keys = |is_on: bool| {
            let text = format!("admin.show_keys = {is_on}");
            let config = crate::config::from_toml(&text).expect("settings");
            shared.settings.store(Arc::new(config));
        };
        show_keys(true);
        let limits = Limits {
            has_values,
            ..LIMITS
        };
        let mut stream = begin(&shared, limits).expect("none is under way");
        shared.captures.take(captured(stream.ticket, 100));
        assert!(next(&mut stream).await.is_some());
        assert_eq!(next(&mut stream).await.expect("a block").len(), 100);
        shared.captures.take(captured(stream.ticket, 100));
        show_keys(false);
        let block = next(&mut stream).await;
        match has_values {
            // Not even what has been recorded already.
            true => {
                assert!(is_end(block.as_ref(), Reason::ValuesHidden));
                assert!(next(&mut stream).await.is_none());
                drop(stream);
                let (events, _) = shared.events.from(0);
                let ended = events.last().expect("an event");
                assert!(ended.text.contains("admin.show_keys"), "{}", ended.text);
            }
            false => assert_eq!(block.expect("a block").len(), 100),
        }
    }
}
