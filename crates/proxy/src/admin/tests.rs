use super::*;

/// Before any node has responded.
fn admin(settings: &str) -> Admin {
    let config = crate::config::from_toml(settings).expect("settings");
    let shared = crate::testing::process(config);
    let shared = Arc::new(shared);
    let failure = "10.0.0.1:9042: refused".to_owned();
    shared.contact_failure.store(Some(Arc::new(failure)));
    Admin {
        shared,
        started: SystemTime::now(),
    }
}

fn ask(admin: &Admin, uri: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = admin.answer(&request.body(()).expect("a request"));
    let status = answer.status().as_u16();
    (status, text_of(answer))
}

fn text_of(answer: Answer) -> String {
    use http_body_util::BodyExt;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let body = runtime
        .expect("a runtime")
        .block_on(answer.into_body().collect());
    let Ok(body) = body;
    String::from_utf8(body.to_bytes().to_vec()).expect("a text")
}

const TOKEN: &str = "[admin]\naddress = '0.0.0.0:9180'\ntoken = 's3cret'\n";

#[test]
fn probes_need_no_token_and_tell_strangers_no_names() {
    let admin = admin(TOKEN);
    let host = ("Host", "10.1.2.3:9180");
    assert_eq!(ask(&admin, "/health", &[host]).0, 200);
    let (status, reason) = ask(&admin, "/ready", &[host]);
    assert_eq!(status, 503);
    assert!(reason.contains("cluster.contact_points"), "{reason}");
    assert!(!reason.contains("10.0.0.1"), "{reason}");
    let known = ("Authorization", "Bearer s3cret");
    let (status, reason) = ask(&admin, "/ready", &[host, known]);
    assert_eq!(status, 503);
    assert!(reason.contains("10.0.0.1:9042: refused"), "{reason}");
}

#[test]
fn the_page_needs_no_token_and_holds_no_data() {
    let admin = admin(TOKEN);
    assert_eq!(ask(&admin, "/", &[]), (200, DASHBOARD.to_owned()));
}

#[test]
fn data_needs_the_token_and_takes_it_only_from_the_header() {
    let admin = admin(TOKEN);
    for path in [
        "/metrics",
        "/api/snapshot",
        "/api/keys",
        "/api/rules",
        STATEMENTS,
    ] {
        assert_eq!(ask(&admin, path, &[]).0, 401, "{path}");
        assert_eq!(ask(&admin, path, &[("Authorization", "Bearer x")]).0, 401);
        let known = ("Authorization", "Bearer s3cret");
        assert_eq!(ask(&admin, path, &[known]).0, 200, "{path}");
        let sign = if path.contains('?') { '&' } else { '?' };
        let in_address = format!("{path}{sign}token=s3cret");
        assert_eq!(ask(&admin, &in_address, &[]).0, 401, "{in_address}");
    }
}

#[test]
fn without_a_token_foreign_names_are_refused() {
    let admin = admin("[admin]\nhosts = ['helenus.internal']\n");
    for path in [
        "/",
        "/health",
        "/ready",
        "/metrics",
        "/api/snapshot",
        "/api/keys",
        "/api/rules",
        STATEMENTS,
    ] {
        let (status, text) = ask(&admin, path, &[("Host", "rebound.example:9180")]);
        assert_eq!(status, 403, "{path}");
        assert!(text.contains("admin.hosts"), "{text}");
        for host in ["127.0.0.1:9180", "localhost", "helenus.internal:80"] {
            assert_ne!(ask(&admin, path, &[("Host", host)]).0, 403, "{path} {host}");
        }
        // The name in the request line takes precedence over the Host header.
        let absolute = format!("http://rebound.example{path}");
        assert_eq!(ask(&admin, &absolute, &[("Host", "localhost")]).0, 403);
    }
}

const STATEMENTS: &str = "/api/statements?table=shop.orders";

#[test]
fn statements_of_a_table_are_asked_for_by_its_name() {
    let admin = admin("");
    assert_eq!(ask(&admin, STATEMENTS, &[]), (200, "[]".to_owned()));
    for unnamed in ["/api/statements", "/api/statements?table=orders"] {
        let (status, text) = ask(&admin, unnamed, &[]);
        assert_eq!(status, 400, "{unnamed}");
        assert!(text.contains("keyspace.table"), "{text}");
    }
}
