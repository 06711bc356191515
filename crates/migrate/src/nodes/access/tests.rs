use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    access: Access,
}

fn access(arguments: &[&str]) -> Result<Access, String> {
    let all = ["command"].iter().chain(arguments);
    let parsed = Command::try_parse_from(all);
    parsed.map(|of| of.access).map_err(|e| e.to_string())
}

fn settings(arguments: &[&str]) -> (Config, GivenBy) {
    let access = access(arguments).expect("arguments");
    access.settings().expect("settings")
}

/// A file, as an argument.
fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("written");
    path.display().to_string()
}

#[test]
fn without_options_the_local_node_is_asked_without_tls() {
    let (config, by) = settings(&[]);
    assert_eq!(config.cluster.contact_points, ["127.0.0.1:9042"]);
    assert!(config.cluster.tls.is_none() && config.cluster.username.is_none());
    assert_eq!(by, GivenBy::Options);
}

#[test]
fn options_of_tls_are_those_of_the_settings() {
    let (config, _) = settings(&["--tls-ca", "ca.pem"]);
    let tls = config.cluster.tls.expect("TLS");
    assert_eq!(tls.ca, Path::new("ca.pem"));
    assert!(tls.verify_names, "names are checked unless told otherwise");
    assert!(tls.certificate.is_none() && tls.key.is_none() && tls.server_name.is_none());
    let all = [
        "--tls-ca=a",
        "--tls-cert=b",
        "--tls-key=c",
        "--tls-server-name=d",
        "--tls-verify-names=true",
    ];
    let (config, _) = settings(&all);
    let tls = config.cluster.tls.expect("TLS");
    let (certificate, key) = tls.certificate.zip(tls.key).expect("both");
    assert_eq!(
        (certificate.as_path(), key.as_path()),
        (Path::new("b"), Path::new("c"))
    );
    assert_eq!(tls.server_name.as_deref(), Some("d"));
    assert!(tls.verify_names);
    let (config, _) = settings(&["--tls-ca=a", "--tls-verify-names=false"]);
    assert!(!config.cluster.tls.expect("TLS").verify_names);
    let both = [
        "--tls-ca=a",
        "--tls-server-name=d",
        "--tls-verify-names=false",
    ];
    let error = access(&both).expect("arguments").settings();
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("leave one of them out"), "{error}");
}

#[test]
fn options_that_mean_nothing_alone_are_refused() {
    for (arguments, missing) in [
        (&["--tls-cert=b", "--tls-key=c"][..], "--tls-ca"),
        (&["--tls-ca=a", "--tls-cert=b"], "--tls-key"),
        (&["--tls-ca=a", "--tls-key=c"], "--tls-cert"),
        (&["--tls-server-name=d"], "--tls-ca"),
        (&["--tls-verify-names=false"], "--tls-ca"),
        (&["--user=u"], "--password-file"),
    ] {
        let error = access(arguments).expect_err("refused");
        assert!(error.contains(missing), "{arguments:?}: {error}");
    }
}

#[test]
fn a_settings_file_is_believed_but_for_what_is_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let password = file(folder.path(), "password", "of the file\n");
    let text = format!(
        "[cluster]\ncontact_points = [\"10.0.0.1:9042\"]\nusername = \"helenus\"\npassword_file = {password:?}\n\
         [cluster.tls]\nca = \"theirs.pem\"\n[links]\nconnect_timeout_ms = 700\n"
    );
    let config_file = file(folder.path(), "helenus.toml", &text);
    let of_file = ["--config", &config_file];
    let (config, by) = settings(&of_file);
    let cluster = &config.cluster;
    assert_eq!(cluster.contact_points, ["10.0.0.1:9042"]);
    assert_eq!(cluster.username.as_deref(), Some("helenus"));
    let password = |config: &Config| {
        config
            .cluster
            .password
            .as_ref()
            .map(|of| of.expose().to_owned())
    };
    assert_eq!(password(&config).as_deref(), Some("of the file"));
    let tls = cluster.tls.as_ref().expect("TLS");
    assert!(tls.ca == Path::new("theirs.pem") && tls.verify_names);
    assert_eq!(config.links.connect_timeout_ms, 700);
    assert_eq!(by, GivenBy::Settings);

    let own_password = file(folder.path(), "own", "my own\r\n");
    let more = [
        "--contact=10.0.0.2:9042,10.0.0.3:9042",
        "--user=admin",
        "--password-file",
        &own_password,
        "--tls-ca=mine.pem",
    ];
    let (config, by) = settings(&[&of_file[..], &more].concat());
    let cluster = &config.cluster;
    assert_eq!(cluster.contact_points, ["10.0.0.2:9042", "10.0.0.3:9042"]);
    assert_eq!(cluster.username.as_deref(), Some("admin"));
    assert_eq!(password(&config).as_deref(), Some("my own"));
    let tls = cluster.tls.as_ref().expect("TLS");
    assert!(tls.ca == Path::new("mine.pem") && tls.verify_names);
    assert_eq!(by, GivenBy::Options);
}

#[test]
fn settings_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |text: &str| {
        let config_file = file(folder.path(), "helenus.toml", text);
        let error = access(&["--config", &config_file])
            .expect("arguments")
            .settings();
        format!("{:#}", error.expect_err("refused"))
    };
    let unknown = refused("[cluster]\nno_such_key = 1\n");
    assert!(
        unknown.contains("helenus.toml is wrong") && unknown.contains("no_such_key"),
        "{unknown}"
    );
    let half = refused("[cluster.tls]\nca = \"a\"\ncertificate = \"b\"\n");
    assert!(
        half.contains("cluster.tls.certificate and cluster.tls.key go together"),
        "{half}"
    );
    let missing = access(&["--config", "/no/such/helenus.toml"]).expect("arguments");
    let error = format!("{:#}", missing.settings().expect_err("refused"));
    assert!(
        error.contains("cannot read the settings file /no/such/helenus.toml"),
        "{error}"
    );
}
