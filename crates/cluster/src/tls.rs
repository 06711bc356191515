//! Certificates of one cluster: an authority, one certificate for all nodes, one for clients.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Context, Error, Result, invalid};
use crate::private_file;
use crate::state::State;

/// The identity in the client certificate, for authenticators that check it.
pub const CLIENT_IDENTITY: &str = "spiffe://helenus.test/client";

/// PEM files of a cluster with [`crate::ClientTls`] enabled.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate of the authority: what clients trust.
    pub ca_pem: PathBuf,
    /// Private key and certificate of the nodes, in one file.
    pub node_pem: PathBuf,
    /// Certificate for clients.
    pub client_cert_pem: PathBuf,
    /// Its private key.
    pub client_key_pem: PathBuf,
}

impl TlsFiles {
    pub(crate) fn at(dir: &Path) -> Self {
        let tls = dir.join("tls");
        Self {
            ca_pem: tls.join("ca.pem"),
            node_pem: tls.join("node.pem"),
            client_cert_pem: tls.join("client-cert.pem"),
            client_key_pem: tls.join("client-key.pem"),
        }
    }

    /// Creates the files, unless they exist.
    pub(crate) fn ensure(dir: &Path, state: &State) -> Result<Self> {
        let files = Self::at(dir);
        if files.client_key_pem.is_file() {
            return Ok(files);
        }
        let folder = dir.join("tls");
        fs::create_dir_all(&folder).during("creating", &folder)?;
        // Nodes may be added later, so all addresses with the prefix are listed.
        let [a, b, c] = state.ip_prefix;
        let addresses = (1..=60_u8).map(|last| IpAddr::from([a, b, c, last]));
        files
            .write(addresses)
            .map_err(|error| invalid(format!("could not create certificates: {error}")))??;
        Ok(files)
    }

    fn write(
        &self,
        addresses: impl Iterator<Item = IpAddr>,
    ) -> std::result::Result<Result<()>, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "helenus test authority");
        let key = KeyPair::generate()?;
        let ca_pem = params.self_signed(&key)?.pem();
        let authority = Issuer::new(params, key);

        let leaf = |name: &str, purpose, names: Vec<SanType>| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![purpose];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.subject_alt_names = names;
            let key = KeyPair::generate()?;
            let cert = params.signed_by(&key, &authority)?;
            Ok::<_, rcgen::Error>((key.serialize_pem(), cert.pem()))
        };
        let mut names: Vec<SanType> = addresses.map(SanType::IpAddress).collect();
        names.push(SanType::DnsName("localhost".try_into()?));
        let (node_key, node_cert) = leaf("node", ExtendedKeyUsagePurpose::ServerAuth, names)?;
        let identity = SanType::URI(CLIENT_IDENTITY.try_into()?);
        let (client_key, client_cert) = leaf(
            "client",
            ExtendedKeyUsagePurpose::ClientAuth,
            vec![identity],
        )?;
        // Cassandra wants the key first, then the chain.
        let node_pem = format!("{node_key}{node_cert}{ca_pem}");
        Ok([
            (&self.ca_pem, ca_pem),
            (&self.node_pem, node_pem),
            (&self.client_cert_pem, client_cert),
            (&self.client_key_pem, client_key),
        ]
        .into_iter()
        .try_for_each(|(path, text)| private_file::write(path, &text)))
    }

    /// Settings for a client that trusts this cluster and presents the client certificate.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>> {
        let unusable =
            |path: &Path, why: String| Error::Invalid(format!("{}: {why}", path.display()));
        let certificate = |path: &Path| {
            CertificateDer::from_pem_file(path).map_err(|error| unusable(path, error.to_string()))
        };
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate(&self.ca_pem)?)
            .map_err(|error| unusable(&self.ca_pem, error.to_string()))?;
        let key = PrivateKeyDer::from_pem_file(&self.client_key_pem)
            .map_err(|error| unusable(&self.client_key_pem, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_root_certificates(roots).with_client_auth_cert(
                    vec![
                        certificate(&self.client_cert_pem)
                            .map_err(|error| rustls::Error::General(error.to_string()))?,
                    ],
                    key,
                )
            })
            .map(Arc::new)
            .map_err(|error| unusable(&self.client_cert_pem, error.to_string()))
    }
}
