//! Times of a capture as times here.

use std::time::{Duration, Instant};

/// How long after its arrival at the proxy a request is sent. A proxy hands over what it has recorded after half
/// a second, or as soon as it has 64 KiB of it; so requests are sent with the gaps with which they have come.
pub(crate) const DELAY: Duration = Duration::from_secs(1);

/// When a capture has begun, by this machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    /// `began`: when its first bytes have come.
    pub(crate) fn new(began: Instant) -> Clock {
        Clock { began }
    }

    /// The capture has been this old not later than now: what has come fastest says best when it began.
    pub(crate) fn on_mark(&mut self, at: Duration, now: Instant) {
        if let Some(began) = now.checked_sub(at) {
            self.began = self.began.min(began);
        }
    }

    pub(crate) fn at(&self, since_began: Duration) -> Instant {
        self.began + since_began
    }
}
