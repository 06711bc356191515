//! Answers over HTTP.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use http_body_util::{BodyExt, Either, Full};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode, header};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::capture::stream::Stream;
use crate::places::Busy;

pub(in crate::admin) type Answer = Response<Either<Full<Bytes>, Stream>>;

/// An action's answer, or why it was not done.
pub(in crate::admin) type Done = Result<Answer, (StatusCode, String)>;

pub(in crate::admin) fn bad(why: String) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, why)
}

pub(in crate::admin) fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => typed(StatusCode::OK, "application/json", json),
        Err(e) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
    }
}

/// From here on an answer is large.
const LARGE_BYTES: usize = 256 * 1024;

/// [`json`] for answers that may be large: few large ones are under way at a time, until they are sent, and others
/// are refused.
pub(in crate::admin) fn large_json(value: &impl Serialize, permits: &Arc<Semaphore>) -> Answer {
    let json = match serde_json::to_vec(value) {
        Ok(json) if json.len() >= LARGE_BYTES => json,
        Ok(json) => return typed(StatusCode::OK, "application/json", json),
        Err(e) => return plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
    };
    match permits.clone().try_acquire_owned() {
        Ok(permit) => {
            let body = Bytes::from_owner(Held {
                bytes: json,
                _hold: permit,
            });
            typed(StatusCode::OK, "application/json", body)
        }
        Err(_) => {
            let text = "other large answers are being sent: ask again in a second\n";
            let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, text);
            set(&mut answer, header::RETRY_AFTER, "1");
            answer
        }
    }
}

/// Bytes with what is to be held until they are sent: then this is dropped.
struct Held<B, H> {
    bytes: B,
    _hold: H,
}

impl<B: AsRef<[u8]>, H> AsRef<[u8]> for Held<B, H> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// An answer whose connection is busy until it is sent.
pub(in crate::admin) fn held(answer: Answer, busy: Busy) -> Answer {
    answer.map(|body| match body {
        Either::Left(whole) => Either::Left(Full::new(Bytes::from_owner(Held {
            bytes: bytes_of(whole),
            _hold: busy,
        }))),
        Either::Right(stream) => Either::Right(stream.keeping(busy)),
    })
}

/// The rest, not sent yet, of a body that is there as a whole.
fn bytes_of(whole: Full<Bytes>) -> Bytes {
    // It is ready at once, and has no trailers.
    let frame = whole.into_data_stream().next().now_or_never().flatten();
    frame.map_or_else(Bytes::new, |Ok(bytes)| bytes)
}

pub(in crate::admin) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

/// hyper itself omits the body of a response to HEAD.
pub(in crate::admin) fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Answer {
    let body = Either::Left(Full::new(body.into()));
    with_body(status, content_type, body)
}

/// A body that comes as time passes.
pub(in crate::admin) fn stream(content_type: &'static str, stream: Stream) -> Answer {
    with_body(StatusCode::OK, content_type, Either::Right(stream))
}

fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: Either<Full<Bytes>, Stream>,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, content_type);
    set(&mut answer, header::CACHE_CONTROL, "no-store");
    set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

pub(in crate::admin) fn set(answer: &mut Answer, name: HeaderName, value: &'static str) {
    answer
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_large_answers_are_under_way_at_a_time() {
        let permits = Arc::new(Semaphore::new(2));
        let large = "x".repeat(LARGE_BYTES);
        let ask = |of: &str| large_json(&of, &permits);
        let (first, second) = (ask(&large), ask(&large));
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(second.status(), StatusCode::OK);
        let refused = ask(&large);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(header::RETRY_AFTER));
        assert_eq!(ask("small").status(), StatusCode::OK);
        drop(first);
        assert_eq!(ask(&large).status(), StatusCode::OK);
    }
}
