//! Settings to change if a connection to a node fails because of TLS.

use std::io;

use rustls::CertificateError;

/// In the words of whoever has said how to connect: a settings file, or options of a command.
#[derive(Debug)]
pub(crate) struct Advice {
    /// To a node that hangs up before its first answer.
    pub show_certificate: &'static str,
    pub use_tls: &'static str,
    /// To one that answers without TLS.
    pub leave_tls: &'static str,
    other_authority: &'static str,
    other_name: &'static str,
}

macro_rules! advice {
    ($set:literal, $ca:literal, $certificate:literal, $server_name:literal, $any_name:literal, $leave:literal) => {
        Advice {
            show_certificate: concat!(
                "the node may require a client certificate (require_client_auth); ",
                $set,
                " ",
                $certificate
            ),
            use_tls: concat!(
                "the node may require TLS; ",
                $set,
                " ",
                $ca,
                " (and whatever else the node requires)"
            ),
            leave_tls: concat!(
                "the node does not seem to speak TLS on this port; ",
                $leave,
                ", or enable client_encryption_options on the nodes"
            ),
            other_authority: concat!(
                "no authority in ",
                $ca,
                " has signed the node's certificate; name the file with the one that has"
            ),
            other_name: concat!(
                "the node's certificate is for other names than the one that was looked for; ",
                $set,
                " ",
                $server_name,
                " to one of them, or ",
                $any_name,
                " without it, to accept all that the authority has signed"
            ),
        }
    };
}

impl Advice {
    pub(crate) const SETTINGS: &'static Advice = &advice!(
        "set",
        "cluster.tls.ca",
        "cluster.tls.certificate and cluster.tls.key",
        "cluster.tls.server_name",
        "cluster.tls.verify_names = false",
        "remove [cluster.tls]"
    );
    pub(crate) const OPTIONS: &'static Advice = &advice!(
        "set",
        "--tls-ca",
        "--tls-cert and --tls-key",
        "--tls-server-name",
        "--tls-verify-names false",
        "leave out --tls-ca"
    );

    /// About the node's certificate, if that is what is wrong.
    pub(super) fn on_certificate(&self, error: &io::Error) -> Option<&'static str> {
        let Some(rustls::Error::InvalidCertificate(why)) = tls_error(error) else {
            return None;
        };
        match why {
            // The second is what another authority of the same name leads to.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Some(self.other_authority)
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Some(self.other_name)
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Some(
                "the node's certificate has expired; renew it on the node, or correct this machine's clock",
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Some(
                "the node's certificate is not valid yet; compare the clocks of this machine and of whoever has \
                 signed it",
            ),
            _ => None,
        }
    }
}

pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}
