//! A proxy's settings as commands are given them.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, FromArgMatches};
use helenus_proxy::Config;
use helenus_proxy::config::{WrongSettings, admin_address};
use helenus_proxy::reference::{lab_keys, takes_text};
use tracing_subscriber::EnvFilter;

/// Environment variables with names of their own, and their settings. `clap` does not read them: to it they would
/// be flags, and override `--set`.
const SHORT_NAMES: [(&str, &str); 6] = [
    ("HELENUS_LISTEN", "listen.address"),
    ("HELENUS_ADVERTISE", "listen.advertise"),
    ("HELENUS_CONTACT_POINTS", "cluster.contact_points"),
    ("HELENUS_ADMIN", "admin.address"),
    ("HELENUS_WORKERS", "listen.workers"),
    ("HELENUS_LOG", "log.filter"),
];

/// Settings: defaults, then the file, then the environment, then flags.
#[derive(Args, Clone)]
pub struct Settings {
    /// Settings file (TOML).
    #[arg(short, long, env = "HELENUS_CONFIG")]
    config: Option<PathBuf>,
    /// Address and port for clients (listen.address; HELENUS_LISTEN).
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Address that drivers see (listen.advertise; HELENUS_ADVERTISE).
    #[arg(long)]
    advertise: Option<SocketAddr>,
    /// Nodes to start from, as host:port, separated by commas (cluster.contact_points;
    /// HELENUS_CONTACT_POINTS).
    #[arg(long, value_delimiter = ',')]
    contact_points: Vec<String>,
    /// Address and port of the admin server, or `off` (admin.address; HELENUS_ADMIN).
    #[arg(long)]
    admin: Option<AdminAddress>,
    /// Worker threads (listen.workers; HELENUS_WORKERS).
    #[arg(long)]
    workers: Option<usize>,
    /// What to log, for instance `info` or `info,helenus_engine=debug` (log.filter; HELENUS_LOG).
    #[arg(long)]
    log: Option<String>,
    /// Any other setting, as section.key=value with a TOML value, where texts need no quotes; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// None: the admin server is off.
#[derive(Clone, Debug)]
struct AdminAddress(Option<SocketAddr>);

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<AdminAddress, String> {
        admin_address(text).map(AdminAddress)
    }
}

impl Settings {
    /// Those of `helenus serve --config FILE`, with what the environment adds.
    pub fn of_file(path: &Path) -> Result<Settings> {
        let command = Settings::augment_args(clap::Command::new("helenus").no_binary_name(true));
        let given = [OsStr::new("--config"), path.as_os_str()];
        let matches = command.try_get_matches_from(given)?;
        Ok(Settings::from_arg_matches(&matches)?)
    }

    /// Merges all sources; an error names the source.
    pub fn load(&self) -> Result<Config> {
        self.merged(std::env::vars_os())
    }

    fn merged(&self, variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Config> {
        let mut table = toml::Table::new();
        if let Some(path) = &self.config {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the settings file {}", path.display()))?;
            // Validated alone first, so that an error is shown with its line.
            helenus_proxy::config::from_toml(&text)
                .with_context(|| format!("{} is wrong", path.display()))?;
            table = text.parse()?;
        }
        put_environment(&mut table, variables)?;
        put_all(&mut table, &self.set)?;
        if !cfg!(feature = "lab") {
            refuse_lab(&table)?;
        }
        let given = "as environment variables (HELENUS_…) and --set give them";
        let mut config = of_table(&table).with_context(|| format!("the settings, {given}"))?;
        if let Some(listen) = self.listen {
            config.listen.address = listen;
        }
        if let Some(advertise) = self.advertise {
            config.listen.advertise = Some(advertise);
        }
        if !self.contact_points.is_empty() {
            config.cluster.contact_points = self.contact_points.clone();
        }
        if let Some(admin) = &self.admin {
            config.admin.address = admin.0;
        }
        if let Some(workers) = self.workers {
            config.listen.workers = workers;
        }
        if let Some(filter) = &self.log {
            config.log.filter = filter.clone();
        }
        log_filter(&config.log.filter)?;
        Ok(config)
    }
}

/// Settings of the environment; other programs' variables may be anything.
fn put_environment(
    table: &mut toml::Table,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<()> {
    let mut found: Vec<_> = variables
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let (rank, key) = setting_of(&name)?;
            Some((rank, name, key, value))
        })
        .collect();
    // The environment has no order. Tables come before their keys, and short names last, so that they count.
    found.sort();
    for (rank, name, key, value) in found {
        let wrong = || format!("the environment variable {name} is wrong");
        let text = value
            .to_str()
            .context("it is not UTF-8")
            .with_context(wrong)?;
        let value = match (rank, key.as_str()) {
            (Rank::Short, "cluster.contact_points") => {
                toml::Value::Array(text.split(',').map(toml::Value::from).collect())
            }
            (_, "listen.advertise") => toml::Value::from(without_needless_brackets(text)),
            // Also if it looks like a number or has quotes, as passwords may.
            (_, key) if takes_text(key) => toml::Value::from(text),
            _ => value_of(text),
        };
        let path: Vec<&str> = key.split('.').collect();
        put(table, &path, value).with_context(wrong)?;
    }
    Ok(())
}

/// `[10.0.0.1]:9042` is what `[$(POD_IP)]:9042` becomes in a pod whose address is none of IPv6.
fn without_needless_brackets(text: &str) -> String {
    let parts = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    match parts {
        Some((address, port)) if address.parse::<Ipv4Addr>().is_ok() => format!("{address}{port}"),
        _ => text.to_owned(),
    }
}

/// The greater one counts if both kinds of variables name a setting.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Long,
    Short,
}

/// The setting of an environment variable, if it is for one: `HELENUS_CLUSTER__TLS__CA` for `cluster.tls.ca`.
fn setting_of(name: &str) -> Option<(Rank, String)> {
    if let Some((_, key)) = SHORT_NAMES.iter().find(|(short, _)| *short == name) {
        return Some((Rank::Short, (*key).to_owned()));
    }
    let path = name.strip_prefix("HELENUS_")?;
    let is_long = path.contains("__");
    is_long.then(|| (Rank::Long, path.to_lowercase().replace("__", ".")))
}

/// Checks that this version supports these settings (`section.key=value`) and accepts their values.
pub fn judge(settings: &[String]) -> Result<()> {
    config_of(settings).map(|_| ())
}

/// The defaults with these settings (`section.key=value`).
pub fn config_of(settings: &[String]) -> Result<Config> {
    let mut table = toml::Table::new();
    put_all(&mut table, settings)?;
    of_table(&table)
}

/// Settings as a file. Settings that only the test tools set are left out unless they have set them: others
/// would refuse it.
pub fn to_toml(config: &Config) -> Result<String> {
    let mut table = toml::Table::try_from(config)?;
    let defaults = toml::Table::try_from(Config::default())?;
    for name in lab_keys() {
        let Some((section, key)) = name.split_once('.') else {
            continue;
        };
        let default = defaults.get(section).and_then(|of| of.get(key));
        if let Some(of) = table.get_mut(section).and_then(toml::Value::as_table_mut)
            && of.get(key) == default
        {
            of.remove(key);
        }
    }
    Ok(table.to_string())
}

/// Refuses what only the test tools set.
fn refuse_lab(table: &toml::Table) -> Result<()> {
    let is_given = |key: &String| {
        let (section, key) = key.split_once('.')?;
        table.get(section)?.as_table()?.get(key)
    };
    match lab_keys().iter().find(|key| is_given(key).is_some()) {
        Some(key) => bail!(
            "{key} is a constant of this program, which the test tools (helenus-lab) change to compare: leave it out"
        ),
        None => Ok(()),
    }
}

fn of_table(table: &toml::Table) -> Result<Config> {
    // Line numbers are meaningless here, since the text is generated.
    helenus_proxy::config::from_toml(&table.to_string())
        .map_err(|WrongSettings { key, message, .. }| anyhow!("{key} is wrong: {message}"))
}

fn put_all(table: &mut toml::Table, settings: &[String]) -> Result<()> {
    for setting in settings {
        let parts = setting.split_once('=').and_then(|(path, value)| {
            let (section, key) = path.trim().split_once('.')?;
            Some((section, key, value))
        });
        let Some((section, key, value)) = parts else {
            // Omits the value, which may be a secret.
            let path = setting.split('=').next().unwrap_or_default();
            bail!("--set {path}: write section.key=value");
        };
        let path: Vec<&str> = std::iter::once(section).chain(key.split('.')).collect();
        let value = match value_of(value) {
            // A password of digits, for instance.
            other if !other.is_str() && takes_text(&format!("{section}.{key}")) => value.into(),
            value => value,
        };
        put(table, &path, value).with_context(|| format!("--set {section}.{key} is wrong"))?;
    }
    Ok(())
}

/// A TOML value; bare words are strings.
fn value_of(text: &str) -> toml::Value {
    format!("value = {text}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut t| t.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn put(table: &mut toml::Table, path: &[&str], value: toml::Value) -> Result<()> {
    let Some((last, sections)) = path.split_last() else {
        return Ok(());
    };
    let mut at = table;
    for name in sections {
        at = at
            .entry(*name)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .with_context(|| format!("{name} is not a section"))?;
    }
    at.insert((*last).to_owned(), value);
    Ok(())
}

/// The filter of the log, as `log.filter` says it.
pub fn log_filter(text: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(text).with_context(|| format!("log.filter {text:?} is not a filter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_settings_pass_and_unknown_ones_are_named() {
        assert!(judge(&[]).is_ok());
        assert!(judge(&["listen.workers=2".into()]).is_ok());
        for wrong in [
            "listen.wrokers=2",
            "listen.workers=two",
            "workers",
            "no_such.key=1",
        ] {
            assert!(judge(&[wrong.into()]).is_err(), "{wrong}");
        }
        let error = format!("{:#}", judge(&["listen.wrokers=2".into()]).unwrap_err());
        assert!(error.contains("wrokers"), "{error}");
    }

    #[test]
    fn what_only_the_test_tools_set_is_refused_by_name() {
        let refused = |settings: &[&str]| {
            let mut table = toml::Table::new();
            let settings: Vec<String> = settings.iter().map(|text| (*text).into()).collect();
            put_all(&mut table, &settings).expect("settings");
            refuse_lab(&table).map_err(|error| error.to_string())
        };
        assert_eq!(
            refused(&["links.per_node=4", "scheduling.enabled=false"]),
            Ok(())
        );
        let error = refused(&["links.per_node=4", "scheduling.window_max=9"]).unwrap_err();
        let printed = to_toml(&Config::default()).expect("text").parse();
        let printed: toml::Table = printed.expect("TOML");
        assert!(refuse_lab(&printed).is_ok() && of_table(&printed).is_ok());
        let compared = config_of(&["scheduling.window_max=9".into()]).expect("settings");
        assert!(to_toml(&compared).expect("text").contains("window_max = 9"));
        assert!(
            error.starts_with("scheduling.window_max is a constant"),
            "{error}"
        );
    }

    fn variables(given: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let pairs = given.iter();
        pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    /// The settings of `helenus serve` from these flags and variables.
    fn given(flags: &[&str], environment: &[(&str, &str)]) -> Result<Config> {
        let command = Settings::augment_args(clap::Command::new("helenus").no_binary_name(true));
        let matches = command.try_get_matches_from(flags)?;
        Settings::from_arg_matches(&matches)?.merged(variables(environment).into_iter())
    }

    /// Key and default of each setting of the reference, rules aside, which are not in the environment.
    fn reference() -> Vec<(String, String)> {
        let page = helenus_proxy::reference::markdown();
        let rows = page.lines().filter_map(|line| {
            let (key, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
            let (default, _) = rest.split_once(" | ")?;
            let is_setting = key.contains('.') && !key.starts_with("rules.");
            is_setting.then(|| (key.to_owned(), default.trim_matches('`').to_owned()))
        });
        rows.collect()
    }

    /// A value other than this default, as its variable has it and as JSON does.
    fn another(key: &str, default: &str) -> (String, serde_json::Value) {
        use serde_json::json;
        // An address, a path and any other text.
        let text = "127.0.0.1:1";
        let shown = match key.rsplit('.').next() {
            Some("password" | "token" | "read_token" | "reports_secret") => "<redacted>",
            _ => text,
        };
        if takes_text(key) {
            return (text.to_owned(), json!(shown));
        }
        let json: serde_json::Value = serde_json::from_str(default).unwrap_or_default();
        let value = match json {
            serde_json::Value::Bool(is_on) => json!(!is_on),
            serde_json::Value::Number(number) => match number.as_u64() {
                Some(number) => json!(number + 1),
                None => json!(number.as_f64().expect("a number") + 0.5),
            },
            serde_json::Value::Array(_) => json!([text]),
            serde_json::Value::Object(_) => return ("{ a = 'b' }".to_owned(), json!({"a": "b"})),
            serde_json::Value::String(_) => return ("window".to_owned(), json!("window")),
            serde_json::Value::Null => json!(1),
        };
        (value.to_string(), value)
    }

    #[test]
    fn every_setting_of_the_reference_has_its_variable() {
        let reference = reference();
        assert!(reference.len() > 80, "{} settings", reference.len());
        let mut environment = Vec::new();
        for (key, default) in &reference {
            let name = format!("HELENUS_{}", key.to_uppercase().replace('.', "__"));
            environment.push((OsString::from(name), another(key, default).0.into()));
        }
        let mut table = toml::Table::new();
        put_environment(&mut table, environment.into_iter()).expect("settings");
        let config = serde_json::to_value(of_table(&table).expect("settings")).expect("JSON");
        for (key, default) in &reference {
            let found = config.pointer(&format!("/{}", key.replace('.', "/")));
            assert_eq!(found, Some(&another(key, default).1), "{key}");
        }
    }

    #[test]
    fn texts_of_the_environment_are_taken_as_they_are() {
        for text in [
            "123456",
            "true",
            "'quoted'",
            "\"quoted\"",
            "[a]",
            "# no comment",
            "",
            " x ",
        ] {
            let environment = [
                ("HELENUS_CLUSTER__PASSWORD", text),
                ("HELENUS_CLUSTER__LOCAL_DC", text),
                ("HELENUS_TRACING__RESOURCE__TEAM", text),
            ];
            let config = given(&[], &environment).expect(text);
            let password = config.cluster.password.expect(text);
            assert_eq!(password.expose(), text);
            assert_eq!(config.cluster.local_dc.as_deref(), Some(text));
            assert_eq!(config.tracing.resource["team"], text);
        }
        // Everything else is TOML, or a bare word.
        let environment = [
            ("HELENUS_LIMITS__CLIENTS_MAX", "0x10"),
            ("HELENUS_AGGREGATION__MODE", "window"),
            ("HELENUS_LISTEN__PROXIES", "['10.0.0.1:9042']"),
            ("HELENUS_CLUSTER__CONTACT_POINTS", "['a:1', 'b:2']"),
        ];
        let config = given(&[], &environment).expect("settings");
        assert_eq!(config.limits.clients_max, 16);
        assert_eq!(config.listen.proxies.len(), 1);
        assert_eq!(config.cluster.contact_points, ["a:1", "b:2"]);
    }

    #[test]
    fn an_address_of_a_pod_may_have_brackets_of_either_family() {
        for (text, meant) in [
            ("[10.1.2.3]:9042", "10.1.2.3:9042"),
            ("10.1.2.3:9042", "10.1.2.3:9042"),
            ("[fd00::1]:9042", "[fd00::1]:9042"),
        ] {
            let config = given(&[], &[("HELENUS_ADVERTISE", text)]).expect(text);
            assert_eq!(config.listen.advertise, meant.parse().ok());
        }
        for wrong in ["[10.1.2.3:9042", "[name]:9042", "[10.1.2.3]9042"] {
            assert!(
                given(&[], &[("HELENUS_ADVERTISE", wrong)]).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn texts_of_flags_need_no_quotes() {
        for (given_text, meant) in [
            ("123456", "123456"),
            ("true", "true"),
            ("[a]", "[a]"),
            ("'quoted'", "quoted"),
            ("bare words", "bare words"),
        ] {
            let flag = format!("--set=cluster.password={given_text}");
            let config = given(&[&flag], &[]).expect(given_text);
            let password = config.cluster.password.expect(given_text);
            assert_eq!(password.expose(), meant);
        }
    }

    #[test]
    fn the_admin_server_can_be_off() {
        assert!(given(&[], &[]).expect("settings").admin.address.is_some());
        for (flags, environment) in [
            (&["--admin=off"][..], &[][..]),
            (&["--set=admin.address=off"], &[]),
            (&["--set=admin.address='off'"], &[]),
            (&[], &[("HELENUS_ADMIN", "off")]),
            (&[], &[("HELENUS_ADMIN__ADDRESS", "off")]),
        ] {
            let config = given(flags, environment).expect("settings");
            assert_eq!(config.admin.address, None);
            // It is written as it is read.
            let written = toml::to_string(&config).expect("TOML");
            let again = helenus_proxy::config::from_toml(&written).expect("settings");
            assert_eq!(again.admin.address, None);
        }
        let wrong = given(&["--set=admin.address=none"], &[]).expect_err("neither");
        assert!(format!("{wrong:#}").contains("nor off"), "{wrong:#}");
    }

    #[test]
    fn flags_override_the_environment() {
        let short = [
            ("HELENUS_LISTEN", "10.0.0.1:1"),
            ("HELENUS_ADVERTISE", "10.0.0.1:2"),
            ("HELENUS_CONTACT_POINTS", "a:1,b:2"),
            ("HELENUS_ADMIN", "10.0.0.1:3"),
            ("HELENUS_WORKERS", "4"),
            ("HELENUS_LOG", "debug"),
        ];
        let long = SHORT_NAMES.map(|(_, key)| key.to_uppercase().replace('.', "__"));
        let long = long.map(|path| format!("HELENUS_{path}"));
        let values = [
            "10.0.0.2:1",
            "10.0.0.2:2",
            "['c:1']",
            "10.0.0.2:3",
            "5",
            "warn",
        ];
        let long: Vec<(&str, &str)> = long.iter().map(String::as_str).zip(values).collect();
        let set = [
            "--set=listen.address=10.0.0.3:1",
            "--set=listen.advertise=10.0.0.3:2",
            "--set=cluster.contact_points=['d:1']",
            "--set=admin.address=10.0.0.3:3",
            "--set=listen.workers=6",
            "--set=log.filter=error",
        ];
        let named = [
            "--listen=10.0.0.4:1",
            "--advertise=10.0.0.4:2",
            "--contact-points=e:1",
            "--admin=10.0.0.4:3",
            "--workers=7",
            "--log=info",
        ];
        let both = [&short[..], &long[..]].concat();
        for (flags, environment, host, nodes, workers, filter) in [
            (&[][..], &short[..], 1, &["a:1", "b:2"][..], 4, "debug"),
            (&[], &long, 2, &["c:1"], 5, "warn"),
            (&[], &both, 1, &["a:1", "b:2"], 4, "debug"),
            (&set, &both, 3, &["d:1"], 6, "error"),
            (&named, &both, 4, &["e:1"], 7, "info"),
        ] {
            let config = given(flags, environment).expect("settings");
            let at = |port| format!("10.0.0.{host}:{port}").parse().ok();
            assert_eq!(Some(config.listen.address), at(1), "{flags:?}");
            assert_eq!(config.listen.advertise, at(2), "{flags:?}");
            assert_eq!(config.admin.address, at(3), "{flags:?}");
            assert_eq!(config.cluster.contact_points, nodes, "{flags:?}");
            assert_eq!(config.listen.workers, workers, "{flags:?}");
            assert_eq!(config.log.filter, filter, "{flags:?}");
        }
    }

    #[test]
    fn what_others_put_into_the_environment_is_not_looked_at() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(vec![b'x', 0xFF]);
        let put = |variables: Vec<(OsString, OsString)>| {
            let mut table = toml::Table::new();
            put_environment(&mut table, variables.into_iter()).map(|()| table)
        };
        let table = put(vec![
            ("OTHER".into(), odd()),
            (odd(), "1".into()),
            ("HELENUS_LISTEN__WORKERS".into(), "2".into()),
        ]);
        let table = table.expect("settings");
        assert_eq!(table["listen"]["workers"], toml::Value::Integer(2));
        let wrong = put(vec![("HELENUS_LISTEN__ADDRESS".into(), odd())]);
        let wrong = format!("{:#}", wrong.expect_err("not UTF-8"));
        assert!(wrong.contains("HELENUS_LISTEN__ADDRESS"), "{wrong}");
    }
}
