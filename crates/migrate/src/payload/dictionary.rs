//! Dictionaries of columns, kept in the catalogue for ever: values that were written with one can only be
//! read with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use helenus_catalogue::DICTIONARIES_MAX;
use helenus_cql::quote_text;
use helenus_payload::{Codec, DictionaryId, Learned, learn};
use helenus_rows::TableName;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use scylla::value::CqlTimestamp;

use super::sample::Sample;
use crate::catalogue::{self, now_ms};
use crate::nodes::cluster::Cluster;

/// Fewer documents say nothing.
pub const DOCUMENTS_MIN: usize = 20;
/// Numbers that others take at the same time.
const ATTEMPTS: usize = 10;
/// All that is kept of one.
const CONTENT: &str = "SELECT id, column_name, codec, learned, created FROM helenus.dictionaries";

/// A dictionary, with the number that values name.
pub(super) type Numbered = (DictionaryId, Arc<Learned>);

/// The dictionaries of a table.
#[derive(Clone, Debug, Default)]
pub struct Dictionaries {
    pub known: BTreeMap<DictionaryId, Arc<Learned>>,
    /// Why others cannot be used, as sentences.
    pub problems: BTreeMap<i32, String>,
}

impl Dictionaries {
    /// Those of a table whose catalogue exists.
    pub async fn load(cluster: &Cluster, table: &TableName) -> Result<Dictionaries> {
        let rows: Vec<(i32, Option<Vec<u8>>)> = cluster
            .rows(format!(
                "SELECT id, learned FROM helenus.dictionaries WHERE {}",
                place(table)
            ))
            .await?;
        let mut found = Dictionaries::default();
        for (id, learned) in rows {
            let learned = learned.context("it has no content: run `nodetool repair -full helenus`, or restore it from a backup");
            let learned = learned.and_then(|bytes| Ok(Learned::from_bytes(&bytes)?));
            match (u32::try_from(id), learned) {
                (Ok(number), Ok(learned)) => {
                    found.known.insert(DictionaryId(number), Arc::new(learned));
                }
                (_, learned) => {
                    let why = learned.err().map(|why| format!(": {why:#}"));
                    let why = why.unwrap_or_default();
                    found
                        .problems
                        .insert(id, format!("dictionary {id} cannot be used{why}"));
                }
            }
        }
        Ok(found)
    }

    /// The codec and the dictionary of new values.
    ///
    /// # Errors
    /// Why they cannot be.
    pub(super) fn writer(
        &self,
        codec: &str,
        dictionary: Option<i32>,
    ) -> Result<(Codec, Option<Numbered>)> {
        let named = Codec::ALL.into_iter().find(|of| of.name() == codec);
        let codec = named.with_context(|| {
            format!("this version of helenus does not know the codec {codec:?}")
        })?;
        if !codec.is_learned() {
            return Ok((codec, None));
        }
        let id =
            dictionary.with_context(|| format!("{codec} needs a dictionary, and none is named"))?;
        if let Some(problem) = self.problems.get(&id) {
            bail!("{problem}");
        }
        let id = DictionaryId(u32::try_from(id)?);
        let learned = self.known.get(&id).with_context(|| {
            format!("dictionary {id} is missing: restore helenus.dictionaries from a backup")
        })?;
        if !learned.suffices_for(codec) {
            bail!("dictionary {id} has nothing learned for {codec}");
        }
        Ok((codec, Some((id, learned.clone()))))
    }
}

/// Learns what a codec needs; nothing if it needs nothing.
pub(super) fn of_sample(codec: Codec, sample: &Sample) -> Result<Learned> {
    let found = sample.documents.len();
    if found < DOCUMENTS_MIN {
        bail!(
            "{} has {found} documents, which is too few to learn from for {codec}: at least {DOCUMENTS_MIN} are \
             needed, and a few thousand say enough. Fill the table first, learn from a file with --documents, or \
             take a codec that learns nothing, such as cbor",
            sample.name
        );
    }
    let learned = learn(sample.documents.iter().map(String::as_str));
    if !learned.suffices_for(codec) {
        bail!(
            "nothing could be learned for {codec} from {}: `helenus payload advise` compares the codecs",
            sample.name
        );
    }
    Ok(learned)
}

fn place(table: &TableName) -> String {
    format!(
        "keyspace_name = {} AND table_name = {}",
        quote_text(&table.keyspace),
        quote_text(&table.table)
    )
}

/// Why no further dictionary is made for a table that has so many.
pub(super) fn too_many(table: &TableName, count: usize) -> Option<String> {
    (count >= DICTIONARIES_MAX).then(|| {
        format!(
            "{table} has {count} dictionaries in helenus.dictionaries, all of which each proxy keeps in memory, and no \
             more than {DICTIONARIES_MAX} are made. Any value may need any of them as long as a column of the table is \
             encoded. Take a codec that learns nothing, such as cbor; or take all columns back (helenus payload \
             disable), and delete those that no backup needs, but for the one with the greatest id: no id may be used \
             twice"
        )
    })
}

/// A dictionary of a table, with all that is kept of it.
type Kept = (
    i32,
    Option<String>,
    Option<String>,
    Option<Vec<u8>>,
    Option<CqlTimestamp>,
);

/// The numbers that are taken, in order. One that was taken and is not seen would get another content, by which the values
/// that name it would become other texts. So all replicas are asked, and given what they lack.
///
/// # Errors
/// One of them is lost.
async fn used(cluster: &Cluster, table: &TableName) -> Result<Vec<i32>> {
    // First: what it names has been stored before.
    let known = catalogue::read(cluster, table).await?;
    let mut select = Statement::new(format!("{CONTENT} WHERE {}", place(table)));
    select.set_consistency(Consistency::All);
    let kept: Vec<Kept> = cluster.rows(select).await?;
    let used: Vec<i32> = kept.into_iter().map(|(id, ..)| id).collect();
    let named = known.encodings().iter().filter_map(|of| of.dictionary);
    match lost(&used, named) {
        None => Ok(used),
        Some(id) => bail!(
            "helenus.dictionaries has lost dictionary {id} of {table}, which the catalogue names: run `nodetool repair \
             -full helenus` on all nodes, or restore it from a backup"
        ),
    }
}

/// A number that is named and not there.
fn lost(used: &[i32], mut named: impl Iterator<Item = i32>) -> Option<i32> {
    named.find(|id| !used.contains(id))
}

/// Keeps what was learned under a number of its own.
pub(super) async fn store(
    cluster: &Cluster,
    table: &TableName,
    column: &str,
    codec: Codec,
    learned: &Learned,
) -> Result<i32> {
    let bytes = learned.to_bytes();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    for _ in 0..ATTEMPTS {
        let used = used(cluster, table).await?;
        if let Some(why) = too_many(table, used.len()) {
            bail!("{why}");
        }
        let id = used.last().map_or(0, |id| *id) + 1;
        let insert = format!(
            "INSERT INTO helenus.dictionaries (keyspace_name, table_name, id, column_name, codec, learned, \
             created) VALUES ({}, {}, {id}, {}, {}, 0x{digits}, {}) IF NOT EXISTS",
            quote_text(&table.keyspace),
            quote_text(&table.table),
            quote_text(column),
            quote_text(codec.name()),
            now_ms()
        );
        let applied = cluster.is_applied(&insert).await;
        // One that may have been stored, or not, is left: numbers are plenty.
        if applied.context("what was learned could not be stored in helenus.dictionaries")? {
            let read = format!("{CONTENT} WHERE {} AND id = {id}", place(table));
            catalogue::spread(cluster, &read).await?;
            return Ok(id);
        }
    }
    bail!("others store dictionaries of {table} at the same time: run this again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_needs_what_its_codec_has_learned() {
        let documents: Vec<String> = (0..200)
            .map(|n| format!("{{\"name\":\"n{n}\",\"age\":{n}}}"))
            .collect();
        let learned = learn(documents.iter().map(String::as_str));
        let mut dictionaries = Dictionaries::default();
        dictionaries
            .known
            .insert(DictionaryId(3), Arc::new(learned));
        dictionaries
            .known
            .insert(DictionaryId(4), Arc::new(learn([])));
        dictionaries
            .problems
            .insert(6, "dictionary 6 cannot be used: it is damaged".to_owned());
        let error = |codec: &str, id| {
            let done = dictionaries.writer(codec, id);
            done.err().map(|error| error.to_string())
        };
        assert_eq!(error("shape", Some(3)), None);
        assert_eq!(error("cbor", None), None);
        for (codec, id, why) in [
            ("brotli", None, "does not know the codec"),
            ("shape", None, "none is named"),
            ("shape", Some(5), "dictionary 5 is missing"),
            ("shape", Some(4), "nothing learned"),
            ("shape", Some(6), "it is damaged"),
        ] {
            let error = error(codec, id).expect(codec);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_table_gets_only_so_many_dictionaries() {
        let table: TableName = "shop.users".parse().expect("a name");
        assert_eq!(too_many(&table, DICTIONARIES_MAX - 1), None);
        let why = too_many(&table, DICTIONARIES_MAX).expect("too many");
        assert!(
            why.contains("64 dictionaries") && why.contains("cbor"),
            "{why}"
        );
    }

    #[test]
    fn too_few_documents_say_nothing() {
        let sample = Sample {
            name: "shop.users profile".to_owned(),
            column: None,
            documents: vec!["{}".to_owned(); 3],
            is_cut: false,
        };
        let error = of_sample(Codec::Shape, &sample).expect_err("too few");
        assert!(error.to_string().contains("--documents"), "{error}");
    }
}
