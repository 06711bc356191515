//! Metrics of the catalogue: whether what is known of it may be relied on, and how many tables depend on it.

use std::time::Instant;

use super::metrics::page::Page;
use crate::process::Process;

pub(super) fn render(page: &mut Page, shared: &Process) {
    let settings = shared.settings.load();
    if !settings.layouts.enabled && !settings.payload.enabled {
        return;
    }
    let name = "helenus_catalogue_lease_held";
    page.family(
        name,
        "gauge", &["of"],
        "1 while what is known may be relied on, else 0. catalogue: requests about tables that depend on it are \
         refused; flags: so are those about all others.",
    );
    let now = Instant::now();
    for (of, lease) in [
        ("catalogue", &shared.leases.catalogue),
        ("flags", &shared.leases.flags),
    ] {
        page.sample(name, &[("of", of)], u8::from(lease.is_held(now)));
    }
    let name = "helenus_catalogue_tables";
    page.family(
        name,
        "gauge",
        &["state"],
        "Tables that depend on the catalogue; lost: those of them whose rows there are lost.",
    );
    let (flagged, lost) = shared.catalogue.load().flagged();
    for (state, count) in [("flagged", flagged), ("lost", lost)] {
        page.sample(name, &[("state", state)], count);
    }
}
