use super::*;

fn settings(text: &str) -> Config {
    crate::config::from_toml(text).expect("settings")
}

#[test]
fn what_is_bound_stays_and_is_named() {
    let old = settings("");
    let new = settings(
        "[listen]\naddress = '127.0.0.1:1'\nworkers = 3\ndrain_timeout_ms = 5\n\
         [admin]\ntoken = 'new'\n[links]\nper_node = 9\nsilence_ms = 7\n\
         [cluster]\ncontact_points = ['a:1', 'b:2']\n",
    );
    let merged = merge(&old, new.clone(), true).expect("merged");
    assert_eq!(
        merged.kept,
        ["links.per_node", "listen.address", "listen.workers"]
    );
    let mut changed = merged.changed;
    changed.sort();
    assert_eq!(
        changed,
        [
            "admin.token",
            "cluster.contact_points",
            "links.silence_ms",
            "listen.drain_timeout_ms"
        ]
    );
    let config = merged.config;
    assert_eq!(config.listen.address, old.listen.address);
    assert_eq!(config.listen.workers, old.listen.workers);
    assert_eq!(config.links.per_node, old.links.per_node);
    assert_eq!(config.cluster.contact_points, new.cluster.contact_points);
    assert_eq!(config.admin.token.expect("a token").expose(), "new");
    assert_eq!(config.links.silence_ms, 7);
    assert_eq!(config.listen.drain_timeout_ms, 5);
}

#[test]
fn before_the_first_contact_more_may_change() {
    let new = settings("[links]\nper_node = 9\n");
    let merged = merge(&settings(""), new.clone(), false).expect("merged");
    assert!(merged.kept.is_empty());
    assert_eq!(merged.config.links.per_node, 9);
}

#[test]
fn sections_may_come_and_go() {
    let tls = settings("[listen.tls]\ncertificate = 'c'\nkey = 'k'\n");
    let merged = merge(&settings(""), tls.clone(), true).expect("merged");
    assert_eq!(merged.changed, ["listen.tls"]);
    assert!(merged.config.listen.tls.is_some());
    let merged = merge(&tls, settings(""), true).expect("merged");
    assert_eq!(merged.changed, ["listen.tls"]);
    assert!(merged.config.listen.tls.is_none());
    let merged = merge(&tls, tls.clone(), true).expect("merged");
    assert!(merged.changed.is_empty() && merged.kept.is_empty());
}

#[test]
fn every_fixed_key_exists() {
    let all = serde_json::to_value(Config::default()).expect("a value");
    for Fixed { key, .. } in FIXED.iter().chain(FIXED_ONCE_CONNECTED) {
        let pointer = format!("/{}", key.replace('.', "/"));
        assert!(all.pointer(&pointer).is_some(), "{key}");
    }
}

#[test]
fn a_changed_secret_is_noticed_and_named_only() {
    let old = settings("[cluster]\nusername = 'u'\npassword = 'one'\n[admin]\ntoken = 'x'\n");
    let new = settings("[cluster]\nusername = 'u'\npassword = 'two'\n[admin]\ntoken = 'x'\n");
    let merged = merge(&old, new.clone(), true).expect("merged");
    assert_eq!(merged.changed, ["cluster.password"]);
    let password = merged.config.cluster.password.expect("a password");
    assert_eq!(password.expose(), "two");
    let without = merge(&new, settings("[admin]\ntoken = 'x'\n"), true).expect("merged");
    assert_eq!(without.changed, ["cluster.password", "cluster.username"]);
    assert!(without.config.cluster.password.is_none());
    let same = merge(&new, new.clone(), true).expect("merged");
    assert!(same.changed.is_empty() && same.kept.is_empty());
}

#[test]
fn an_address_that_stays_keeps_what_it_needs() {
    let old = settings(
        "[admin]\naddress = '0.0.0.0:1'\ntoken = 'x'\n\
         [listen]\naddress = '0.0.0.0:2'\nadvertise = '10.0.0.1:2'\n",
    );
    let refusal = |text: &str| {
        let wanted = settings(text);
        assert_eq!(wanted.problems(), [""; 0], "fit for a proxy that starts");
        merge(&old, wanted, true).err().map(|e| e.to_string())
    };
    let listen = "[listen]\naddress = '0.0.0.0:2'\nadvertise = '10.0.0.1:2'\n";
    let admin = "[admin]\naddress = '0.0.0.0:1'\ntoken = 'x'\n";
    for (text, key) in [
        (listen.to_owned(), "admin.token"),
        (
            format!("{listen}[admin]\naddress = '127.0.0.1:1'\n"),
            "admin.token",
        ),
        (admin.to_owned(), "listen.advertise"),
    ] {
        let refusal = refusal(&text).expect("refused");
        assert!(refusal.contains(key), "{refusal}");
    }
    let moved = format!("{listen}[admin]\naddress = '127.0.0.1:1'\ntoken = 'y'\n");
    assert_eq!(refusal(&moved), None);
}

#[test]
fn proxies_that_were_found_stay_known_and_are_no_setting() {
    let found: Vec<std::net::SocketAddr> = vec!["10.0.0.1:9042".parse().expect("an address")];
    let mut old = settings("[listen]\nproxies_dns = 'proxies:9042'\n");
    old.listen.proxies_found.clone_from(&found);
    old.listen.proxies_down = 1;
    let again = settings("[listen]\nproxies_dns = 'proxies:9042'\n");
    let merged = merge(&old, again, true).expect("merged");
    assert!(merged.changed.is_empty(), "{:?}", merged.changed);
    assert_eq!(merged.config.other_proxies(), found);
    assert_eq!(merged.config.listen.proxies_down, 1);
    // Until the new name has been looked up.
    let other = settings("[listen]\nproxies_dns = 'others:9042'\n");
    let merged = merge(&old, other, true).expect("merged");
    assert_eq!(merged.changed, ["listen.proxies_dns"]);
    assert_eq!(merged.config.other_proxies(), found);
    let listed = settings("[listen]\nproxies = ['10.0.0.2:9042']\n");
    let merged = merge(&old, listed.clone(), true).expect("merged");
    assert_eq!(merged.config.other_proxies(), listed.listen.proxies);
}

#[test]
fn keys_that_are_gone_from_a_map_are_changes() {
    let text = |resource: &str| settings(&format!("[tracing.resource]\n{resource}"));
    let merged = merge(&text("a = '1'\nb = '2'\n"), text("a = '1'\n"), true).expect("merged");
    assert_eq!(merged.changed, ["tracing.resource.b"]);
    assert_eq!(merged.config.tracing.resource.len(), 1);
    let merged = merge(&text("a = '1'\n"), text("b = '1'\n"), true).expect("merged");
    assert_eq!(merged.changed, ["tracing.resource.a", "tracing.resource.b"]);
}

/// A proxy whose token is in a file, and that file.
fn with_token_file(folder: &std::path::Path) -> (Reloader, PathBuf) {
    let file = folder.join("token");
    std::fs::write(&file, "first").expect("written");
    let mut config = settings(&format!("[admin]\ntoken_file = '{}'\n", file.display()));
    crate::config::read_secrets(&mut config).expect("a token");
    let program = Program {
        load: Box::new(|| bail!("there is none")),
        set_log_filter: Box::new(|_| Ok(())),
        log: Arc::default(),
    };
    let common = Arc::new(crate::testing::process(config));
    (Reloader::new(program, common), file)
}

fn look_at_files(reloader: &mut Reloader) {
    let files = stamps(&reloader.common.settings.load_full());
    reloader.on_files(files);
}

fn token_of(reloader: &Reloader) -> String {
    let settings = reloader.common.settings.load();
    let token = settings.admin.token.as_ref().expect("a token");
    token.expose().to_owned()
}

#[test]
fn a_file_that_could_not_be_used_is_tried_again_and_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut reloader, file) = with_token_file(folder.path());
    std::fs::write(&file, "").expect("written");
    look_at_files(&mut reloader);
    look_at_files(&mut reloader);
    assert_eq!(token_of(&reloader), "first");
    assert!(!reloader.common.last_reload.succeeded());
    let (events, _) = reloader.common.events.from(0);
    let refused = |event: &&crate::records::events::Event| event.kind == Kind::SettingsRefused;
    assert_eq!(events.iter().filter(refused).count(), 1);
    // It is as it was when it was refused, but for what the proxy can do with it.
    reloader.refused = Some("permission denied".to_owned());
    std::fs::write(&file, "second").expect("written");
    reloader.files = stamps(&reloader.common.settings.load());
    look_at_files(&mut reloader);
    assert_eq!(token_of(&reloader), "second");
    assert!(reloader.common.last_reload.succeeded());
}

#[test]
fn other_rights_are_a_change_of_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let (reloader, file) = with_token_file(folder.path());
    let settings = reloader.common.settings.load();
    assert_eq!(stamps(&settings), reloader.files);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("changed");
    assert_ne!(stamps(&settings), reloader.files);
}
