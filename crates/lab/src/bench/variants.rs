//! Proxies that an experiment starts itself, each with its own settings.

use crate::testbed::Proxy;
use anyhow::{Context, Result, ensure};
use helenus_console::settings::judge;
use helenus_load::experiments::arms::HELENUS;
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

impl<P> Variant<P> {
    /// Helenus with these settings; without a suffix, the one that has the documented keys.
    pub(super) fn new(suffix: &str, part: P, settings: &[&str]) -> Self {
        let name = match suffix {
            "" => HELENUS.to_owned(),
            _ => format!("{HELENUS}-{suffix}"),
        };
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self {
            name,
            part,
            settings,
        }
    }
}

/// Parses `name:section.key=value`, with several settings separated by spaces.
pub(super) fn parse<P>(text: &str, part: P) -> Result<Variant<P>> {
    let (name, settings) = text
        .split_once(':')
        .context("write it as name:section.key=value")?;
    ensure!(!name.is_empty(), "the variant needs a name");
    let settings: Vec<&str> = settings.split_whitespace().collect();
    let variant = Variant::new(name, part, &settings);
    judge(&variant.settings)?;
    Ok(variant)
}

/// [`parse`] for experiments whose variants take part in all cells.
pub(super) fn parse_plain(text: &str) -> Result<Variant<()>> {
    parse(text, ())
}

/// The variants, if their settings are right.
pub(super) fn checked<P>(variants: Vec<Variant<P>>) -> Result<Vec<Variant<P>>> {
    for variant in &variants {
        judge(&variant.settings).with_context(|| format!("the arm {}", variant.name))?;
    }
    Ok(variants)
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
