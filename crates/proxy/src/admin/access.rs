//! Decides whether a request may be answered: with a token set, only who shows it.

use hyper::header::HeaderValue;

/// `header` is the request's Authorization; `query` the page's query string, the one place besides
/// where a token may stand, because a browser cannot be told to send a header. The error is for the
/// client to read.
pub fn check(
    token: Option<&str>,
    header: Option<&HeaderValue>,
    query: Option<&str>,
) -> Result<(), &'static str> {
    let Some(token) = token else { return Ok(()) };
    let shown = header
        .and_then(|value| bearer(value.as_bytes()).map(<[u8]>::to_vec))
        .or_else(|| query.and_then(token_of_query));
    match shown {
        Some(shown) if equal(&shown, token.as_bytes()) => Ok(()),
        Some(_) => Err("the token is not the one in admin.token of the configuration\n"),
        None => Err(
            "a token is needed: send the header 'Authorization: Bearer <admin.token>', \
             or open the dashboard as /?token=<admin.token>\n",
        ),
    }
}

/// The scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| rest.trim_ascii())
}

fn token_of_query(query: &str) -> Option<Vec<u8>> {
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="))?;
    Some(percent_decoded(value.as_bytes()))
}

/// What is no escape stays as it is; `+` too, as it is common in base64 tokens.
fn percent_decoded(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let digit = |i: usize| rest.get(i).and_then(|&c| (c as char).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, digit(0), digit(1)) {
            out.push((high * 16 + low) as u8);
            text = &rest[2..];
        } else {
            out.push(first);
            text = rest;
        }
    }
    out
}

/// Takes as long for a wrong first byte as for a wrong last one; only the length may show.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(token: Option<&str>, header: Option<&str>, query: Option<&str>) -> bool {
        let header = header.map(|h| HeaderValue::from_str(h).expect("a header value"));
        check(token, header.as_ref(), query).is_ok()
    }

    #[test]
    fn without_a_token_everybody_is_let_in() {
        assert!(ok(None, None, None));
        assert!(ok(None, Some("Bearer whatever"), Some("token=x")));
    }

    #[test]
    fn with_a_token_only_who_shows_it() {
        let token = Some("s3cr%t+/=");
        for header in ["Bearer s3cr%t+/=", "bearer s3cr%t+/=", "BEARER  s3cr%t+/= "] {
            assert!(ok(token, Some(header), None), "{header}");
        }
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer s3cr%t+/",
            "Bearer s3cr%t+/==",
            "Bearer S3cr%t+/=",
            "Basic s3cr%t+/=",
            "s3cr%t+/=",
        ] {
            assert!(!ok(token, Some(header), None), "{header}");
        }
        assert!(!ok(token, None, None));
        assert!(!ok(Some(""), None, None));
    }

    #[test]
    fn the_page_may_carry_the_token_in_its_address() {
        let token = Some("s3cr%t+/=");
        for query in [
            "token=s3cr%25t+/=",
            "a=b&token=s3cr%25t%2B%2f%3D&c",
            "token=s3cr%t+/=",
        ] {
            assert!(ok(token, None, Some(query)), "{query}");
        }
        for query in [
            "",
            "token",
            "token=",
            "xtoken=s3cr%25t+/=",
            "token=%",
            "token=%4",
        ] {
            assert!(!ok(token, None, Some(query)), "{query}");
        }
        // A wrong header is not made good by the address.
        assert!(!ok(token, Some("Bearer x"), Some("token=s3cr%25t+/=")));
    }
}
