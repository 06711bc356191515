//! Proxies that an experiment starts itself, each with its own settings.

use crate::testbed::Proxy;
use anyhow::{Context, Result, ensure};
use helenus_console::settings::judge;
use helenus_load::arms::HELENUS;
use helenus_load::report::Report;
use indicatif::ProgressBar;

/// A Helenus with its own settings. `part` names the cells it takes part in, for experiments that use it.
#[derive(Clone, Debug)]
pub(super) struct Variant<P> {
    pub name: String,
    pub part: P,
    /// As `section.key=value`.
    pub settings: Vec<String>,
}

/// Parses `name:section.key=value`, with several settings separated by spaces.
pub(super) fn parse<P>(text: &str, part: P) -> Result<Variant<P>> {
    let (name, settings) = text
        .split_once(':')
        .context("write it as name:section.key=value")?;
    let settings: Vec<String> = settings.split_whitespace().map(str::to_owned).collect();
    ensure!(!name.is_empty(), "the variant needs a name");
    // These settings are the user's own, so an error is not skipped as for the documented arms.
    judge(&settings)?;
    Ok(Variant {
        name: format!("{HELENUS}-{name}"),
        part,
        settings,
    })
}

/// The variants whose settings this version supports, and a message about each of the others.
pub(super) fn split<P>(
    variants: Vec<Variant<P>>,
    judge: impl Fn(&[String]) -> Result<()>,
) -> (Vec<Variant<P>>, Vec<String>) {
    let (mut known, mut skipped) = (Vec::new(), Vec::new());
    for variant in variants {
        match judge(&variant.settings) {
            Ok(()) => known.push(variant),
            Err(error) => {
                let error = format!("{error:#}");
                let reason = error.lines().rfind(|line| !line.trim().is_empty());
                skipped.push(format!(
                    "The arm {} is skipped: this Helenus does not accept {} ({}).",
                    variant.name,
                    variant.settings.join(" "),
                    reason.unwrap_or("no reason given").trim()
                ));
            }
        }
    }
    (known, skipped)
}

pub(super) async fn start<P>(
    variants: Vec<Variant<P>>,
    nodes: &[String],
    bar: &ProgressBar,
) -> Result<Vec<(Variant<P>, Proxy)>> {
    let mut proxies = Vec::new();
    for variant in variants {
        bar.set_message(format!("starting {}", variant.name));
        let started = Proxy::start_with(nodes, &variant.settings).await;
        let proxy = started.with_context(|| format!("the arm {}", variant.name))?;
        proxies.push((variant, proxy));
    }
    Ok(proxies)
}

/// Adds each proxy's settings to the report.
pub(super) fn describe<P>(report: &mut Report, proxies: &[(Variant<P>, Proxy)]) {
    for (variant, _) in proxies {
        let settings = match variant.settings.is_empty() {
            true => "defaults".to_owned(),
            false => variant.settings.join(" "),
        };
        report.settings.insert(variant.name.clone(), settings);
    }
}
