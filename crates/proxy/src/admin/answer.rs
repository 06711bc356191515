//! Answers over HTTP.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode, header};
use serde::Serialize;

pub(super) type Answer = Response<Full<Bytes>>;

pub(super) fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => typed(StatusCode::OK, "application/json", json),
        Err(e) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{e}\n")),
    }
}

pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

/// hyper itself omits the body of a response to HEAD.
pub(super) fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, content_type);
    set(&mut answer, header::CACHE_CONTROL, "no-store");
    set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer
}

pub(super) fn set(answer: &mut Answer, name: HeaderName, value: &'static str) {
    answer
        .headers_mut()
        .insert(name, HeaderValue::from_static(value));
}
