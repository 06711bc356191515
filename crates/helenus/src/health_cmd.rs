//! `helenus health`: a probe for containers and scripts that have no HTTP client of their own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use helenus_console::cells::{print_error, printable_lines};
use helenus_console::settings::Settings;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{Request, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The answer is one line.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Ask a running proxy whether it works, or whether it can serve clients.
///
/// Exit codes: 0 yes, 1 no or no answer, 2 the settings or the URL cannot be used. Without a URL the
/// settings say where the admin server is, so that a container's health check needs no arguments.
/// No token is sent: `/health` and `/ready` need none.
#[derive(Args)]
pub(crate) struct HealthArgs {
    /// What to ask, as http://HOST:PORT/PATH. Default: `/health` at admin.address of the settings.
    url: Option<String>,
    /// Ask `/ready` (can clients be served?) instead of `/health` (does the process work?).
    #[arg(long, conflicts_with = "url")]
    ready: bool,
    /// Longest wait for the answer, in milliseconds.
    #[arg(long, default_value_t = 3_000)]
    timeout_ms: u64,
    #[command(flatten)]
    settings: Settings,
}

pub(crate) fn run(args: HealthArgs) -> ExitCode {
    let probe = match probe_of(&args) {
        Ok(probe) => probe,
        Err(e) => {
            print_error(&e);
            return ExitCode::from(2);
        }
    };
    match ask(&probe, Duration::from_millis(args.timeout_ms)) {
        Ok((StatusCode::OK, text)) => {
            println!("{}", printable_lines(&text));
            ExitCode::SUCCESS
        }
        Ok((status, text)) => {
            print_error(&format!("{probe} answers {status}: {text}"));
            ExitCode::FAILURE
        }
        Err(e) => {
            print_error(&e);
            ExitCode::FAILURE
        }
    }
}

fn probe_of(args: &HealthArgs) -> Result<Uri> {
    if let Some(url) = &args.url {
        return checked(url);
    }
    let Some(address) = args.settings.load()?.admin.address else {
        bail!("admin.address is off, so there is no admin server to ask by HTTP");
    };
    let path = if args.ready { "/ready" } else { "/health" };
    checked(&format!("http://{}{path}", reachable(address)))
}

fn checked(url: &str) -> Result<Uri> {
    let usage = "write http://HOST:PORT/PATH, for instance http://127.0.0.1:9180/health";
    let uri: Uri = url.parse().with_context(|| format!("{url}: {usage}"))?;
    match uri.scheme_str() {
        Some("http") if uri.authority().is_some() => Ok(uri),
        Some("https") => bail!("{url}: the admin server speaks http only; {usage}"),
        _ => bail!("{url}: {usage}"),
    }
}

/// A server that listens on all addresses is asked on loopback.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

fn ask(probe: &Uri, patience: Duration) -> Result<(StatusCode, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(async { tokio::time::timeout(patience, get(probe)).await });
    // Otherwise the end of a name resolution would be waited for.
    runtime.shutdown_background();
    answer
        .with_context(|| format!("{probe} has not answered in {patience:?}"))?
        .with_context(|| format!("cannot ask {probe}: is the proxy running?"))
}

async fn get(probe: &Uri) -> Result<(StatusCode, String)> {
    let host = probe.host().context("the URL names no host")?;
    let host = host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, probe.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let authority = probe.authority().map_or("", |at| at.as_str());
    let path = probe.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .body(Empty::<Bytes>::new())?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => {
            let text = String::from_utf8_lossy(&body.to_bytes()).trim().to_owned();
            Ok((head.status, text))
        }
        Err(e) => bail!("the answer cannot be read: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one request with `answer`.
    fn server(answer: &'static str) -> (Uri, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut bytes).expect("a request");
                assert_ne!(read, 0, "the request ends early");
                request.extend_from_slice(&bytes[..read]);
            }
            stream.write_all(answer.as_bytes()).expect("answered");
            String::from_utf8(request).expect("text")
        });
        let probe = checked(&format!("http://{at}/ready")).expect("a URL");
        (probe, served)
    }

    #[test]
    fn status_and_text_are_the_servers() {
        let patience = Duration::from_secs(60);
        let (probe, served) = server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n");
        let answer = ask(&probe, patience).expect("an answer");
        assert_eq!(answer, (StatusCode::OK, "ready".to_owned()));
        let request = served.join().expect("served");
        assert!(request.starts_with("GET /ready HTTP/1.1\r\n"), "{request}");
        // Without a token the admin server answers requests for loopback names only.
        assert!(request.contains("host: 127.0.0.1:"), "{request}");

        let (probe, served) = server("HTTP/1.1 503 No\r\ncontent-length: 9\r\n\r\nstopping\n");
        let (status, text) = ask(&probe, patience).expect("an answer");
        assert_eq!((status.as_u16(), text.as_str()), (503, "stopping"));
        served.join().expect("served");
    }

    #[test]
    fn a_server_that_is_not_there_or_silent_is_an_error_that_names_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let probe = checked(&format!("http://{at}/health")).expect("a URL");
        // The kernel completes the connection; nobody answers.
        let silent = ask(&probe, Duration::from_millis(50)).expect_err("no answer");
        assert!(format!("{silent:#}").contains("not answered in 50ms"));
        drop(listener);
        let refused = ask(&probe, Duration::from_secs(60)).expect_err("no server");
        assert!(format!("{refused:#}").contains(&at.to_string()));
    }

    #[test]
    fn only_http_urls_are_taken_and_wildcards_become_loopback() {
        for wrong in [
            "127.0.0.1:9180",
            "https://a:1/health",
            "/health",
            "ftp://a/",
            "",
        ] {
            assert!(checked(wrong).is_err(), "{wrong}");
        }
        for (address, asked) in [
            ("0.0.0.0:9180", "127.0.0.1:9180"),
            ("[::]:9180", "[::1]:9180"),
            ("10.0.0.9:1", "10.0.0.9:1"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(reachable(address).to_string(), asked);
        }
    }
}
