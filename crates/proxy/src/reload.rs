//! Settings and certificates that change while the proxy runs.
//!
//! SIGHUP reloads all settings. If all of them are valid, those that may change while clients are
//! served take effect at once; otherwise nothing changes. Files with certificates and secrets are
//! also checked every few seconds, because the programs that renew them rarely notify their users.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::last::Reloaded;
use crate::config::Config;
use crate::conn::Dialer;
use crate::conn::tls;
use crate::process::{ChangedFilter, ControlRequest, LogFilter, Process};
use crate::records::events::Kind;
use crate::records::log_lines::LogLines;

pub(crate) mod last;
#[cfg(test)]
mod tests;

/// How often files with certificates, keys and secrets are checked.
pub(crate) const FILES_INTERVAL: Duration = Duration::from_secs(2);

/// How long they are waited for at a time.
const FILES_LOOK_MAX: Duration = Duration::from_secs(1);

/// Services of the program for the proxy running in it.
pub struct Program {
    /// Reads the settings from all their sources.
    pub load: Box<dyn Fn() -> Result<Config>>,
    /// Applies a new `log.filter`.
    pub set_log_filter: SetLogFilter,
    /// Where it keeps the last lines of the log.
    pub log: Arc<LogLines>,
}

pub type SetLogFilter = Box<dyn Fn(&str) -> Result<()>>;

/// A setting that cannot change while the proxy runs.
struct Fixed {
    key: &'static str,
    keep: fn(&mut Config, &Config),
}

macro_rules! fixed {
    ($($section:ident.$name:ident),* $(,)?) => {
        &[$(Fixed {
            key: concat!(stringify!($section), ".", stringify!($name)),
            keep: |to, from| to.$section.$name.clone_from(&from.$section.$name),
        }),*]
    };
}

/// Used once, when the proxy starts.
const FIXED: &[Fixed] = fixed![
    admin.address,
    admin.socket,
    layouts.enabled,
    listen.address,
    listen.handover,
    listen.workers,
    payload.enabled,
];
/// In use since the first contact with the cluster.
const FIXED_ONCE_CONNECTED: &[Fixed] = fixed![
    limits.node_queue_max,
    links.in_flight_max,
    links.per_node,
    links.protocol_max,
];

/// Keeps settings and certificates up to date.
pub(crate) struct Reloader {
    program: Program,
    common: Arc<Process>,
    files: Vec<Stamp>,
    /// A look at them that has not ended.
    looking: Option<JoinHandle<Vec<Stamp>>>,
    /// Why the files could not be used when they were looked at last.
    refused: Option<String>,
}

/// The state of a file; differs once it has been written or replaced.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    state: Option<State>,
}

/// Also of what may be done with it: a file that nobody could read may be readable now.
#[derive(Debug, PartialEq, Eq)]
struct State {
    modified: (i64, i64),
    /// Written, renamed, or given to another owner or group, or other rights.
    changed: (i64, i64),
    number: u64,
    bytes: u64,
}

impl State {
    fn of(file: &Metadata) -> State {
        State {
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
            number: file.ino(),
            bytes: file.len(),
        }
    }
}

impl Reloader {
    pub(crate) fn new(program: Program, common: Arc<Process>) -> Reloader {
        let files = stamps(&common.settings.load());
        Reloader {
            program,
            common,
            files,
            looking: None,
            refused: None,
        }
    }

    /// On SIGHUP, or when an operator asks for it.
    ///
    /// # Errors
    /// Why nothing has changed; it is in the log as well.
    pub(crate) fn reload(&mut self) -> Result<Reloaded> {
        let reloaded = self.try_reload();
        self.common.last_reload.note(reloaded.is_ok());
        match &reloaded {
            Ok(Reloaded { changed, .. }) if changed.is_empty() => {
                tracing::info!("certificates reloaded; no setting has changed");
                self.note(
                    Kind::SettingsReloaded,
                    "reloaded; no setting has changed".to_owned(),
                );
            }
            Ok(Reloaded { changed, .. }) => {
                let changed = changed.join(", ");
                tracing::info!("settings reloaded; changed: {changed}");
                self.note(
                    Kind::SettingsReloaded,
                    format!("settings reloaded; changed: {changed}"),
                );
            }
            Err(e) => {
                tracing::error!("nothing reloaded, the previous settings stay in force: {e:#}");
                self.note_refused("nothing reloaded, the previous settings stay in force", e);
            }
        }
        reloaded
    }

    fn note(&self, kind: Kind, text: String) {
        self.common.events.note(kind, text);
    }

    /// An error may quote what is written in the settings.
    fn note_refused(&self, text: &str, why: &anyhow::Error) {
        let events = &self.common.events;
        events.note_detailed(Kind::SettingsRefused, text, format!("{why:#}"));
    }

    fn try_reload(&mut self) -> Result<Reloaded> {
        let mut wanted = (self.program.load)()?;
        let problems = wanted.problems();
        if !problems.is_empty() {
            bail!("{}", problems.join("; "));
        }
        crate::config::read_secrets(&mut wanted)?;
        let old = self.common.settings.load_full();
        let connected = self.common.snapshot.load().is_known();
        let merged = merge(&old, wanted, connected)?;
        let files = stamps(&merged.config);
        self.put_tls_in_force(&merged.config)?;
        (self.files, self.refused) = (files, None);
        // Another filter ends by itself, and then this one is in force.
        let is_changed = self.common.log_filter.load().is_some();
        if merged.config.log.filter != old.log.filter && !is_changed {
            (self.program.set_log_filter)(&merged.config.log.filter)?;
        }
        for key in &merged.kept {
            tracing::warn!("{key} needs a restart to change");
        }
        if !merged.changed.is_empty() {
            self.put_in_force(merged.config);
        }
        Ok(Reloaded {
            changed: merged.changed,
            needs_restart: merged.kept,
        })
    }

    fn put_in_force(&self, config: Config) {
        self.common.put_in_force(config);
        // If the queue is full, a refresh is pending anyway.
        let _ = self
            .common
            .senders
            .control
            .try_send(ControlRequest::Refresh(None));
    }

    /// Logs something else for a while, or what the settings say.
    ///
    /// # Errors
    /// Why nothing has changed.
    pub(crate) fn change_log(&self, wanted: Option<LogFilter>) -> Result<()> {
        let set = self.common.settings.load().log.filter.clone();
        let Some(LogFilter { filter, time }) = wanted else {
            (self.program.set_log_filter)(&set)?;
            if self.common.log_filter.swap(None).is_some() {
                tracing::info!("the log's filter is that of the settings again: {set:?}");
            }
            return Ok(());
        };
        // The later of two counts.
        let filter = format!("{set},{filter}");
        // Before it is in force: it may hide this line.
        tracing::warn!("an operator changes the log's filter for {time:?}: {filter:?}");
        (self.program.set_log_filter)(&filter)?;
        let until = Instant::now() + time;
        let changed = ChangedFilter { filter, until };
        self.common.log_filter.store(Some(Arc::new(changed)));
        Ok(())
    }

    /// Ends another filter whose time is over.
    pub(crate) fn look_at_log(&self) {
        let changed = self.common.log_filter.load_full();
        if changed.is_some_and(|changed| Instant::now() >= changed.until)
            && let Err(e) = self.change_log(None)
        {
            tracing::error!("the log's filter cannot be changed back: {e:#}");
        }
    }

    /// Looks at the files of certificates, keys and secrets beside this thread: a file system that does not answer must
    /// hold up nothing else. An answer that does not come soon is taken at a later call.
    pub(crate) async fn watch_files(&mut self) {
        let config = self.common.settings.load_full();
        let looking = self
            .looking
            .get_or_insert_with(|| tokio::task::spawn_blocking(move || stamps(&config)));
        let Ok(found) = timeout(FILES_LOOK_MAX, looking).await else {
            return;
        };
        self.looking = None;
        if let Ok(files) = found {
            self.on_files(files);
        }
    }

    /// Reads certificates, keys and secrets again if a file of theirs has changed, or could not be used before:
    /// what was wrong with it need not show in the file.
    fn on_files(&mut self, files: Vec<Stamp>) {
        let config = self.common.settings.load_full();
        if files == self.files && self.refused.is_none() {
            return;
        }
        // Even if they are invalid: certificate and key are two files, and the change of the second
        // one will be noticed as well.
        self.files = files;
        let reloaded = self.reload_files(&config);
        self.common.last_reload.note(reloaded.is_ok());
        match reloaded {
            Ok(()) => {
                self.refused = None;
                let text = "certificates or secrets have changed and were reloaded";
                tracing::info!("{text}");
                self.note(Kind::SettingsReloaded, text.to_owned());
            }
            Err(e) if self.refused == Some(format!("{e:#}")) => {}
            Err(e) => {
                self.refused = Some(format!("{e:#}"));
                let text = "certificates or secrets have changed but cannot be used (yet)";
                tracing::warn!("{text}; the previous ones stay in force: {e:#}");
                self.note_refused(text, &e);
            }
        }
    }

    fn reload_files(&self, old: &Config) -> Result<()> {
        let mut config = old.clone();
        crate::config::read_secrets(&mut config)?;
        self.put_tls_in_force(&config)?;
        if config.secrets() != old.secrets() {
            self.put_in_force(config);
        }
        Ok(())
    }

    /// All or nothing. Open connections keep the settings they started with.
    fn put_tls_in_force(&self, config: &Config) -> Result<()> {
        let server = config.listen.tls.as_ref().map(tls::server).transpose()?;
        let dialer = Dialer::new(config)?;
        self.common.server_tls.store(server);
        self.common.dialer.store(Arc::new(dialer));
        self.common.expiries.store(Arc::new(tls::expiries(config)));
        Ok(())
    }
}

/// New settings, as far as they can take effect.
struct Merged {
    config: Config,
    changed: Vec<String>,
    /// Settings that differ but need a restart.
    kept: Vec<String>,
}

fn merge(old: &Config, wanted: Config, connected: bool) -> Result<Merged> {
    let mut changed = Vec::new();
    let before = serde_json::to_value(old)?;
    differences(&before, &serde_json::to_value(&wanted)?, "", &mut changed);
    // Printed secrets all look the same.
    for ((key, before), (_, after)) in old.secrets().into_iter().zip(wanted.secrets()) {
        if before.is_some() && after.is_some() && before != after {
            changed.push(key.to_owned());
        }
    }
    let mut config = wanted;
    // Until a new name has been looked up, too.
    config
        .listen
        .proxies_found
        .clone_from(&old.listen.proxies_found);
    config.listen.proxies_down = old.listen.proxies_down;
    let mut kept = Vec::new();
    let of_connected = FIXED_ONCE_CONNECTED.iter().filter(|_| connected);
    for fixed in FIXED.iter().chain(of_connected) {
        if let Some(at) = changed.iter().position(|key| key == fixed.key) {
            kept.push(changed.remove(at));
            (fixed.keep)(&mut config, old);
        }
    }
    kept.sort();
    // Bound ports stay open, and may need settings that are missing in the new ones.
    let problems: Vec<&str> = config.address_problems().collect();
    if !problems.is_empty() {
        bail!(
            "changed only by a restart: {}. With the values in force until then, the new settings cannot be used ({}): \
             restart instead of reloading",
            kept.join(", "),
            problems.join("; ")
        );
    }
    Ok(Merged {
        config,
        changed,
        kept,
    })
}

/// Keys whose values differ; for a section that was added or removed, the section's key.
fn differences(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                let of = |side: &Map<String, Value>| side.get(name).cloned().unwrap_or_default();
                differences(&of(before), &of(after), &path, found);
            }
        }
        _ if before != after => found.push(path.to_owned()),
        _ => {}
    }
}

fn stamps(config: &Config) -> Vec<Stamp> {
    let server = config.listen.tls.iter().flat_map(|tls| {
        [
            Some(&tls.certificate),
            Some(&tls.key),
            tls.client_ca.as_ref(),
        ]
    });
    let client = config
        .cluster
        .tls
        .iter()
        .flat_map(|tls| [Some(&tls.ca), tls.certificate.as_ref(), tls.key.as_ref()]);
    let secrets = [
        &config.cluster.password_file,
        &config.admin.token_file,
        &config.admin.read_token_file,
        &config.assignment.reports_secret_file,
        &config.tracing.headers_file,
    ];
    server
        .chain(client)
        .chain(secrets.map(Option::as_ref))
        .flatten()
        .map(|path| Stamp {
            state: std::fs::metadata(path).ok().map(|file| State::of(&file)),
            path: path.clone(),
        })
        .collect()
}
