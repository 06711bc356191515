use super::*;

fn settings(text: &str) -> Config {
    Config::from_toml(text).expect("settings")
}

#[test]
fn what_is_bound_stays_and_is_named() {
    let old = settings("");
    let new = settings(
        "[listen]\naddress = '127.0.0.1:1'\nworkers = 3\ndrain_timeout_ms = 5\n\
         [admin]\ntoken = 'new'\n[links]\nper_node = 9\nsilence_ms = 7\n\
         [cluster]\ncontact_points = ['a:1', 'b:2']\n",
    );
    let merged = merge(&old, &new, true).expect("merged");
    assert_eq!(
        merged.kept,
        [
            "cluster.contact_points",
            "links.per_node",
            "listen.address",
            "listen.workers"
        ]
    );
    let mut changed = merged.changed;
    changed.sort();
    assert_eq!(
        changed,
        ["admin.token", "links.silence_ms", "listen.drain_timeout_ms"]
    );
    let config = merged.config;
    assert_eq!(config.listen.address, old.listen.address);
    assert_eq!(config.listen.workers, old.listen.workers);
    assert_eq!(config.links.per_node, old.links.per_node);
    assert_eq!(config.cluster.contact_points, old.cluster.contact_points);
    assert_eq!(config.admin.token.as_deref(), Some("new"));
    assert_eq!(config.links.silence_ms, 7);
    assert_eq!(config.listen.drain_timeout_ms, 5);
}

#[test]
fn before_the_first_contact_more_may_change() {
    let new = settings("[cluster]\ncontact_points = ['a:1']\n[links]\nper_node = 9\n");
    let merged = merge(&settings(""), &new, false).expect("merged");
    assert!(merged.kept.is_empty());
    assert_eq!(merged.config.cluster.contact_points, ["a:1"]);
    assert_eq!(merged.config.links.per_node, 9);
}

#[test]
fn sections_may_come_and_go() {
    let tls = settings("[listen.tls]\ncertificate = 'c'\nkey = 'k'\n");
    let merged = merge(&settings(""), &tls, true).expect("merged");
    assert_eq!(merged.changed, ["listen.tls"]);
    assert!(merged.config.listen.tls.is_some());
    let merged = merge(&tls, &settings(""), true).expect("merged");
    assert_eq!(merged.changed, ["listen.tls"]);
    assert!(merged.config.listen.tls.is_none());
    let merged = merge(&tls, &tls, true).expect("merged");
    assert!(merged.changed.is_empty() && merged.kept.is_empty());
}

#[test]
fn every_fixed_key_exists() {
    let all = serde_json::to_value(Config::default()).expect("a value");
    for key in FIXED.iter().chain(FIXED_ONCE_CONNECTED) {
        let pointer = format!("/{}", key.replace('.', "/"));
        assert!(all.pointer(&pointer).is_some(), "{key}");
    }
}
