//! TLS settings from PEM files, reloaded on request.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::{ListenTls, NodeTls};

mod expiry;

pub(crate) use expiry::{Expiry, expiries};

/// TLS for clients.
pub(crate) fn server(settings: &ListenTls) -> Result<Arc<rustls::ServerConfig>> {
    let certificates = certificates(&settings.certificate)?;
    let key = key(&settings.key)?;
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?;
    let builder = match &settings.client_ca {
        Some(ca) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots(ca)?.into(), provider())
                    .build()?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let config = builder
        .with_single_cert(certificates, key)
        .with_context(|| {
            let (certificate, key) = (settings.certificate.display(), settings.key.display());
            format!("{certificate} does not fit the key in {key} (listen.tls)")
        })?;
    Ok(Arc::new(config))
}

/// TLS to nodes.
pub(crate) fn client(settings: &NodeTls) -> Result<Arc<rustls::ClientConfig>> {
    let roots = roots(&settings.ca)?;
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?;
    let builder = if settings.verify_names || settings.server_name.is_some() {
        builder.with_root_certificates(roots)
    } else {
        let roots = Arc::new(roots);
        let inner =
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider()).build()?;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyName { roots, inner }))
    };
    let config = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(private)) => {
            let pair = builder.with_client_auth_cert(certificates(certificate)?, key(private)?);
            pair.with_context(|| {
                let (certificate, key) = (certificate.display(), private.display());
                format!("{certificate} does not fit the key in {key} (cluster.tls)")
            })?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("{} is not a PEM file of certificates", path.display()))?;
    if found.is_empty() {
        bail!("{} holds no certificate", path.display());
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .with_context(|| format!("cannot read a private key from {}", path.display()))
}

fn roots(path: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store
            .add(certificate)
            .with_context(|| format!("{} holds no authority", path.display()))?;
    }
    Ok(store)
}

/// Checks the authority of a node's certificate, but not its name: nodes are found by address,
/// which certificates rarely contain.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
