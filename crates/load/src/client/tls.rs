//! TLS to an endpoint.
//!
//! Not the driver's own, which would bring a second cryptographic library into the program: see
//! [`crate::client::entrances`].

use anyhow::{Context, Result, bail, ensure};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whom a client trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Servers whose certificate an authority in this PEM file has signed. The name is that of the
    /// contact point, or the given one.
    Authority {
        file: &'a Path,
        server_name: Option<&'a str>,
    },
    /// Anybody: the connection is encrypted, but whoever sits in between can read it.
    Anybody,
}

/// How a client encrypts its connections.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// `identity`: PEM files of the client's certificate chain and its private key.
    pub fn new(trust: Trust<'_>, identity: Option<(&Path, &Path)>) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let (builder, server_name) = match trust {
            Trust::Authority { file, server_name } => {
                let name = server_name.map(|name| {
                    let parsed = ServerName::try_from(name.to_owned());
                    parsed.with_context(|| format!("{name:?} is no host name or address"))
                });
                (
                    builder.with_root_certificates(roots(file)?),
                    name.transpose()?,
                )
            }
            Trust::Anybody => {
                let algorithms = provider.signature_verification_algorithms;
                let verifier = Arc::new(Anybody { algorithms });
                let builder = builder.dangerous();
                (builder.with_custom_certificate_verifier(verifier), None)
            }
        };
        let config = match identity {
            Some((certificate, key)) => {
                let private = PrivateKeyDer::from_pem_file(key)
                    .with_context(|| format!("cannot read a private key from {}", key.display()))?;
                let fits = builder.with_client_auth_cert(certificates(certificate)?, private);
                fits.with_context(|| {
                    format!("{} does not fit {}", certificate.display(), key.display())
                })?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self {
            config: Arc::new(config),
            server_name,
        })
    }

    /// `address` is the contact point, `host:port`, that the stream leads to.
    pub(crate) async fn handshake(
        &self,
        stream: TcpStream,
        address: &str,
    ) -> Result<TlsStream<TcpStream>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => name_of(address)?,
        };
        let shaken = TlsConnector::from(self.config.clone()).connect(name, stream);
        shaken.await.map_err(explain)
    }
}

/// The host of `host:port`, as a certificate names it.
fn name_of(address: &str) -> Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    name.with_context(|| format!("{host:?} is no host name or address"))
}

/// Adds the advice, where rustls only says what is wrong.
pub(crate) fn explain(error: std::io::Error) -> anyhow::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let advice = match inner {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            // The second is what an authority of the same name says.
            rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
                "the server's certificate is not signed by an authority of --tls-ca"
            }
            rustls::CertificateError::NotValidForName
            | rustls::CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another name: give one of its names with \
                 --tls-server-name"
            }
            _ => "the server's certificate is refused",
        },
        Some(rustls::Error::InvalidMessage(_)) => "the server does not seem to speak TLS here",
        Some(rustls::Error::AlertReceived(_)) => {
            "the server refused the handshake; does it require a client certificate (--tls-cert, \
             --tls-key)?"
        }
        _ if error.kind() == ErrorKind::UnexpectedEof => {
            "the server closed the connection during the TLS handshake; does it speak TLS here?"
        }
        // In TLS 1.3 nodes do that after the handshake, and their alert gets lost.
        _ if matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
        ) =>
        {
            "the server broke the connection off; if it always does, it may require a client certificate \
             (--tls-cert, --tls-key)"
        }
        _ => "the TLS handshake failed",
    };
    anyhow::Error::new(error).context(advice)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("{} is not a PEM file of certificates", path.display()))?;
    ensure!(!found.is_empty(), "{} holds no certificate", path.display());
    Ok(found)
}

fn roots(path: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        if let Err(error) = store.add(certificate) {
            bail!("{} holds no authority: {error}", path.display());
        }
    }
    Ok(store)
}

/// Accepts every certificate of a server that has its private key.
#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
pub(crate) mod tests;
