//! Decides whether a request may be answered.
//!
//! If a token is set, requests must carry it; the caller decides which paths need none. Without a
//! token the server listens on loopback only, and every local user may read it. But a browser on
//! the same machine runs scripts of strangers: a page whose name is made to resolve to 127.0.0.1
//! (DNS rebinding) may read responses from that "same origin". It cannot hide its name, which the
//! browser sends as Host. So without a token only requests for a loopback name, or one of
//! `admin.hosts`, are answered.

use std::net::IpAddr;

use hyper::header::HeaderValue;
use subtle::ConstantTimeEq;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoToken,
    WrongToken,
    /// Not a name of this server.
    Host,
}

impl Refusal {
    /// The message for the client.
    pub(super) fn text(self) -> &'static str {
        match self {
            Refusal::NoToken => {
                "a token is needed: send the header 'Authorization: Bearer <admin.token>'; \
                 the dashboard at / asks for it\n"
            }
            Refusal::WrongToken => "the token differs from admin.token in the configuration\n",
            Refusal::Host => {
                "without admin.token only requests for 127.0.0.1, [::1] or localhost are answered: \
                 set admin.token, or add the name in the request's Host header to admin.hosts\n"
            }
        }
    }
}

/// `header` is the request's Authorization.
pub(super) fn check_token(token: &str, header: Option<&HeaderValue>) -> Result<(), Refusal> {
    match header.and_then(|value| bearer(value.as_bytes())) {
        // Takes the same time for a wrong first byte as for a wrong last one; only the length may
        // leak.
        Some(shown) if bool::from(shown.ct_eq(token.as_bytes())) => Ok(()),
        Some(_) => Err(Refusal::WrongToken),
        None => Err(Refusal::NoToken),
    }
}

/// `host` is the request's Host; every browser sends one.
pub(super) fn check_host(host: Option<&[u8]>, configured: &[String]) -> Result<(), Refusal> {
    let Some(host) = host else { return Ok(()) };
    let name = std::str::from_utf8(host).map_or("", name_of);
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let loopback = is("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if loopback || configured.iter().any(|other| is(name_of(other))) {
        return Ok(());
    }
    Err(Refusal::Host)
}

/// Without port, brackets and trailing dot.
fn name_of(host: &str) -> &str {
    // An IPv6 address without brackets is not a valid authority, but settings may contain one.
    if host.parse::<IpAddr>().is_ok() {
        return host;
    }
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((name, _port)) = bracketed {
        return name;
    }
    let name = host.split_once(':').map_or(host, |(name, _port)| name);
    name.strip_suffix('.').unwrap_or(name)
}

/// The scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(token: &str, header: Option<&str>) -> Result<(), Refusal> {
        let header = header.map(|h| HeaderValue::from_str(h).expect("a header value"));
        check_token(token, header.as_ref())
    }

    #[test]
    fn only_the_right_token_is_accepted() {
        let token = "s3cr%t+/=";
        for header in ["Bearer s3cr%t+/=", "bearer s3cr%t+/=", "BEARER  s3cr%t+/= "] {
            assert_eq!(shown(token, Some(header)), Ok(()), "{header}");
        }
        for header in [
            "Bearer ",
            "Bearer s3cr%t+/",
            "Bearer s3cr%t+/==",
            "Bearer S3cr%t+/=",
        ] {
            assert_eq!(
                shown(token, Some(header)),
                Err(Refusal::WrongToken),
                "{header}"
            );
        }
        for header in ["", "Bearer", "Basic s3cr%t+/=", "s3cr%t+/="] {
            assert_eq!(
                shown(token, Some(header)),
                Err(Refusal::NoToken),
                "{header}"
            );
        }
        assert_eq!(shown(token, None), Err(Refusal::NoToken));
        assert_eq!(shown("", None), Err(Refusal::NoToken));
    }

    #[test]
    fn loopback_names_are_answered_and_others_are_not() {
        let host = |host: &str| check_host(Some(host.as_bytes()), &[]);
        for ours in [
            "127.0.0.1",
            "127.0.0.1:9180",
            "127.1.2.3:80",
            "[::1]",
            "[::1]:9180",
            "::1",
            "localhost",
            "LocalHost:9180",
            "localhost.",
            "localhost.:9180",
        ] {
            assert_eq!(host(ours), Ok(()), "{ours}");
        }
        for foreign in [
            "rebound.example",
            "rebound.example:9180",
            "127.0.0.1.example",
            "localhost.example",
            "notlocalhost",
            "10.0.0.1:9180",
            "[::2]:9180",
            "0.0.0.0:9180",
            "",
            ":9180",
            "127.0.0.1@rebound.example",
            "127.0.0.1 rebound.example",
            "127.0.0.1,rebound.example",
            "rebound.example:127.0.0.1",
        ] {
            assert_eq!(host(foreign), Err(Refusal::Host), "{foreign}");
        }
        assert_eq!(check_host(Some(b"\xFF\xFE"), &[]), Err(Refusal::Host));
        // HTTP/1.0, so not a browser.
        assert_eq!(check_host(None, &[]), Ok(()));
    }

    #[test]
    fn configured_names_are_answered_on_any_port() {
        let configured = ["helenus.internal", "10.0.0.1:9180", "fe80::1"].map(str::to_owned);
        let host = |host: &str| check_host(Some(host.as_bytes()), &configured);
        for ours in [
            "Helenus.Internal",
            "helenus.internal:443",
            "10.0.0.1",
            "[fe80::1]:9180",
            "localhost",
        ] {
            assert_eq!(host(ours), Ok(()), "{ours}");
        }
        for foreign in ["internal", "x.helenus.internal", "10.0.0.2", "[fe80::2]"] {
            assert_eq!(host(foreign), Err(Refusal::Host), "{foreign}");
        }
    }
}
