use super::*;
use helenus_wire::Consistency;

#[test]
fn secrets_are_not_shown_whatever_is_printed() {
    let text = "[cluster]\nusername = 'u'\npassword = 'hunter2'\n[admin]\ntoken = 'hunter3'\n";
    let config = from_toml(text).expect("settings");
    assert_eq!(config.control_token().expect("a token"), b"\0u\0hunter2");
    let toml = toml::to_string(&config).expect("TOML");
    let json = serde_json::to_string(&config).expect("JSON");
    for shown in [format!("{config:?}"), toml.clone(), json] {
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("<redacted>"), "{shown}");
    }
    // Printed placeholders are not accepted as secrets.
    let error = from_toml(&toml).expect_err("no secret").to_string();
    assert!(error.contains("put it in again"), "{error}");
}

#[test]
fn errors_name_the_key_and_quote_no_secret() {
    for (text, line, key, word) in [
        (
            "[cluster]\npassword = 42\n",
            2,
            "cluster.password",
            "quotes",
        ),
        (
            "[cluster]\n\npassword = hunter2\n",
            3,
            "cluster.password",
            "",
        ),
        (
            "[cluster]\npasswrod = 'hunter2'\n",
            2,
            "cluster.passwrod",
            "passwrod",
        ),
        ("cluster.pass = 'hunter2'\n", 1, "cluster.pass", "pass"),
        ("[admin]\ntoken = 'hunter2\n", 2, "admin.token", ""),
        ("[admin]\ntoken = ['hunter2']\n", 2, "admin.token", "quotes"),
        ("[listen]\nworkers = 'two'\n", 2, "listen.workers", "two"),
        ("[listen\n", 1, "listen", ""),
        ("# a comment\n[lisp]\nworkers = 2\n", 2, "lisp", "lisp"),
    ] {
        let wrong = from_toml(text).expect_err(text);
        assert_eq!((wrong.line, wrong.key.as_str()), (line, key), "{wrong}");
        assert!(wrong.message.contains(word), "{wrong}");
        let shown = format!("{wrong} {wrong:?}");
        assert!(
            !shown.contains("hunter") && !shown.contains("42"),
            "{shown}"
        );
    }
}

#[test]
fn a_secret_and_its_file_exclude_each_other() {
    for (text, word) in [
        (
            "[cluster]\nusername = 'u'\npassword = 'p'\npassword_file = '/p'\n",
            "cluster.password_file",
        ),
        (
            "[admin]\ntoken = 't'\ntoken_file = '/t'\n",
            "admin.token_file",
        ),
        ("[cluster]\npassword_file = '/p'\n", "cluster.username"),
        ("[admin]\naddress = '0.0.0.0:1'\n", "admin.token"),
        ("[admin]\ntoken = ''\n", "admin.token is empty"),
    ] {
        let problems = from_toml(text).expect(text).problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(word), "{problems:?}");
    }
    for text in [
        "[cluster]\nusername = 'u'\npassword_file = '/p'\n",
        "[admin]\naddress = '0.0.0.0:1'\ntoken_file = '/t'\n",
    ] {
        assert!(from_toml(text).expect(text).problems().is_empty());
    }
}

#[test]
fn levels_of_the_local_data_centre_stay_there_unless_another_setting_says_so() {
    let leaves = |text: &str, level: u16, serial: Option<u16>| {
        let config = from_toml(&format!("[cluster]\n{text}")).expect(text);
        let serial = serial.map(Consistency);
        config.cluster.may_leave_dc(Consistency(level), serial)
    };
    let (allow, for_local) = ("allow_remote_dc", "allow_remote_dc_for_local_levels");
    let all = 0..=10;
    let local = [6, 9, 10];
    for level in all {
        assert!(!leaves("", level, None), "{level}");
        assert!(!leaves(&format!("{for_local} = true"), level, None));
        let expected = !local.contains(&level);
        assert_eq!(leaves(&format!("{allow} = true"), level, None), expected);
        let everything = format!("{allow} = true\n{for_local} = true");
        assert!(leaves(&everything, level, Some(9)), "{level}");
    }
    assert!(leaves(&format!("{allow} = true"), 4, Some(8)));
    assert!(!leaves(&format!("{allow} = true"), 4, Some(9)));
}

#[test]
fn the_line_break_at_the_end_of_a_file_does_not_count() {
    let path = std::env::temp_dir().join(format!("helenus-secret-{}", std::process::id()));
    let read = |content: &[u8]| {
        std::fs::write(&path, content).expect("written");
        secret_of(&path).map(|secret| secret.expose().to_owned())
    };
    for content in ["s3cret", "s3cret\n", "s3cret\r\n"] {
        assert_eq!(read(content.as_bytes()).expect(content), "s3cret");
    }
    assert_eq!(read(b" s3 cret \n\n").expect("text"), " s3 cret \n");
    for (content, why) in [
        (&b""[..], "empty"),
        (b"\n", "empty"),
        (b"s3cret\xFF", "UTF-8"),
    ] {
        let error = format!("{:#}", read(content).expect_err(why));
        assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
    }
    std::fs::remove_file(&path).expect("removed");
    assert!(secret_of(&path).is_err());
}

#[test]
fn the_packaged_settings_and_the_examples_are_accepted() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut files = vec![packaging.join("etc/helenus.toml")];
    for entry in std::fs::read_dir(packaging.join("examples")).expect("packaging/examples") {
        files.push(entry.expect("a file").path());
    }
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let config = from_toml(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let problems = config.problems();
        assert!(problems.is_empty(), "{}: {problems:?}", file.display());
    }
}

#[test]
fn names_of_rules_are_one_or_a_list() {
    let of = |names: &str| {
        let text = format!("[[rules]]\nname = 'r'\nin_flight = 1\n{names}\n");
        from_toml(&text)
    };
    let names = |text: &str| of(text).expect("settings").rules.remove(0);
    let one = names("role = 'a'\nkeyspace = 'k'\ntable = ['t', 'u']");
    assert_eq!(one.role, Names::from("a"));
    assert_eq!(one.table, Names::from(["t", "u"]));
    let config = Config {
        rules: vec![one.clone()],
        ..Config::default()
    };
    let printed = toml::to_string(&config).expect("TOML");
    assert!(printed.contains("role = \"a\"\n"), "{printed}");
    assert!(!printed.contains("\nclient = "), "{printed}");
    assert_eq!(from_toml(&printed).expect("settings").rules, [one]);
    let error = of("role = 7").expect_err("no name").to_string();
    assert!(error.contains("a name, or a list of names"), "{error}");
    let unknown = of("roles = 'a'").expect_err("unknown");
    assert_eq!((unknown.line, &*unknown.key), (4, "rules.roles"));
}

#[test]
fn other_proxies_are_listed_or_named() {
    let problems = |text: &str| from_toml(text).expect("settings").problems();
    for good in [
        "proxies_dns = 'a.b.svc:9042'",
        "proxies = ['10.0.0.1:9042']",
    ] {
        assert!(
            problems(&format!("[listen]\n{good}\n")).is_empty(),
            "{good}"
        );
    }
    for (bad, why) in [
        ("proxies_dns = 'proxies'", "host:port"),
        ("proxies_dns = ':9042'", "host:port"),
        ("proxies_dns = 'proxies:0'", "host:port"),
        ("proxies_dns = 'proxies:x'", "host:port"),
        (
            "proxies_dns = 'proxies:1'\nproxies = ['10.0.0.1:9042']",
            "both set",
        ),
    ] {
        let problems = problems(&format!("[listen]\n{bad}\n"));
        assert!(
            problems.len() == 1 && problems[0].contains(why),
            "{bad}: {problems:?}"
        );
    }
    assert!(from_toml("[listen]\nproxies_found = []\n").is_err());
}

#[test]
fn types_are_told_in_plain_words() {
    let said = |text: &str| from_toml(text).expect_err(text).to_string();
    for (text, expected) in [
        (
            "[limits]\nclients_max = -3",
            "line 2, limits.clients_max: invalid value: integer `-3`, expected a whole number, 0 or more",
        ),
        (
            "[assignment]\nreports_port = 70000",
            "line 2, assignment.reports_port: invalid value: integer `70000`, expected a whole number from 0 to \
             65535",
        ),
        (
            "[layouts]\nenabled = 1",
            "line 2, layouts.enabled: invalid type: integer `1`, expected true or false",
        ),
    ] {
        assert_eq!(said(text), expected);
    }
}
