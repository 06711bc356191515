//! One message to a collector, over a connection of its own.

use std::fmt;
use std::pin::pin;

use helenus_engine::config::Endpoint;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::TcpStream;

use super::otlp::ExportResponse;

/// A collector says little.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Of what it says, so much is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Why a message was not taken.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is none any more.
    NoCollector,
    Headers(&'static str),
    Connect(std::io::Error),
    Http(hyper::Error),
    Request(hyper::http::Error),
    Answer,
    Status(StatusCode),
    /// It has taken some spans only.
    Rejected(i64, String),
    Late,
}

impl Failure {
    /// True if a collector may take the message a little later.
    pub(super) fn may_be_repeated(&self) -> bool {
        match self {
            Failure::Connect(_) | Failure::Http(_) | Failure::Late => true,
            Failure::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Failure::NoCollector
            | Failure::Headers(_)
            | Failure::Request(_)
            | Failure::Answer
            | Failure::Rejected(..) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoCollector => f.write_str("there is none"),
            Failure::Headers(why) => write!(f, "tracing.headers_file: {why}"),
            Failure::Connect(why) => write!(f, "cannot connect: {why}"),
            Failure::Http(why) => write!(f, "the connection failed: {why}"),
            Failure::Request(why) => write!(f, "the request cannot be made: {why}"),
            Failure::Answer => f.write_str("it sent an answer that cannot be read"),
            Failure::Status(status) => write!(f, "it answered {status}"),
            Failure::Rejected(spans, why) => write!(f, "it has rejected {spans} spans: {why}"),
            Failure::Late => f.write_str("it did not answer within tracing.timeout_ms"),
        }
    }
}

/// Sends a message.
pub(super) async fn post(
    to: &Endpoint<'_>,
    headers: &[(&str, &str)],
    message: Bytes,
) -> Result<(), Failure> {
    let stream = TcpStream::connect((to.host, to.port)).await;
    let stream = stream.map_err(Failure::Connect)?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(Failure::Http)?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(to.path)
        .header(header::HOST, to.authority)
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .header(
            header::USER_AGENT,
            concat!("helenus/", env!("CARGO_PKG_VERSION")),
        );
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(message));
    let request = request.map_err(Failure::Request)?;
    let mut answer = pin!(async {
        let answer = sender.send_request(request).await.map_err(Failure::Http)?;
        let (head, body) = answer.into_parts();
        if !head.status.is_success() {
            return Err(Failure::Status(head.status));
        }
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Failure::Answer)?.to_bytes();
        judge(&body)
    });
    // The connection ends with this future. If it ends before, the answer has come, or why there is none.
    tokio::select! {
        answer = &mut answer => answer,
        _ = connection => answer.await,
    }
}

/// A collector's verdict on the spans. A body that is no message at all says nothing.
fn judge(body: &[u8]) -> Result<(), Failure> {
    let answer = ExportResponse::decode(body).unwrap_or_default();
    match answer.partial_success {
        Some(partial) if partial.rejected_spans > 0 => {
            let shown = partial.error_message.chars().filter(|c| !c.is_control());
            let shown = shown.take(SHOWN_CHARS_MAX).collect();
            Err(Failure::Rejected(partial.rejected_spans, shown))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::traces::otlp::PartialSuccess;
    use helenus_engine::config::Tracing;

    #[test]
    fn whatever_path_the_settings_take_can_be_asked_for() {
        let mut taken = 0;
        for byte in 0..=u8::MAX {
            let end = char::from(byte);
            let settings = Tracing {
                endpoint: Some(format!("http://otel:4318/a{end}b?c{end}%20")),
                ..Tracing::default()
            };
            if let Ok(Some(endpoint)) = settings.collector() {
                taken += 1;
                let request = Request::builder().uri(endpoint.path).body(());
                let request = request.unwrap_or_else(|e| panic!("{end:?}: {e}"));
                let asked = request.uri().path_and_query().map(|of| of.as_str());
                assert_eq!(asked, Some(endpoint.path));
            }
        }
        assert_eq!(taken, 26 + 26 + 10 + 19);
    }

    #[test]
    fn an_answer_that_rejects_spans_is_a_failure() {
        assert!(judge(&[]).is_ok());
        assert!(judge(b"{}").is_ok());
        let answer = |rejected_spans| ExportResponse {
            partial_success: Some(PartialSuccess {
                rejected_spans,
                error_message: format!("too\nmany{}", "x".repeat(1_000)),
            }),
        };
        assert!(judge(&answer(0).encode_to_vec()).is_ok());
        let failure = judge(&answer(3).encode_to_vec()).expect_err("rejected");
        let text = failure.to_string();
        assert!(
            text.starts_with("it has rejected 3 spans: toomanyx"),
            "{text}"
        );
        assert!(text.len() < 300 && !failure.may_be_repeated());
    }
}
