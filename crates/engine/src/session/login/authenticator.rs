//! Which authenticators of nodes can be relied on, by the class that AUTHENTICATE names.
//!
//! Helenus hands a client's SASL token to a node, and opens links with it if the node accepts. That
//! tells the client's identity only if the token is what the node judges. One that judges the
//! certificate of the connection sees Helenus's own and accepts any token: every client would become
//! the role of that certificate. So a class counts only if it is known, or vouched for in
//! `cluster.authenticators`, to judge by the token alone.

use std::sync::Arc;

use thiserror::Error;

/// Name and password in one token, whatever the connection.
const PASSWORD: &str = "org.apache.cassandra.auth.PasswordAuthenticator";
/// The certificate of the connection, whatever the token.
const CERTIFICATE: &str = "org.apache.cassandra.auth.MutualTlsAuthenticator";
/// The certificate if there is one, else name and password.
const CERTIFICATE_OR_PASSWORD: &str =
    "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator";

/// Why a node's authenticator cannot be relied on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    #[error(
        "the node's authenticator {0} judges the certificate of the connection, which is Helenus's \
         own, and not what a client sends: every client would act as the role of that certificate. \
         Helenus cannot be used with it; PasswordAuthenticator works, also where \
         client_encryption_options require certificates"
    )]
    ByCertificate(String),
    #[error(
        "the node's authenticator {0} judges the certificate of the connection where there is one, \
         and Helenus shows its own: every client would act as the role of that certificate. Leave \
         cluster.tls.certificate and cluster.tls.key out, and clients log in by password; if the nodes \
         insist on a certificate, let them use PasswordAuthenticator"
    )]
    ByCertificateShown(String),
    #[error(
        "Helenus does not know the node's authenticator {0}. If it judges clients by their SASL token \
         alone, and not by certificate or address, add it to cluster.authenticators"
    )]
    Unknown(String),
}

/// Authenticators that are relied on.
#[derive(Clone, Debug, Default)]
pub struct Authenticators {
    /// Class names from `cluster.authenticators`.
    vouched_for: Arc<[String]>,
}

impl Authenticators {
    pub fn new(vouched_for: &[String]) -> Authenticators {
        Authenticators {
            vouched_for: vouched_for.into(),
        }
    }

    /// An error unless a login under this class tells who the client is, on a connection to the node that has shown a
    /// certificate or not.
    pub fn judge(&self, class: &str, certificate_shown: bool) -> Result<(), Unfit> {
        match class {
            PASSWORD => Ok(()),
            CERTIFICATE => Err(Unfit::ByCertificate(class.to_owned())),
            CERTIFICATE_OR_PASSWORD if certificate_shown => {
                Err(Unfit::ByCertificateShown(class.to_owned()))
            }
            CERTIFICATE_OR_PASSWORD => Ok(()),
            _ if self.vouched_for.iter().any(|known| known == class) => Ok(()),
            _ => Err(Unfit::Unknown(class.to_owned())),
        }
    }
}

/// True if an authenticator that may be relied on takes name and password out of the token, and ignores the rest of
/// it.
pub(crate) fn reads_password(class: &str) -> bool {
    matches!(class, PASSWORD | CERTIFICATE_OR_PASSWORD)
}

/// True if nobody needs to vouch for these, or nobody can.
pub fn is_known(class: &str) -> bool {
    matches!(class, PASSWORD | CERTIFICATE | CERTIFICATE_OR_PASSWORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(class: &str, certificate_shown: bool, expected: Option<&str>) {
        let vouched_for = ["com.example.Ldap".to_owned(), CERTIFICATE.to_owned()];
        let judged = Authenticators::new(&vouched_for).judge(class, certificate_shown);
        match (judged, expected) {
            (Ok(()), None) => {}
            (Err(unfit), Some(word)) => {
                let text = unfit.to_string();
                assert!(text.contains(class) && text.contains(word), "{text}");
            }
            (judged, _) => panic!("{class}, {certificate_shown}: {judged:?}"),
        }
    }

    #[test]
    fn only_what_judges_by_the_token_alone_is_relied_on() {
        for shown in [false, true] {
            check(PASSWORD, shown, None);
            check(CERTIFICATE, shown, Some("every client would act as"));
            check("com.example.Ldap", shown, None);
            check("com.example.Other", shown, Some("cluster.authenticators"));
            check("PasswordAuthenticator", shown, Some("does not know"));
            check("", shown, Some("does not know"));
        }
        check(CERTIFICATE_OR_PASSWORD, false, None);
        check(
            CERTIFICATE_OR_PASSWORD,
            true,
            Some("Leave cluster.tls.certificate"),
        );
    }
}
