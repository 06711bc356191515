use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use std::path::PathBuf;

/// An authority and one certificate that it has signed, as PEM files.
pub(crate) struct Certificates(tempfile::TempDir);

impl Certificates {
    pub(crate) fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap().pem();
        let authority = Issuer::new(params, key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(names).unwrap();
        let leaf = leaf.signed_by(&key, &authority).unwrap().pem();
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("ca.pem", ca);
        write("certificate.pem", leaf);
        write("key.pem", key.serialize_pem());
        Self(folder)
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.0.path().join("certificate.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    pub(crate) fn server(&self) -> ServerConfig {
        let builder = builder().with_no_client_auth();
        let key = PrivateKeyDer::from_pem_file(self.key()).unwrap();
        let chain = certificates(&self.certificate()).unwrap();
        builder.with_single_cert(chain, key).unwrap()
    }

    /// Asks clients for a certificate of the same authority.
    pub(crate) fn mutual(&self) -> ServerConfig {
        let roots = Arc::new(roots(&self.ca()).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
        let builder = builder().with_client_cert_verifier(verifier.build().unwrap());
        let key = PrivateKeyDer::from_pem_file(self.key()).unwrap();
        let chain = certificates(&self.certificate()).unwrap();
        builder.with_single_cert(chain, key).unwrap()
    }
}

fn builder() -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().unwrap()
}

#[test]
fn the_name_is_the_host_of_the_contact_point() {
    for (address, name) in [
        ("node.example:9042", "node.example"),
        ("10.0.0.1:9042", "10.0.0.1"),
        ("[::1]:9042", "::1"),
    ] {
        assert_eq!(name_of(address).unwrap().to_str(), name);
    }
    assert!(name_of(":9042").is_err());
}

#[test]
fn files_that_do_not_fit_are_errors_with_their_path() {
    let (one, other) = (Certificates::new(&["a"]), Certificates::new(&["b"]));
    let told = |ca: &Path, identity: Option<(&Path, &Path)>| {
        let trust = Trust::Authority {
            file: ca,
            server_name: None,
        };
        format!("{:#}", Tls::new(trust, identity).unwrap_err())
    };
    let missing = one.0.path().join("missing.pem");
    assert!(told(&missing, None).contains("missing.pem"));
    let no_certificate = told(&one.key(), None);
    assert!(
        no_certificate.contains("holds no certificate"),
        "{no_certificate}"
    );
    let strange = (&*one.certificate(), &*other.key());
    let strange = told(&one.ca(), Some(strange));
    assert!(strange.contains("does not fit"), "{strange}");
    let no_key = (&*one.certificate(), &*one.certificate());
    let no_key = told(&one.ca(), Some(no_key));
    assert!(no_key.contains("private key"), "{no_key}");
}

#[test]
fn a_server_that_breaks_off_may_want_a_certificate() {
    for kind in [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe] {
        let told = format!("{:#}", explain(kind.into()));
        assert!(told.contains("--tls-cert"), "{told}");
    }
}
