//! Progress on a terminal, with the time that is left.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar over the ranges of the ring.
pub(crate) fn bar(what: &str, ranges: u64) -> ProgressBar {
    let bar = ProgressBar::new(ranges).with_prefix(what.to_owned());
    let template = "  {prefix} {bar:30} {percent} %, {msg}, {elapsed} so far, {eta} left";
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
