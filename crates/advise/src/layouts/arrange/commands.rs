//! The commands that make an arrangement's layouts.

use helenus_cql::Name;
use helenus_layout::Held;
use helenus_migrate::layouts::names::{NAME_MAX, derived_keyspace};
use helenus_migrate::layouts::replication::Replication;

use super::{Arranged, Arrangement, Kind, Source};
use crate::layouts::schema::Schema;

/// Stands for what is not known.
const KEYSPACE: &str = "KEYSPACE";
const DATA_CENTER: &str = "DATA_CENTER";

/// The table for which layouts are made.
pub(in crate::layouts) struct Target<'a> {
    pub keyspace: Option<&'a Name>,
    pub schema: &'a Schema,
    /// Options that say where the cluster is, with their values.
    pub access: &'a [String],
}

/// Layouts that are held at the same places share a keyspace, and a command.
pub(in crate::layouts) fn of(
    arranged: &Arranged,
    arrangement: &Arrangement,
    target: &Target<'_>,
) -> Vec<String> {
    let mut groups: Vec<Vec<&Held>> = Vec::new();
    for held in &arrangement.held {
        match groups.iter_mut().find(|of| of[0].places == held.places) {
            Some(group) => group.push(held),
            None => groups.push(vec![held]),
        }
    }
    let mut keyspaces: Vec<String> = Vec::new();
    let mut commands = Vec::new();
    for group in &groups {
        let mut command = command(arranged, group, target);
        if arrangement.kind == Kind::Derived {
            let replication = replication(arranged, group[0]);
            command.extend(["--replication".to_owned(), replication.to_string()]);
            if groups.len() > 1 {
                let keyspace = keyspace(arranged, group[0], target, &keyspaces);
                command.extend(["--keyspace".to_owned(), keyspace.clone()]);
                keyspaces.push(keyspace);
            }
        }
        let words: Vec<String> = command.iter().map(|of| word(of)).collect();
        commands.push(words.join(" "));
    }
    commands
}

fn command(arranged: &Arranged, group: &[&Held], target: &Target<'_>) -> Vec<String> {
    let schema = target.schema;
    let keyspace = target.keyspace.map_or(KEYSPACE.into(), Name::to_cql);
    let table = Name::from_stored(schema.table.as_str());
    let table = format!("{keyspace}.{}", table.to_cql());
    let words = ["helenus", "layouts", "create", &table].map(str::to_owned);
    let access = target.access.iter().cloned();
    let layouts = group.iter().flat_map(|held| {
        let columns = held
            .layout
            .columns()
            .filter_map(|c| schema.clustering.get(c));
        let columns: Vec<_> = columns.map(Name::to_cql).collect();
        let name = arranged.name(&held.layout).to_lowercase();
        [
            "--layout".to_owned(),
            format!("{name}={}", columns.join(",")),
        ]
    });
    words.into_iter().chain(access).chain(layouts).collect()
}

/// One replica at each place where a layout is held.
fn replication(arranged: &Arranged, held: &Held) -> Replication {
    let places = arranged.table.iter().zip(&held.places);
    let places = places.filter(|(_, held)| **held);
    let names: Vec<&str> = places.filter_map(|(of, _)| of.name.as_deref()).collect();
    match (&names[..], arranged.source) {
        ([], Source::Assumed) => Replication::of_one_replica(&[DATA_CENTER]),
        (names, _) => Replication::of_one_replica(names),
    }
}

/// The usual keyspace's name and those of the data centres; a number where that is none, or one of `others`.
fn keyspace(arranged: &Arranged, held: &Held, target: &Target<'_>, others: &[String]) -> String {
    let unknown = Name::from_stored(KEYSPACE.to_lowercase());
    let usual = derived_keyspace(target.keyspace.unwrap_or(&unknown));
    let places = arranged.table.iter().zip(&held.places);
    let places = places.filter(|(_, held)| **held);
    let names: Vec<&str> = places.map(|(of, _)| of.label()).collect();
    let names = names.join("_").to_lowercase();
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = names.replace(|c: char| !is_good(c), "_");
    let named = |end: &str| Name::from_stored(format!("{usual}_{end}"));
    let name = named(&names);
    let is_free = name.len() <= NAME_MAX && !others.contains(&name.to_cql().into_owned());
    let number = (others.len() + 1).to_string();
    let name = if is_free { name } else { named(&number) };
    name.to_cql().into_owned()
}

/// As a shell reads it.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:=/@[]".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if "\"\\$`".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted + "\""
}
