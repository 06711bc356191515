//! Other differences between two runs, for which their results may differ.

use crate::report::Report;
use crate::storage::Figures;
use std::collections::{BTreeMap, BTreeSet};

/// Figures of a storage vary between measurements; below this factor they count as the same.
const STORAGE_FACTOR: f64 = 2.0;

/// One sentence a line.
pub(super) fn differences(a: &Report, b: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let (one, other) = (&a.machine, &b.machine);
    let pairs = [
        ("cores", one.cores.to_string(), other.cores.to_string()),
        ("processor", one.processor.clone(), other.processor.clone()),
        (
            "memory in MiB",
            one.memory_mib.to_string(),
            other.memory_mib.to_string(),
        ),
        ("storage", one.storage.clone(), other.storage.clone()),
        ("kernel", one.kernel.clone(), other.kernel.clone()),
        ("command", plain(&a.command), plain(&b.command)),
        ("rounds", a.rounds.to_string(), b.rounds.to_string()),
    ];
    for (name, a, b) in pairs {
        lines.extend(difference(name, Some(&a), Some(&b)));
    }
    lines.extend(of_maps("version of ", &one.versions, &other.versions));
    lines.extend(of_maps("", &a.settings, &b.settings));
    let figures = |report: &Report| report.machine.storage_profile.as_ref()?.figures;
    match (figures(a), figures(b)) {
        (Some(a), Some(b)) => lines.extend(of_storage(&a, &b)),
        (None, None) => {}
        _ => lines.push("Only one of the reports has figures of its storage.".into()),
    }
    lines
}

fn difference(name: &str, a: Option<&String>, b: Option<&String>) -> Option<String> {
    let shown =
        |value: Option<&String>| value.map_or("none".to_owned(), |value| format!("`{value}`"));
    (a != b).then(|| format!("{name} differs: {} and {}.", shown(a), shown(b)))
}

fn of_maps(
    prefix: &str,
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let names = names.into_iter();
    names
        .filter_map(|name| difference(&format!("{prefix}{name}"), a.get(name), b.get(name)))
        .collect()
}

fn of_storage(a: &Figures, b: &Figures) -> Vec<String> {
    let figures = [
        ("fdatasync", a.append_sync_us_p50, b.append_sync_us_p50),
        (
            "sequential writes",
            a.write_mib_per_second,
            b.write_mib_per_second,
        ),
        ("random reads", a.random_read_us_p50, b.random_read_us_p50),
    ];
    let far = figures.into_iter().filter_map(|(name, a, b)| {
        let factor = (a / b).max(b / a);
        (factor > STORAGE_FACTOR)
            .then(|| format!("The storage differs: {name}, by a factor of {factor:.1}."))
    });
    far.collect()
}

/// A command without the program's folder and what does not change a result.
fn plain(command: &str) -> String {
    let mut words = command.split_whitespace().skip(1);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--json" | "--html" => drop(words.next()),
            "--quiet" | "--measure-storage" => {}
            word if word.starts_with("--json=") || word.starts_with("--html=") => {}
            word => kept.push(word),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_results_are_written_is_no_difference() {
        let one = "/usr/bin/helenus bench scale --quick --json /tmp/a.json --html=x.html";
        let other = "./helenus bench scale --json b.json --quick --measure-storage";
        assert_eq!(plain(one), plain(other));
        assert_eq!(plain("helenus"), "");
        assert_ne!(plain(one), plain("helenus bench scale"));
    }
}
