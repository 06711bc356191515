//! A capture on its way to whoever wants it, as the body of an answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use helenus_capture::{End, Mark, Reason, Start};
use helenus_engine::features;
use helenus_engine::features::capture::Wanted;
use helenus_engine::shared::WorkerMessage;
use helenus_policy::schedule::Class;
use hyper::body::{Body, Frame};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::{Interval, Sleep};

use crate::capture::{Begun, Blocks};
use crate::places::Busy;
use crate::process::Process;
use crate::records::events::Kind;

/// How often the file says how far it has come; also how long workers have for their last blocks.
const MARK_INTERVAL: Duration = Duration::from_secs(1);

/// A reader that takes nothing for longer is given up.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(30);

/// Bounds of a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub time: Duration,
    pub share_ppm: u32,
    pub bytes_max: u64,
    pub has_values: bool,
}

/// A capture as the body of an answer. It ends with this value.
pub(crate) struct Stream {
    shared: Arc<Process>,
    ticket: u64,
    began: Instant,
    blocks: Blocks,
    lost: Arc<AtomicU64>,
    start: Option<Bytes>,
    marks: Interval,
    end: Pin<Box<Sleep>>,
    bytes: u64,
    bytes_max: u64,
    has_values: bool,
    ended: Option<Reason>,
    taken: Arc<Taken>,
    /// Its connection is.
    busy: Option<Busy>,
}

/// When a reader last had room for more of a stream, which has a mark for it every second.
#[derive(Debug)]
pub(crate) struct Taken {
    began: Instant,
    /// Since then, in milliseconds.
    at_ms: AtomicU64,
    is_given_up: AtomicBool,
}

impl Taken {
    fn new(began: Instant) -> Taken {
        Taken {
            began,
            at_ms: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
        }
    }

    fn note(&self) {
        let at_ms = self.began.elapsed().as_millis() as u64;
        self.at_ms.store(at_ms, Ordering::Relaxed);
    }

    /// Gives a reader up that has taken nothing for so long; whether that is so.
    pub(crate) fn give_up(&self, idle_max: Duration) -> bool {
        let is_idle = self.idle() >= idle_max;
        self.is_given_up.store(is_idle, Ordering::Relaxed);
        is_idle
    }

    /// For how long its reader has taken nothing.
    fn idle(&self) -> Duration {
        let at = Duration::from_millis(self.at_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(at)
    }
}

/// Begins a capture.
///
/// # Errors
/// There is one already, or there is no randomness.
pub(crate) fn begin(shared: &Arc<Process>, limits: Limits) -> Result<Stream, String> {
    let mut salt = [0; 16];
    let drawn = SystemRandom::new().fill(&mut salt);
    drawn.map_err(|_| "the operating system gives no random number".to_owned())?;
    let Some(Begun {
        ticket,
        blocks,
        lost,
    }) = shared.captures.begin()
    else {
        let why = "a capture is under way already, and there is one at a time: wait for its end, or end the \
                   `helenus capture` that reads it";
        return Err(why.to_owned());
    };
    let began = Instant::now();
    let wanted = Wanted {
        ticket,
        began,
        until: began + limits.time,
        share_ppm: limits.share_ppm,
        has_values: limits.has_values,
        salt,
    };
    shared.tell_workers(&WorkerMessage::Feature(features::Message::Capture(Some(
        Arc::new(wanted),
    ))));
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let start = Start {
        proxy: env!("CARGO_PKG_VERSION").to_owned(),
        began_us: since_1970.unwrap_or_default().as_micros() as u64,
        wanted_us: limits.time.as_micros() as u64,
        share_ppm: limits.share_ppm,
        has_values: limits.has_values,
        classes: Class::ALL.map(|class| class.name().to_owned()).into(),
    };
    Ok(Stream {
        shared: shared.clone(),
        ticket,
        began,
        blocks,
        lost,
        start: Some(start.to_bytes().into()),
        marks: tokio::time::interval(MARK_INTERVAL),
        end: Box::pin(tokio::time::sleep(limits.time + MARK_INTERVAL)),
        bytes: 0,
        bytes_max: limits.bytes_max,
        has_values: limits.has_values,
        ended: None,
        taken: Arc::new(Taken::new(began)),
        busy: None,
    })
}

impl Stream {
    /// Its connection is busy as long as it lasts.
    pub(crate) fn keeping(mut self, busy: Busy) -> Stream {
        self.busy = Some(busy);
        self
    }

    /// When its reader last took something.
    pub(crate) fn taken(&self) -> Arc<Taken> {
        self.taken.clone()
    }

    fn mark(&self) -> Mark {
        Mark {
            at_us: self.began.elapsed().as_micros() as u64,
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    fn end(&mut self, reason: Reason) -> Bytes {
        self.ended = Some(reason);
        let mark = self.mark();
        End { reason, mark }.to_bytes().into()
    }

    /// The next block; nothing after the end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended.is_some() {
            return Poll::Ready(None);
        }
        if let Some(start) = self.start.take() {
            return Poll::Ready(Some(start));
        }
        // Before anything that has been recorded meanwhile; there is a mark every second.
        if self.has_values && !self.shared.settings.load().admin.show_keys {
            return Poll::Ready(Some(self.end(Reason::ValuesHidden)));
        }
        if let Poll::Ready(Some(block)) = self.blocks.poll_next(cx) {
            if self.bytes + block.len() as u64 > self.bytes_max {
                return Poll::Ready(Some(self.end(Reason::Size)));
            }
            return Poll::Ready(Some(block));
        }
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(self.end(Reason::Time)));
        }
        match self.marks.poll_tick(cx) {
            Poll::Ready(_) => Poll::Ready(Some(self.mark().to_bytes().into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.taken.note();
        self.poll_next(cx).map(|next| {
            let next = next?;
            self.bytes += next.len() as u64;
            Some(Ok(Frame::data(next)))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Before there is room for another: what is said of none must not reach that one.
        self.shared
            .tell_workers(&WorkerMessage::Feature(features::Message::Capture(None)));
        self.shared.captures.end(self.ticket);
        let lost = self.lost.load(Ordering::Relaxed);
        let why = match (self.ended, self.taken.is_given_up.load(Ordering::Relaxed)) {
            (Some(Reason::Time), _) => "its time is over".to_owned(),
            (Some(Reason::Size), _) => "it has its size".to_owned(),
            (Some(Reason::ValuesHidden), _) => {
                "it had values, and admin.show_keys was switched off".to_owned()
            }
            (None, true) => {
                let seconds = self.taken.idle().as_secs();
                format!("its reader has taken nothing for {seconds} s")
            }
            (None, false) => "its reader has gone".to_owned(),
        };
        tracing::info!(bytes = self.bytes, lost, "the capture has ended: {why}");
        let text = format!("the capture has ended: {why}");
        self.shared.events.note(Kind::Captured, text);
    }
}

#[cfg(test)]
mod tests;
