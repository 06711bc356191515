//! A proxy's settings as commands are given them.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, FromArgMatches};
use helenus_proxy::Config;
use helenus_proxy::config::WrongSettings;
use tracing_subscriber::EnvFilter;

/// Settings: defaults, then the file, then the environment, then flags.
#[derive(Args, Clone)]
pub struct Settings {
    /// Settings file (TOML).
    #[arg(short, long, env = "HELENUS_CONFIG")]
    config: Option<PathBuf>,
    /// Address and port for clients (listen.address).
    #[arg(long, env = "HELENUS_LISTEN")]
    listen: Option<SocketAddr>,
    /// Address that drivers see (listen.advertise).
    #[arg(long, env = "HELENUS_ADVERTISE")]
    advertise: Option<SocketAddr>,
    /// Nodes to start from, as host:port, separated by commas (cluster.contact_points).
    #[arg(long, env = "HELENUS_CONTACT_POINTS", value_delimiter = ',')]
    contact_points: Vec<String>,
    /// Address and port of the admin server (admin.address).
    #[arg(long, env = "HELENUS_ADMIN")]
    admin: Option<SocketAddr>,
    /// Worker threads (listen.workers).
    #[arg(long, env = "HELENUS_WORKERS")]
    workers: Option<usize>,
    /// What to log, for instance `info` or `info,helenus_engine=debug` (log.filter).
    #[arg(long, env = "HELENUS_LOG")]
    log: Option<String>,
    /// Any other setting, as section.key=value with a TOML value; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
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
        let mut table = toml::Table::new();
        if let Some(path) = &self.config {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the settings file {}", path.display()))?;
            // Validated alone first, so that an error is shown with its line.
            helenus_proxy::config::from_toml(&text)
                .with_context(|| format!("{} is wrong", path.display()))?;
            table = text.parse()?;
        }
        put_environment(&mut table, std::env::vars_os())?;
        put_all(&mut table, &self.set)?;
        let mut config = of_table(&table)?;
        if let Some(listen) = self.listen {
            config.listen.address = listen;
        }
        if let Some(advertise) = self.advertise {
            config.listen.advertise = Some(advertise);
        }
        if !self.contact_points.is_empty() {
            config.cluster.contact_points = self.contact_points.clone();
        }
        if let Some(admin) = self.admin {
            config.admin.address = Some(admin);
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
    for (name, value) in variables {
        let Some((name, path)) = name
            .to_str()
            .and_then(|name| Some((name, name.strip_prefix("HELENUS_")?)))
        else {
            continue;
        };
        let Some((section, key)) = path.split_once("__") else {
            continue;
        };
        let wrong = || format!("the environment variable {name} is wrong");
        let value = value
            .to_str()
            .context("it is not UTF-8")
            .with_context(wrong)?;
        put(table, &section.to_lowercase(), &key.to_lowercase(), value).with_context(wrong)?;
    }
    Ok(())
}

/// Whether this version supports these settings (`section.key=value`) and accepts their values.
pub fn judge(settings: &[String]) -> Result<()> {
    config_of(settings).map(|_| ())
}

/// The defaults with these settings (`section.key=value`).
pub fn config_of(settings: &[String]) -> Result<Config> {
    let mut table = toml::Table::new();
    put_all(&mut table, settings)?;
    of_table(&table)
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
        put(table, section, key, value)
            .with_context(|| format!("--set {section}.{key} is wrong"))?;
    }
    Ok(())
}

/// Sets `section.key` (the key may contain dots) to a TOML value; bare words are strings.
fn put(table: &mut toml::Table, section: &str, key: &str, value: &str) -> Result<()> {
    let parsed = format!("value = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut t| t.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut at = table;
    let mut path: Vec<&str> = std::iter::once(section).chain(key.split('.')).collect();
    let last = path.pop().unwrap_or_default();
    for name in path {
        at = at
            .entry(name)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .with_context(|| format!("{name} is not a section"))?;
    }
    at.insert(last.to_owned(), parsed);
    Ok(())
}

/// What to log, as `log.filter` says it.
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
