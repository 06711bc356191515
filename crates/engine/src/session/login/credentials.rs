//! A client's proof of who it is, in the form that its node judged.
//!
//! Whoever knows a password can write it into any number of tokens: PasswordAuthenticator does not look
//! at what precedes the name. All of them are one identity, or each would open links of its own, at the
//! price of a bcrypt on every node.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret: neither logged nor shown. It is serialized for one reader only, the process that goes on with
/// its clients ([`crate::session::handover::passed`]).
#[derive(Clone, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum Credentials {
    /// Name and password, as PasswordAuthenticator reads them.
    Password { role: Box<str>, password: Box<str> },
    /// The token of another authenticator, which may mean anything.
    Token(#[serde(with = "serde_bytes")] Box<[u8]>),
    /// `Password` with a password that is no UTF-8, of which Java makes what it likes.
    PasswordBytes {
        role: Box<str>,
        #[serde(with = "serde_bytes")]
        password: Box<[u8]>,
    },
}

impl Credentials {
    /// Credentials as PasswordAuthenticator of Cassandra 4.1 and 5.0 reads them in a token that it accepts: exactly
    /// two NULs, with the name between them and the password behind. Names and passwords are what Java makes of the
    /// bytes. Where they are no UTF-8 that is left to Java: of a password its bytes are kept, and with such a name
    /// the token is taken as it is.
    pub fn of_password(token: &[u8]) -> Credentials {
        let mut parts = token.splitn(3, |byte| *byte == 0).skip(1);
        let (role, password) = (parts.next(), parts.next());
        let is_one = |bytes: &&[u8]| !bytes.is_empty() && !bytes.contains(&0);
        let role = role
            .filter(is_one)
            .and_then(|name| std::str::from_utf8(name).ok());
        let Some((role, password)) = role.zip(password.filter(is_one)) else {
            return Credentials::of_token(token);
        };
        let role = role.into();
        match std::str::from_utf8(password) {
            Ok(password) => Credentials::Password {
                role,
                password: password.into(),
            },
            Err(_) => Credentials::PasswordBytes {
                role,
                password: password.into(),
            },
        }
    }

    pub fn of_token(token: &[u8]) -> Credentials {
        Credentials::Token(token.into())
    }

    /// The token that a node takes for these credentials.
    pub fn token(&self) -> Vec<u8> {
        match self {
            Credentials::Password { role, password } => {
                format!("\0{role}\0{password}").into_bytes()
            }
            Credentials::PasswordBytes { role, password } => {
                [b"\0", role.as_bytes(), b"\0", password].concat()
            }
            Credentials::Token(token) => token.to_vec(),
        }
    }

    /// The role's name, where it can be told.
    pub fn role(&self) -> Option<&str> {
        match self {
            Credentials::Password { role, .. } | Credentials::PasswordBytes { role, .. } => {
                Some(role)
            }
            Credentials::Token(_) => None,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(token: &[u8], expected: Option<(&str, &str)>) {
        let credentials = Credentials::of_password(token);
        match (&credentials, expected) {
            (Credentials::Password { role, password }, Some(expected)) => {
                assert_eq!((&**role, &**password), expected);
                let sent = credentials.token();
                assert_eq!(Credentials::of_password(&sent), credentials);
            }
            (Credentials::Token(kept), None) => assert_eq!(**kept, *token),
            (_, expected) => panic!("{token:?} is not {expected:?}"),
        }
    }

    #[test]
    fn tokens_are_read_as_password_authenticator_reads_them() {
        for authzid in ["", "x", "app", "\u{FFFD}", "a long one with anything in it"] {
            let token = format!("{authzid}\0app\0pw");
            check(token.as_bytes(), Some(("app", "pw")));
        }
        check(b"\xFF\xFE\0app\0pw", Some(("app", "pw")));
        check("\0rôle\0pä ss".as_bytes(), Some(("rôle", "pä ss")));
        check(b"\0app\0 pw ", Some(("app", " pw ")));
        // It refuses these, so they are nobody's; or decodes them in Java's way.
        for token in [
            &b""[..],
            b"\0",
            b"\0\0",
            b"\0\0\0",
            b"app\0pw",
            b"\0app\0",
            b"\0\0pw",
            b"\0app\0pw\0",
            b"\0app\0pw\0more",
            b"x\0y\0app\0pw",
            b"\0app\xFF\0pw",
        ] {
            check(token, None);
        }
    }

    #[test]
    fn a_role_is_known_whatever_its_passwords_bytes_are() {
        let of = |token: &[u8]| Credentials::of_password(token);
        let credentials = of(b"any\0app\0pw\xC3");
        assert_eq!(credentials.role(), Some("app"));
        assert_eq!(credentials.token(), b"\0app\0pw\xC3");
        assert_eq!(of(&credentials.token()), credentials);
        assert!(credentials != of(b"\0app\0pw\xC4") && credentials != of(b"\0api\0pw\xC3"));
        for token in [&b"\0app\0pw\xC3\0"[..], b"\0\0pw\xC3", b"\0app\xFF\0pw\xC3"] {
            assert_eq!(of(token), Credentials::of_token(token));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for credentials in [
            Credentials::of_password(b"\0app\0hunter2"),
            Credentials::of_password(b"\0app\0hunter2\xC3"),
            Credentials::of_token(b"hunter2"),
        ] {
            assert!(!format!("{credentials:?}").contains("unter"));
        }
    }
}
