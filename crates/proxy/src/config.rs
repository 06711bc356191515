//! Reads settings: TOML, and secrets from files.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
pub use helenus_engine::config::*;

pub mod reference;
#[cfg(test)]
mod tests;
mod wrong;

pub use wrong::WrongSettings;

/// Parses TOML.
pub fn from_toml(text: &str) -> Result<Config, WrongSettings> {
    toml::from_str(text).map_err(|e| WrongSettings::new(text, &e))
}

/// Reads secrets from their files; call it once there are no [`Config::problems`].
pub fn read_secrets(config: &mut Config) -> Result<()> {
    if let Some(path) = &config.cluster.password_file {
        let password = secret_of(path).context("cluster.password_file")?;
        config.cluster.password = Some(password);
    }
    if let Some(path) = &config.admin.token_file {
        config.admin.token = Some(secret_of(path).context("admin.token_file")?);
    }
    if let Some(path) = &config.admin.read_token_file {
        config.admin.read_token = Some(secret_of(path).context("admin.read_token_file")?);
    }
    let tokens = &config.admin;
    ensure!(
        tokens.token.is_none() || tokens.token != tokens.read_token,
        "admin.read_token (or its file) is the same as admin.token (or its file), so it would not only read: choose \
         another read token"
    );
    if let Some(path) = &config.assignment.reports_secret_file {
        let secret = secret_of(path).context("assignment.reports_secret_file")?;
        ensure!(
            secret.expose().len() >= REPORTS_SECRET_BYTES_MIN,
            "assignment.reports_secret_file: the secret in {} has less than \
             {REPORTS_SECRET_BYTES_MIN} bytes",
            path.display()
        );
        config.assignment.reports_secret = Some(secret);
    }
    if let Some(path) = &config.tracing.headers_file {
        config.tracing.headers = Some(secret_of(path).context("tracing.headers_file")?);
        if let Err(wrong) = config.tracing.header_lines() {
            bail!("tracing.headers_file: {wrong} ({})", path.display());
        }
    }
    Ok(())
}

/// The contents of a file without the trailing line break.
fn secret_of(path: &Path) -> Result<Secret> {
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    // The conversion's error would contain the bytes.
    let Ok(text) = String::from_utf8(text) else {
        bail!("{shown} is not UTF-8 text");
    };
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    ensure!(!secret.is_empty(), "{shown} is empty");
    Ok(secret.to_owned().into())
}
