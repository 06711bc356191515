//! The statements themselves.

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};

use super::{Generator, KEYSPACE, Template};
use crate::schema::{Column, Table};
use crate::values::Ty;

/// How values stand in a text.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Literals,
    Markers,
    Named,
}

/// A text under construction.
struct Draft {
    style: Style,
    markers: Vec<(Option<String>, Ty)>,
}

impl Generator {
    pub(crate) fn statement(&mut self, bound: bool) -> Template {
        match self.rng.random_bool(0.45) {
            true => self.select(bound),
            false => self.modification(bound),
        }
    }

    fn draft(&mut self, bound: bool) -> Draft {
        let style = match bound {
            false => Style::Literals,
            true if self.rng.random_bool(0.15) => Style::Named,
            true => Style::Markers,
        };
        Draft {
            style,
            markers: Vec::new(),
        }
    }

    fn term(&mut self, draft: &mut Draft, ty: &Ty, key: bool) -> String {
        if draft.style == Style::Literals || self.rng.random_bool(0.1) {
            return match self.rng.random_range(0..60) {
                0 => "null".to_owned(),
                _ => ty.value(&mut self.rng, key).literal,
            };
        }
        let name = (draft.style == Style::Named).then(|| format!("n{}", draft.markers.len()));
        let text = name.as_ref().map_or("?".to_owned(), |n| format!(":{n}"));
        draft.markers.push((name, ty.clone()));
        text
    }

    pub(super) fn table(&mut self) -> Table {
        self.tables.choose(&mut self.rng).unwrap().clone()
    }

    fn name(&self, table: &Table) -> String {
        match self.unqualified {
            true => table.name.clone(),
            false => format!("{KEYSPACE}.{}", table.name),
        }
    }

    fn finish(draft: Draft, text: String) -> Template {
        Template {
            text,
            markers: draft.markers,
            keyed: true,
        }
    }

    /// The whole partition key and a random prefix of the clustering columns (or all of them).
    fn key(&mut self, draft: &mut Draft, table: &Table, whole: bool) -> String {
        let mut parts = Vec::new();
        for c in &table.partition {
            if !whole && self.rng.random_bool(0.1) {
                let (a, b) = (self.term(draft, &c.ty, true), self.term(draft, &c.ty, true));
                parts.push(format!("{} IN ({a}, {b})", c.name));
            } else {
                parts.push(format!("{} = {}", c.name, self.term(draft, &c.ty, true)));
            }
        }
        if !whole && self.rng.random_bool(0.15) && !table.clustering.is_empty() {
            parts.push(self.tuples(draft, table));
            return parts.join(" AND ");
        }
        for c in &table.clustering {
            if !whole {
                match self.rng.random_range(0..6) {
                    0 => break,
                    1 => {
                        let op = ["<", ">", "<=", ">="].choose(&mut self.rng).unwrap();
                        // Of what is less than null a node deletes nothing, and never says so.
                        let term = self.some_term(draft, &c.ty);
                        parts.push(format!("{} {op} {term}", c.name));
                        break;
                    }
                    2 => {
                        let (a, b) = (self.term(draft, &c.ty, true), self.term(draft, &c.ty, true));
                        parts.push(format!("{} IN ({a}, {b})", c.name));
                        continue;
                    }
                    _ => {}
                }
            }
            parts.push(format!("{} = {}", c.name, self.term(draft, &c.ty, true)));
        }
        parts.join(" AND ")
    }

    /// Several clustering columns at once: the first ones, or all.
    fn tuples(&mut self, draft: &mut Draft, table: &Table) -> String {
        let len = self.rng.random_range(1..=table.clustering.len());
        let columns = &table.clustering[..len];
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let mut tuple = |g: &mut Generator| {
            let terms: Vec<String> = columns.iter().map(|c| g.some_term(draft, &c.ty)).collect();
            format!("({})", terms.join(", "))
        };
        let names = names.join(", ");
        match self.rng.random_range(0..4) {
            0 => format!("({names}) = {}", tuple(self)),
            1 => format!("({names}) IN ({}, {})", tuple(self), tuple(self)),
            2 => {
                let op = ["<", ">", "<=", ">="].choose(&mut self.rng).unwrap();
                format!("({names}) {op} {}", tuple(self))
            }
            _ => format!(
                "({names}) > {} AND ({names}) <= {}",
                tuple(self),
                tuple(self)
            ),
        }
    }

    /// A term that is not null.
    fn some_term(&mut self, draft: &mut Draft, ty: &Ty) -> String {
        loop {
            let term = self.term(draft, ty, true);
            if term != "null" {
                return term;
            }
        }
    }

    fn select(&mut self, bound: bool) -> Template {
        let table = self.table();
        let mut draft = self.draft(bound);
        let any = |g: &mut Generator| -> Column {
            let columns: Vec<&Column> = table.columns().collect();
            (*columns.choose(&mut g.rng).unwrap()).clone()
        };
        let partition: Vec<&str> = table.partition.iter().map(|c| c.name.as_str()).collect();
        let partition = partition.join(", ");
        let regular = table.regular.choose(&mut self.rng).unwrap().clone();
        let plain_cell = !table.lwt && !table.counter && !regular.ty.is_multi_cell();
        let mut tail = String::new();
        let selection = match self.rng.random_range(0..16) {
            0..5 => "*".to_owned(),
            5 => "count(*)".to_owned(),
            6 => format!("token({partition}), {}", any(self).name),
            7 if plain_cell => format!("WRITETIME({})", regular.name),
            8 => format!("min({0}), max({0})", any(self).name),
            9 => "JSON *".to_owned(),
            10 => format!("DISTINCT {partition}"),
            11 => {
                tail = format!(" GROUP BY {partition}");
                format!("{partition}, count(*)")
            }
            12 => format!(
                "CAST({} AS text), {} AS other",
                any(self).name,
                any(self).name
            ),
            _ => {
                let mut names: Vec<String> = table.columns().map(|c| c.name.clone()).collect();
                names.shuffle(&mut self.rng);
                names.truncate(self.rng.random_range(1..4));
                names.join(", ")
            }
        };
        let distinct = selection.starts_with("DISTINCT");
        let mut text = format!("SELECT {selection} FROM {}", self.name(&table));
        match self.rng.random_range(0..14) {
            0..2 => {}
            2 => {
                let key: Vec<String> = table
                    .partition
                    .iter()
                    .map(|c| self.term(&mut draft, &c.ty, true))
                    .collect();
                let op = [">", ">=", "<", "<="].choose(&mut self.rng).unwrap();
                text.push_str(&format!(
                    " WHERE token({partition}) {op} token({})",
                    key.join(", ")
                ));
            }
            3 => {
                // Bounds as jobs that read everything in stretches have them.
                let quarter = i64::MAX / 2 * self.rng.random_range(-2..2);
                let (above, up_to) = (quarter.to_string(), (quarter + i64::MAX / 2).to_string());
                text.push_str(&format!(
                    " WHERE token({partition}) > {above} AND token({partition}) <= {up_to}"
                ));
            }
            4 if regular.ty.is_multi_cell() && !matches!(regular.ty, Ty::Udt(_)) => {
                let name = &regular.name;
                let restriction = match &regular.ty {
                    Ty::Map(k, v, _) => match self.rng.random_range(0..3) {
                        0 => format!("{name} CONTAINS {}", self.term(&mut draft, v, false)),
                        1 => format!("{name} CONTAINS KEY {}", self.term(&mut draft, k, true)),
                        _ => {
                            let k = self.term(&mut draft, k, true);
                            format!("{name}[{k}] = {}", self.term(&mut draft, v, false))
                        }
                    },
                    Ty::List(of, _) | Ty::Set(of, _) => {
                        format!("{name} CONTAINS {}", self.term(&mut draft, of, true))
                    }
                    _ => format!("{name} CONTAINS 1"),
                };
                text.push_str(&format!(" WHERE {restriction}"));
                tail.push_str(" ALLOW FILTERING");
            }
            5 if !regular.ty.is_multi_cell() => {
                let value = self.term(&mut draft, &regular.ty, false);
                text.push_str(&format!(" WHERE {} = {value}", regular.name));
                tail.push_str(" ALLOW FILTERING");
            }
            _ if distinct => {}
            _ => {
                let whole = self.rng.random_bool(0.3);
                text.push_str(" WHERE ");
                text.push_str(&self.key(&mut draft, &table, whole));
                if let Some(c) = table.clustering.first()
                    && self.rng.random_bool(0.2)
                    && tail.is_empty()
                {
                    let order = ["ASC", "DESC"].choose(&mut self.rng).unwrap();
                    text.push_str(&format!(" ORDER BY {} {order}", c.name));
                }
            }
        }
        let filtering = tail.strip_suffix(" ALLOW FILTERING").map(str::to_owned);
        text.push_str(filtering.as_deref().unwrap_or(&tail));
        if self.rng.random_bool(0.1) && !table.clustering.is_empty() && !distinct {
            text.push_str(" PER PARTITION LIMIT 2");
        }
        if self.rng.random_bool(0.2) {
            let limit = self.term(&mut draft, &Ty::Native("int"), false);
            text.push_str(&format!(" LIMIT {limit}"));
        }
        if filtering.is_some() {
            text.push_str(" ALLOW FILTERING");
        }
        Self::finish(draft, text)
    }

    pub(crate) fn modification(&mut self, bound: bool) -> Template {
        let table = self.table();
        let mut draft = self.draft(bound);
        let conditional = table.lwt && self.rng.random_bool(0.25);
        let text = match self.rng.random_range(0..10) {
            0 if !table.counter && self.rng.random_bool(0.4) => {
                self.insert_json(&mut draft, &table, conditional)
            }
            0..5 if !table.counter => self.insert(&mut draft, &table, conditional),
            // No counter is deleted: its next count would depend on which replica takes the update.
            5 if !table.counter => self.delete(&mut draft, &table, conditional),
            _ => self.update(&mut draft, &table, conditional),
        };
        Self::finish(draft, text)
    }

    /// Timestamps are always stated, so that both sides write the same cells.
    fn using(&mut self, draft: &mut Draft, table: &Table, conditional: bool, ttl: bool) -> String {
        let old = self.rng.random_range(0..10) == 0;
        // Two expiring cells of one timestamp are told apart by the second they were written in: what runs many times
        // has none.
        let ttl = ttl && !old && !self.prepares && self.rng.random_bool(0.15);
        let ttl = match ttl {
            true => format!(" AND TTL {}", self.term(draft, &Ty::Native("ttl"), true)),
            false => String::new(),
        };
        let offence = self.rng.random_bool(0.01);
        if (conditional || table.counter) != offence {
            return ttl.replacen(" AND", " USING", 1);
        }
        let at = if old { self.clock - 50 } else { self.clock };
        format!(" USING TIMESTAMP {at}{ttl}")
    }

    fn insert(&mut self, draft: &mut Draft, table: &Table, conditional: bool) -> String {
        let mut columns: Vec<Column> = table.partition.clone();
        columns.extend(table.clustering.iter().cloned());
        let keys = columns.len();
        for c in &table.regular {
            if self.rng.random_bool(0.7) {
                columns.push(c.clone());
            }
        }
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let names = names.join(", ");
        let values: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(i, c)| self.term(draft, &c.ty, i < keys))
            .collect();
        let values = values.join(", ");
        let condition = if conditional { " IF NOT EXISTS" } else { "" };
        let using = self.using(draft, table, conditional, true);
        let name = self.name(table);
        format!("INSERT INTO {name} ({names}) VALUES ({values}){condition}{using}")
    }

    /// As JSON, in the text or as a marker; what is no native type is left out.
    fn insert_json(&mut self, draft: &mut Draft, table: &Table, conditional: bool) -> String {
        let mut members = Vec::new();
        let keys = table.partition.len() + table.clustering.len();
        for (i, c) in table.columns().enumerate() {
            let Ty::Native(name) = c.ty else { continue };
            if i >= keys && self.rng.random_bool(0.4) {
                continue;
            }
            let literal = c.ty.value(&mut self.rng, i < keys).literal;
            let value = match literal.strip_prefix('\'') {
                Some(text) => format!("\"{}\"", text.trim_end_matches('\'')),
                None if ["uuid", "timeuuid", "blob", "duration"].contains(&name) => {
                    format!("\"{literal}\"")
                }
                None => literal,
            };
            let name = c.name.replace('"', "\\\"");
            members.push(format!("\"{name}\": {value}"));
        }
        let json = format!("{{{}}}", members.join(", "));
        let value = match draft.style {
            Style::Literals => format!("'{json}'"),
            _ => {
                draft
                    .markers
                    .push((None, Ty::Json(json.replace("''", "'"))));
                "?".to_owned()
            }
        };
        let default = ["", "", " DEFAULT UNSET", " DEFAULT NULL"];
        let default = default.choose(&mut self.rng).unwrap();
        let condition = if conditional { " IF NOT EXISTS" } else { "" };
        let using = self.using(draft, table, conditional, true);
        let name = self.name(table);
        format!("INSERT INTO {name} JSON {value}{default}{condition}{using}")
    }

    fn update(&mut self, draft: &mut Draft, table: &Table, conditional: bool) -> String {
        let using = self.using(draft, table, conditional, !table.counter);
        let mut sets = Vec::new();
        for c in &table.regular {
            if !sets.is_empty() && self.rng.random_bool(0.5) {
                continue;
            }
            let name = &c.name;
            // Server-made cell ids differ, but not in their order: appending is comparable.
            let append = c.ty.is_multi_cell() && !matches!(c.ty, Ty::Udt(_));
            sets.push(match &c.ty {
                Ty::Counter => {
                    let sign = ["+", "-"].choose(&mut self.rng).unwrap();
                    format!("{name} = {name} {sign} {}", self.term(draft, &c.ty, false))
                }
                Ty::Map(k, v, false) if self.rng.random_bool(0.3) => {
                    let k = self.term(draft, k, true);
                    format!("{name}[{k}] = {}", self.term(draft, v, false))
                }
                Ty::List(of, false) if self.rng.random_bool(0.2) => {
                    let at = self.term(draft, &Ty::Native("int"), true);
                    format!("{name}[{at}] = {}", self.term(draft, of, true))
                }
                ty if append && self.rng.random_bool(0.3) => {
                    format!("{name} = {name} + {}", self.term(draft, ty, false))
                }
                Ty::Map(k, _, false) if self.rng.random_bool(0.3) => {
                    let of = Ty::Set(k.clone(), false);
                    format!("{name} = {name} - {}", self.term(draft, &of, true))
                }
                ty if append && self.rng.random_bool(0.3) => {
                    format!("{name} = {name} - {}", self.term(draft, ty, false))
                }
                Ty::Udt(false) if self.rng.random_bool(0.3) => {
                    let value = self.term(draft, &Ty::Native("int"), false);
                    format!("{name}.a = {value}")
                }
                ty => format!("{name} = {}", self.term(draft, ty, false)),
            });
        }
        let sets = sets.join(", ");
        let only_static = table.regular.iter().all(|c| c.is_static);
        let whole = !only_static || self.rng.random_bool(0.5);
        let key = self.key(draft, table, whole);
        let condition = self.condition(draft, table, conditional);
        let name = self.name(table);
        format!("UPDATE {name}{using} SET {sets} WHERE {key}{condition}")
    }

    fn delete(&mut self, draft: &mut Draft, table: &Table, conditional: bool) -> String {
        let using = self.using(draft, table, conditional, false);
        let columns = match self.rng.random_bool(0.5) {
            true => String::new(),
            false => {
                let c = table.regular.choose(&mut self.rng).unwrap();
                let element = match &c.ty {
                    _ if self.rng.random_bool(0.5) => String::new(),
                    Ty::Map(of, _, false) | Ty::Set(of, false) => {
                        format!("[{}]", self.term(draft, of, true))
                    }
                    Ty::List(_, false) => format!("[{}]", self.rng.random_range(0..3)),
                    Ty::Udt(false) => ".b".to_owned(),
                    _ => String::new(),
                };
                format!("{}{element} ", c.name)
            }
        };
        let whole = conditional || !columns.is_empty() || self.rng.random_bool(0.6);
        let key = self.key(draft, table, whole);
        let condition = self.condition(draft, table, conditional);
        let name = self.name(table);
        format!("DELETE {columns}FROM {name}{using} WHERE {key}{condition}")
    }

    fn condition(&mut self, draft: &mut Draft, table: &Table, conditional: bool) -> String {
        if !conditional {
            return String::new();
        }
        let c = table.regular.choose(&mut self.rng).unwrap().clone();
        match self.rng.random_range(0..4) {
            0 => " IF EXISTS".to_owned(),
            1 if !c.ty.is_multi_cell() => {
                let (a, b) = (
                    self.term(draft, &c.ty, false),
                    self.term(draft, &c.ty, false),
                );
                format!(" IF {} IN ({a}, {b})", c.name)
            }
            _ => {
                let op = ["=", "!=", "=", ">"].choose(&mut self.rng).unwrap();
                format!(" IF {} {op} {}", c.name, self.term(draft, &c.ty, false))
            }
        }
    }
}
