//! Settings of traces.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Secret;

/// Headers of a collector at most, and bytes of all of them.
const HEADERS_MAX: usize = 32;
const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// Traces of requests, for an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Tracing {
    /// Where [spans](operations.md#traces) are sent, as `http://host:port`; `/v1/traces` is added if there is no
    /// path. Not set: nothing is traced.
    pub endpoint: Option<String>,
    /// Share of requests that are traced, 0 to 1, where clients do not decide.
    pub sample_ratio: f64,
    /// Whether slow requests (`admin.slow_ms`, `admin.slow_scan_ms`) are always traced.
    pub slow: bool,
    /// Whether `traceparent` in a request's custom payload decides whether it is traced, as part of that trace.
    pub follow_clients: bool,
    /// Requests that a worker traces in a second, 10 to 100,000; further ones count as dropped.
    pub requests_per_second_max: u32,
    /// `service.name` of the spans.
    pub service_name: String,
    /// Further attributes of the resource, such as `deployment.environment.name`.
    pub resource: BTreeMap<String, String>,
    /// File with headers for the collector, a line `name: value` each. They are secrets.
    pub headers_file: Option<PathBuf>,
    /// Time for the collector to take some spans; 10 to 60,000.
    pub timeout_ms: u64,
    /// The file's content: not a setting.
    #[serde(skip)]
    pub headers: Option<Secret>,
}

impl Default for Tracing {
    fn default() -> Self {
        Tracing {
            endpoint: None,
            sample_ratio: 0.001,
            slow: true,
            follow_clients: true,
            requests_per_second_max: 100,
            service_name: "helenus".to_owned(),
            resource: BTreeMap::new(),
            headers_file: None,
            timeout_ms: 10_000,
            headers: None,
        }
    }
}

/// A collector, as the settings name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// Host and port, as the Host header has them.
    pub authority: &'a str,
    pub host: &'a str,
    pub port: u16,
    pub path: &'a str,
}

impl Tracing {
    /// Where spans are sent; None if nowhere.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn collector(&self) -> Result<Option<Endpoint<'_>>, &'static str> {
        self.endpoint.as_deref().map(endpoint).transpose()
    }

    /// Names and values of what is sent to the collector.
    ///
    /// # Errors
    /// The problem, without quoting the text.
    pub fn header_lines(&self) -> Result<Vec<(&str, &str)>, &'static str> {
        let Some(text) = &self.headers else {
            return Ok(Vec::new());
        };
        let text = text.expose();
        if text.len() > HEADERS_BYTES_MAX {
            return Err("there are more than 16 KiB of them");
        }
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let headers: Result<Vec<_>, _> = lines.map(header).collect();
        let headers = headers?;
        match headers.len() <= HEADERS_MAX {
            true => Ok(headers),
            false => Err("there are more than 32 headers"),
        }
    }

    /// Problems of these settings.
    pub(super) fn problems(&self) -> impl Iterator<Item = String> {
        let lengths = self
            .resource
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let is_resource =
            !self.resource.contains_key("") && lengths.sum::<usize>() <= HEADERS_BYTES_MAX;
        let is_collected = self.endpoint.is_some() || self.headers_file.is_none();
        let checks = [
            (
                (0.0..=1.0).contains(&self.sample_ratio),
                "tracing.sample_ratio must be from 0 (none) to 1 (all)",
            ),
            (
                (10..=100_000).contains(&self.requests_per_second_max),
                "tracing.requests_per_second_max must be from 10 to 100000",
            ),
            (
                (10..=60_000).contains(&self.timeout_ms),
                "tracing.timeout_ms must be from 10 to 60000",
            ),
            (
                !self.service_name.is_empty(),
                "tracing.service_name must not be empty",
            ),
            (
                is_resource,
                "tracing.resource: names must not be empty, and all attributes together not larger than \
                 16 KiB",
            ),
            (
                is_collected,
                "tracing.headers_file is set without tracing.endpoint: set both, or neither",
            ),
        ];
        let found = checks
            .into_iter()
            .filter(|(ok, _)| !ok)
            .map(|(_, text)| text);
        self.collector()
            .err()
            .into_iter()
            .chain(found)
            .map(str::to_owned)
    }
}

fn endpoint(text: &str) -> Result<Endpoint<'_>, &'static str> {
    const FORM: &str = "tracing.endpoint must be a collector's address, as http://host:4318 (https is not supported: \
         use a collector nearby)";
    const PATH: &str = "tracing.endpoint has a path that HTTP does not take: write spaces, controls and all characters but \
         letters, digits and -._~!$&'()*+,;=:@/? as % and two hexadecimal digits (a space is %20)";
    let rest = text.strip_prefix("http://").ok_or(FORM)?;
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (host, port) = authority.rsplit_once(':').ok_or(FORM)?;
    let port: u16 = port.parse().map_err(|_| FORM)?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let is_plain = authority.bytes().all(|byte| byte.is_ascii_graphic());
    let is_name = !host.is_empty() && !host.contains(['@', '?', '#', '[', ']']);
    if port == 0 || !is_name || !is_plain {
        return Err(FORM);
    }
    if !is_path(path.as_bytes()) {
        return Err(PATH);
    }
    Ok(Endpoint {
        authority,
        host,
        port,
        path: match path {
            "" | "/" => "/v1/traces",
            path => path,
        },
    })
}

/// True if HTTP takes it as path and query (RFC 3986, sections 3.3 and 3.4).
fn is_path(path: &[u8]) -> bool {
    let is_hex = |at: usize| path.get(at).is_some_and(u8::is_ascii_hexdigit);
    path.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => is_hex(at + 1) && is_hex(at + 2),
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(byte),
    })
}

fn header(line: &str) -> Result<(&str, &str), &'static str> {
    const FORM: &str = "each line must be a header, as \"name: value\"";
    let (name, value) = line.split_once(':').ok_or(FORM)?;
    let (name, value) = (name.trim(), value.trim());
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token);
    let is_value = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let reserved = [
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
    ];
    if reserved
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved))
    {
        return Err("a header that the proxy sets itself is among them");
    }
    match is_name && is_value {
        true => Ok((name, value)),
        false => Err(FORM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    type Change = fn(&mut Tracing);

    fn endpoint_of(text: &str) -> Option<(String, u16, String)> {
        let found = endpoint(text).ok()?;
        Some((found.host.to_owned(), found.port, found.path.to_owned()))
    }

    #[test]
    fn a_collector_is_an_address_with_or_without_a_path() {
        let of = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        let traces = "/v1/traces";
        assert_eq!(endpoint_of("http://otel:4318"), of("otel", 4318, traces));
        assert_eq!(
            endpoint_of("http://10.0.0.1:80/"),
            of("10.0.0.1", 80, traces)
        );
        assert_eq!(
            endpoint_of("http://[::1]:4318/a/b"),
            of("::1", 4318, "/a/b")
        );
        let path = "/a%20b/~c;d=1?x=y&z=(1)";
        assert_eq!(
            endpoint_of(&format!("http://otel:4318{path}")),
            of("otel", 4318, path)
        );
        for wrong in [
            "a b",
            "a\tb",
            "a\r\nX: y",
            "a\u{7f}",
            "\u{e4}",
            "a%2",
            "a%zz",
            "a#b",
            "a<b>",
            "`a`",
            "a\"b",
            "a\\b",
            "a|b",
            "{a}",
            "[a]",
            "a^b",
        ] {
            let text = format!("http://otel:4318/{wrong}");
            let why = endpoint(&text).expect_err(wrong);
            assert!(why.contains("%20"), "{wrong:?}");
        }
        for wrong in [
            "",
            "otel:4318",
            "https://otel:4318",
            "http://otel",
            "http://otel:0",
            "http://otel:70000",
            "http://:4318",
            "http://user@otel:4318",
            "http://ot el:4318",
            "http://otel:4318?a",
        ] {
            let why = endpoint(wrong).expect_err(wrong);
            assert!(why.contains("address"), "{wrong:?}");
        }
    }

    #[test]
    fn headers_are_read_and_never_quoted() {
        let of = |text: &str| Tracing {
            headers: Some(text.to_owned().into()),
            ..Tracing::default()
        };
        let two = of("# of the vendor\nAuthorization: Bearer a:b\r\n\n x-scope :t \n");
        let lines = two.header_lines().expect("headers");
        assert_eq!(lines, [("Authorization", "Bearer a:b"), ("x-scope", "t")]);
        assert_eq!(Tracing::default().header_lines(), Ok(Vec::new()));
        let many = "a: b\n".repeat(33);
        let large = format!("a: {}", "b".repeat(HEADERS_BYTES_MAX));
        for wrong in [
            "secret",
            ": secret",
            "a b: secret",
            "a: \u{e9}",
            "Host: x",
            &many,
            &large,
        ] {
            let wrong = of(wrong);
            let why = wrong.header_lines().expect_err("wrong");
            assert!(!why.contains("secret"), "{why}");
        }
        assert!(!format!("{two:?}").contains("Bearer"));
    }

    #[test]
    fn bad_settings_are_told() {
        let problems = |change: Change| {
            let mut config = Config::default();
            change(&mut config.tracing);
            config.problems()
        };
        assert!(problems(|_| {}).is_empty());
        assert!(problems(|of| of.endpoint = Some("http://otel:4318".to_owned())).is_empty());
        let wrong: [(Change, &str); 7] = [
            (
                |of| of.endpoint = Some("otel".to_owned()),
                "tracing.endpoint",
            ),
            (|of| of.sample_ratio = 1.5, "tracing.sample_ratio"),
            (|of| of.sample_ratio = f64::NAN, "tracing.sample_ratio"),
            (
                |of| of.requests_per_second_max = 9,
                "requests_per_second_max",
            ),
            (|of| of.timeout_ms = 0, "tracing.timeout_ms"),
            (|of| of.service_name.clear(), "tracing.service_name"),
            (
                |of| of.headers_file = Some("/x".into()),
                "tracing.headers_file",
            ),
        ];
        for (change, named) in wrong {
            let found = problems(change);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(named), "{found:?}");
        }
    }
}
