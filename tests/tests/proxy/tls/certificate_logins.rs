//! Nodes that let in who shows a certificate.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helenus_cluster::{CLIENT_IDENTITY, ClientTls, Cluster, TlsFiles};
use helenus_tests::proxy::{Proxy, check};
use helenus_tests::raw::{Client, PATIENCE};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::Encrypted;
use crate::{directly, eventually, one_node, turn};

/// Authenticators of Cassandra 5.0 that judge the certificate of a connection.
#[test]
fn nobody_becomes_the_proxy_by_its_certificate() {
    let _turn = turn("certificates that log in", Duration::from_secs(300));
    if helenus_tests::cassandra_version().starts_with('4') {
        println!("4.1 has no such authenticators");
        return;
    }
    let spec = helenus_tests::ephemeral().auth(true).tls(ClientTls::Mutual);
    let mut cluster = one_node(spec);
    let identity = format!("ADD IDENTITY '{CLIENT_IDENTITY}' TO ROLE 'cassandra'");
    directly(
        &mut cluster.connect(1).expect("node"),
        &[
            "CREATE ROLE app WITH PASSWORD = 'pw' AND LOGIN = true",
            &identity,
        ],
    );
    let points = cluster.contact_points();
    let files = cluster.tls_files().expect("certificates");
    let path = |key: &str, path: &Path| format!("{key}=\"{}\"", path.display());
    let ca = path("cluster.tls.ca", &files.ca_pem);
    let certificate = path("cluster.tls.certificate", &files.client_cert_pem);
    let key = path("cluster.tls.key", &files.client_key_pem);
    let password = ["cluster.username=cassandra", "cluster.password=cassandra"];
    let named = [&password[..], &[&ca, &certificate, &key]].concat();
    let login = |proxy: &Proxy, name: &str, password: &str| {
        let mut client = Client::connect(proxy.address, 5).expect("connect");
        let outcome = client.startup(Some((name, password))).expect("an answer");
        outcome.map(|()| client)
    };
    let password_judged = |proxy: &Proxy| {
        for (name, password) in [("app", "wrong"), ("nobody", "pw")] {
            let fault = login(proxy, name, password).err().expect("a refusal");
            assert_eq!(fault.code, 0x0100, "{fault:?}");
        }
        let mut client = login(proxy, "app", "pw").expect("app");
        let fault = client.try_query("CREATE ROLE x", 1).expect("an answer");
        assert_eq!(fault.expect_err("not a superuser").code, 0x2100);
    };
    let refused = |settings: &[&str], words: &[&str]| {
        let report = check(&points, settings).expect("a report");
        let mut proxy = Proxy::spawn(&points, settings).expect("spawned");
        let status = proxy.wait(PATIENCE).expect("it ends");
        let log = proxy.log();
        assert_eq!(status.code(), Some(1), "{log}");
        for word in words {
            assert!(report.contains(word), "{word}: {report}");
            assert!(log.contains(word), "{word}: {log}");
        }
    };
    let before = Proxy::start_patient(&points, &named).expect("proxy");
    password_judged(&before);

    let restart = |cluster: &mut Cluster, class: &str| {
        let validator = "org.apache.cassandra.auth.SpiffeCertificateValidator";
        let value =
            format!("{{class_name: {class}, parameters: {{validator_class_name: {validator}}}}}");
        cluster.set_yaml("authenticator", &value).expect("set");
        cluster.stop(1).expect("stopped");
        cluster.start(1).expect("started");
    };
    let class = "org.apache.cassandra.auth.MutualTlsAuthenticator";
    restart(&mut cluster, class);
    // To the node itself any name and password do: the certificate decides.
    let mut direct = with_certificate(points[0], &files);
    let outcome = direct.startup(Some(("nobody", "nothing")));
    outcome.expect("an answer").expect("let in");
    direct
        .query("CREATE ROLE made_by_certificate")
        .expect("a superuser");
    eventually("a proxy that runs refuses logins", PATIENCE, || {
        let fault = login(&before, "nobody", "nothing").err();
        fault.expect("nobody is let in").message.contains(class)
    });
    refused(&named, &[class, "every client would act as"]);

    let class = "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator";
    let pem = "org.apache.cassandra.security.PEMBasedSslContextFactory";
    let encryption = format!(
        "{{enabled: true, optional: true, require_client_auth: true, ssl_context_factory: {{class_name: {pem}}}, \
         keystore: \"{}\", truststore: \"{}\"}}",
        files.node_pem.display(),
        files.ca_pem.display()
    );
    cluster
        .set_yaml("client_encryption_options", &encryption)
        .expect("set");
    restart(&mut cluster, class);
    refused(&named, &[class, "Leave cluster.tls.certificate"]);
    // Who shows none, which takes a connection without TLS here, is judged by password.
    let proxy = Proxy::start_patient(&points, &password).expect("proxy");
    password_judged(&proxy);
}

/// A connection to a node that shows the cluster's client certificate.
fn with_certificate(address: SocketAddr, files: &TlsFiles) -> Encrypted {
    let certificate = |path: &Path| CertificateDer::from_pem_file(path).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&files.ca_pem)).expect("a root");
    let key = PrivateKeyDer::from_pem_file(&files.client_key_pem).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&files.client_cert_pem)], key)
        .expect("a pair");
    let name = ServerName::IpAddress(address.ip().into());
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    Client::over(StreamOwned::new(session, stream), 5)
}
