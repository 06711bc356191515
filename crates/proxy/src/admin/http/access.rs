//! Decides what a request may do: read, or change something.
//!
//! Over the Unix socket everything is allowed: the system lets only the proxy's own user and root connect to it.
//! Over TCP, changes need `admin.token`; a browser that is led to this port by a stranger's page has none.
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

use crate::config::{Admin, Secret};

/// How a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admin) enum Door {
    Tcp,
    Socket,
}

/// The rights of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::admin) enum Rights {
    Read,
    /// Change something as well.
    Act,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admin) enum Refusal {
    NoToken,
    WrongToken,
    /// Not a name of this server.
    Host,
    /// The token only reads.
    ReadToken,
    /// There is no token that could allow it.
    NoActions,
}

impl Refusal {
    /// The message for the client.
    pub(in crate::admin) fn text(self) -> &'static str {
        match self {
            Refusal::NoToken => {
                "a token is needed: send the header 'Authorization: Bearer <admin.token>' (or read_token); \
                 the dashboard at / asks for it\n"
            }
            Refusal::WrongToken => {
                "the token differs from admin.token and admin.read_token in the configuration\n"
            }
            Refusal::ReadToken => {
                "this token only reads (admin.read_token): changes need admin.token, or the socket of \
                 admin.socket\n"
            }
            Refusal::NoActions => {
                "without admin.token nothing is changed over TCP: set it, or use the socket of admin.socket \
                 (helenus ctl --socket)\n"
            }
            Refusal::Host => {
                "without admin.token only requests for 127.0.0.1, [::1] or localhost are answered: \
                 set admin.token, or add the name in the request's Host header to admin.hosts\n"
            }
        }
    }
}

/// The tokens that are accepted.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::admin) struct Tokens<'a> {
    /// Allows everything.
    pub all: Option<&'a str>,
    /// Allows to read.
    pub read: Option<&'a str>,
}

impl<'a> Tokens<'a> {
    pub(in crate::admin) fn of(settings: &'a Admin) -> Tokens<'a> {
        Tokens {
            all: settings.token.as_ref().map(Secret::expose),
            read: settings.read_token.as_ref().map(Secret::expose),
        }
    }

    /// True if any is asked for.
    pub(in crate::admin) fn are_set(self) -> bool {
        self.all.is_some() || self.read.is_some()
    }

    /// The rights that a request's token gives. `header` is its Authorization.
    pub(in crate::admin) fn check(self, header: Option<&HeaderValue>) -> Result<Rights, Refusal> {
        let Some(shown) = header.and_then(|value| bearer(value.as_bytes())) else {
            return Err(Refusal::NoToken);
        };
        // Takes the same time for a wrong first byte as for a wrong last one; only the length may
        // leak.
        let is = |token: &str| bool::from(shown.ct_eq(token.as_bytes()));
        let (all, read) = (self.all.is_some_and(is), self.read.is_some_and(is));
        match (all, read) {
            (true, _) => Ok(Rights::Act),
            (false, true) => Ok(Rights::Read),
            (false, false) => Err(Refusal::WrongToken),
        }
    }

    /// Why a request that may only read must not change anything.
    pub(in crate::admin) fn why_not_act(self) -> Refusal {
        match self.are_set() {
            true => Refusal::ReadToken,
            false => Refusal::NoActions,
        }
    }
}

/// `host` is the request's Host; every browser sends one.
pub(in crate::admin) fn check_host(
    host: Option<&[u8]>,
    configured: &[String],
) -> Result<(), Refusal> {
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

    fn shown(token: &str, header: Option<&str>) -> Result<Rights, Refusal> {
        let header = header.map(|h| HeaderValue::from_str(h).expect("a header value"));
        let tokens = Tokens {
            all: Some(token),
            read: Some("r3ad"),
        };
        tokens.check(header.as_ref())
    }

    #[test]
    fn the_token_that_reads_does_not_act() {
        assert_eq!(shown("s3cret", Some("Bearer r3ad")), Ok(Rights::Read));
        assert!(Rights::Read < Rights::Act);
        let only_read = Tokens {
            all: None,
            read: Some("r3ad"),
        };
        assert_eq!(only_read.why_not_act(), Refusal::ReadToken);
        assert_eq!(Tokens::default().why_not_act(), Refusal::NoActions);
    }

    #[test]
    fn only_the_right_token_is_accepted() {
        let token = "s3cr%t+/=";
        for header in ["Bearer s3cr%t+/=", "bearer s3cr%t+/=", "BEARER  s3cr%t+/= "] {
            assert_eq!(shown(token, Some(header)), Ok(Rights::Act), "{header}");
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
