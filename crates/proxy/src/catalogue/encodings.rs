//! The encoded columns of the catalogue, compared with their tables.
//!
//! No column of the catalogue is ever left out while its table exists: a proxy that left one out would give
//! clients nulls, and write texts that others do not expect. One that does not fit is known as such, so that
//! each statement that needs it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_catalogue::{Catalogue, Encoding, TableKey, Written};
use helenus_engine::features::encodings::{EncodedColumn, EncodedTable, Encodings};
use helenus_payload::{Codec, DictionaryId};

use super::dictionaries::Dictionaries;
use super::schema::Schema;

#[cfg(test)]
mod tests;

/// Encoded columns as the catalogue and the schema tell of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub encodings: Arc<Encodings>,
    /// Those that do not fit their tables, or whose dictionaries are missing: what a node that lags behind
    /// in its schema may say.
    pub rejected: usize,
    /// Problems, as sentences.
    pub problems: Vec<String>,
}

impl Known {
    /// Takes the tables that have not changed from what was known before: what has been derived from those
    /// goes on to be right.
    pub(crate) fn keep_what_is_still(&mut self, before: &Known) {
        let mut encodings = (*self.encodings).clone();
        let mut is_still = true;
        for (keyspace, tables) in &mut encodings.tables {
            for (name, table) in tables {
                match before.encodings.table(keyspace, name) {
                    Some(known) if known.is_still(table) => *table = known.clone(),
                    _ => is_still = false,
                }
            }
        }
        let count = |of: &Encodings| of.tables.values().map(|tables| tables.len()).sum::<usize>();
        is_still &= count(&encodings) == count(&before.encodings);
        self.encodings = match is_still {
            true => before.encodings.clone(),
            false => Arc::new(encodings),
        };
    }

    /// Columns by what is written.
    pub(crate) fn count(&self, written: Written) -> usize {
        let tables = self
            .encodings
            .tables
            .values()
            .flat_map(|tables| tables.values());
        let columns = tables.flat_map(|table| &table.columns);
        columns.filter(|column| column.written == written).count()
    }
}

/// One encoded column, as the catalogue describes it.
#[derive(Clone, Copy)]
struct Entry<'a> {
    table: &'a TableKey,
    encoding: &'a Encoding,
}

fn entries(catalogue: &Catalogue) -> impl Iterator<Item = Entry<'_>> {
    catalogue.tables.iter().flat_map(|(table, of)| {
        let columns = of.encodings.iter().flat_map(|of| &of.columns);
        columns.map(move |encoding| Entry { table, encoding })
    })
}

/// `dictionaries`: `None` if the node knows no table of them.
pub(crate) fn known(
    catalogue: &Catalogue,
    dictionaries: Option<&Dictionaries>,
    schema: &Schema,
) -> Known {
    let mut known = Known::default();
    let none = Dictionaries::default();
    let mut problems = Problems::default();
    if dictionaries.is_none() && entries(catalogue).next().is_some() {
        known.rejected += 1;
        known.problems.push(
            "there is no table helenus.dictionaries, without which encoded values cannot be read: restore \
             it from a backup"
                .to_owned(),
        );
    }
    let dictionaries = dictionaries.unwrap_or(&none);
    known
        .problems
        .extend(dictionaries.problems.values().cloned());
    let mut tables: BTreeMap<(&str, &str), EncodedTable> = BTreeMap::new();
    for entry in entries(catalogue) {
        let (keyspace, name) = (&*entry.table.keyspace, &*entry.table.table);
        if schema.table(keyspace, name).is_none() {
            problems.reject(entry, &format!("there is no table {keyspace}.{name}"));
            continue;
        }
        let table = tables
            .entry((keyspace, name))
            .or_insert_with(|| EncodedTable {
                keyspace: keyspace.to_owned(),
                name: name.to_owned(),
                columns: Vec::new(),
                dictionaries: dictionaries.of_table(keyspace, name),
            });
        let column = column(entry, table, schema, dictionaries, &mut problems);
        table.columns.push(column);
    }
    known.rejected += problems.rejected;
    known.problems.append(&mut problems.sentences);
    let mut encodings = Encodings::default();
    for table in tables.into_values() {
        encodings.add(Arc::new(table));
    }
    known.encodings = Arc::new(encodings);
    known
}

#[derive(Default)]
struct Problems {
    rejected: usize,
    sentences: Vec<String>,
}

impl Problems {
    /// Adds a problem of which a node that lags behind may tell, too.
    fn reject(&mut self, entry: Entry<'_>, why: &str) {
        self.rejected += 1;
        self.add(entry, "cannot be read or written", why);
    }

    fn add(&mut self, entry: Entry<'_>, what: &str, why: &str) {
        let (column, table) = (&entry.encoding.column, entry.table);
        self.sentences.push(format!(
            "encoded column {column} of {table} {what}: {why}; see `helenus payload status`"
        ));
    }
}

fn column(
    entry: Entry<'_>,
    table: &EncodedTable,
    schema: &Schema,
    dictionaries: &Dictionaries,
    problems: &mut Problems,
) -> EncodedColumn {
    let why = misfit(entry, table, schema);
    if let Some(why) = &why {
        problems.reject(entry, why);
    }
    let (codec, dictionary) = match writer(entry, table, dictionaries) {
        Ok(writer) => writer,
        Err((why, is_missing)) => {
            problems.add(entry, "is written without being encoded", &why);
            problems.rejected += usize::from(is_missing);
            // Every version reads raw values.
            (Codec::Raw, None)
        }
    };
    let Encoding { column, hidden, .. } = entry.encoding;
    let written = entry.encoding.written().unwrap_or_else(|| {
        // Right in any state but the first: all proxies read both columns.
        let why = format!("its state {:?} is unknown", entry.encoding.state);
        problems.add(entry, "is read and written", &why);
        Written::Encoded
    });
    EncodedColumn {
        name: column.clone(),
        hidden: hidden.clone(),
        fits: why.is_none(),
        written,
        first: entry.encoding.first(),
        codec,
        dictionary,
    }
}

/// Why the columns are not what they should be.
fn misfit(entry: Entry<'_>, table: &EncodedTable, schema: &Schema) -> Option<String> {
    let Encoding { column, hidden, .. } = entry.encoding;
    let definition = schema.table(&entry.table.keyspace, &entry.table.table)?;
    let is_used = |other: &EncodedColumn| other.hidden == *hidden || other.hidden == *column;
    match (definition.others.get(column), definition.others.get(hidden)) {
        (None, _) => Some(format!(
            "the table has no column {column} outside of its key"
        )),
        (Some((_, true)), _) => Some(format!("column {column} is static")),
        (Some((ty, _)), _) if ty != "text" && ty != "varchar" => {
            Some(format!("column {column} is of type {ty}, not text"))
        }
        // It is made once all proxies know of it, and dropped while they still do.
        (_, None) if entry.encoding.written() == Some(Written::Announced) => None,
        (_, None) => Some(format!(
            "the table has no column {hidden} for its encoded values"
        )),
        (_, Some((ty, is_static))) if ty != "blob" || *is_static => Some(format!(
            "column {hidden} is not one of type blob for each row"
        )),
        _ if table.columns.iter().any(is_used) => {
            Some(format!("column {hidden} belongs to another encoded column"))
        }
        _ => None,
    }
}

/// The codec of new values; or why there is none, and whether something is missing.
fn writer(
    entry: Entry<'_>,
    table: &EncodedTable,
    dictionaries: &Dictionaries,
) -> Result<(Codec, Option<DictionaryId>), (String, bool)> {
    let codec = Codec::ALL
        .into_iter()
        .find(|codec| codec.name() == entry.encoding.codec);
    let codec = codec.ok_or_else(|| {
        let why = format!(
            "this version of Helenus does not know the codec {:?}",
            entry.encoding.codec
        );
        (why, false)
    })?;
    let Some(id) = entry.encoding.dictionary else {
        return match codec.is_learned() {
            true => Err((
                format!("codec {codec} needs a dictionary, and none is named"),
                false,
            )),
            false => Ok((codec, None)),
        };
    };
    let known = u32::try_from(id).ok().map(DictionaryId);
    let known = known.and_then(|id| Some((id, table.dictionaries.get(&id)?)));
    match known {
        None => Err((
            format!("dictionary {id} is missing or cannot be used"),
            true,
        )),
        // Proxies that are started later could not read it.
        Some(_) if dictionaries.is_lost(&table.keyspace, &table.name, id) => Err((
            format!("dictionary {id} is not in helenus.dictionaries any more"),
            true,
        )),
        Some((id, learned)) if learned.suffices_for(codec) => Ok((codec, Some(id))),
        Some(_) => Err((
            format!("dictionary {id} has nothing learned for {codec}"),
            false,
        )),
    }
}
