//! Codecs in the hands of the client: to encode documents itself, and to be measured without a cluster.

use helenus_advise::payload::measure::measure_codec;
use helenus_load::experiments::payload::{CodecTimes, Codecs, Coding, Collection};
use helenus_payload::{Codec, Decoder, DictionaryId, Encoder, Learned, learn};
use std::sync::{Arc, Mutex, PoisonError};

/// The dictionary that stored values name; small, as the first ones of a cluster are.
const ID: DictionaryId = DictionaryId(1);
/// Longer than any document here.
const DOCUMENT_BYTES_MAX: usize = 256 << 20;

/// The dictionary of each column of a collection.
pub(crate) type ByColumn = Arc<Vec<Arc<Learned>>>;

pub(crate) fn learn_columns(collection: &Collection) -> ByColumn {
    let columns = 0..collection.columns.len();
    let learned = columns.map(|column| Arc::new(learn(collection.samples_of(column))));
    Arc::new(learned.collect())
}

/// Encodes as Helenus does: each value is verified, and stored as it is if the codec cannot keep it.
pub(crate) struct ClientCoding {
    codec: Codec,
    learned: ByColumn,
    /// Those that no client uses right now.
    idle: Mutex<Vec<Tools>>,
}

struct Tools {
    /// One for each column.
    encoders: Vec<Encoder>,
    decoder: Decoder,
}

impl ClientCoding {
    pub(crate) fn new(codec: Codec, learned: &ByColumn) -> Self {
        Self {
            codec,
            learned: learned.clone(),
            idle: Mutex::default(),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Tools) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut tools = taken.unwrap_or_else(|| {
            let learned = self.learned.iter();
            let encoders = learned.map(|one| Encoder::new(self.codec, Some((ID, one.clone()))));
            Tools {
                encoders: encoders.collect(),
                decoder: Decoder::default(),
            }
        });
        let done = work(&mut tools);
        idle().push(tools);
        done
    }
}

impl std::fmt::Debug for ClientCoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCoding")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl Coding for ClientCoding {
    fn encode(&self, column: usize, document: &str, out: &mut Vec<u8>) {
        // A document that cannot be encoded is stored as it is.
        self.with(|tools| tools.encoders[column].encode(document, out).ok());
    }

    fn decode(&self, column: usize, stored: &[u8], out: &mut String) -> bool {
        let known = (ID, &*self.learned[column]);
        self.with(|tools| {
            let done = tools
                .decoder
                .decode(stored, &known, DOCUMENT_BYTES_MAX, out);
            done.is_ok()
        })
    }
}

/// Measures codecs on documents that none of them has learned from.
pub(crate) struct Measured<'a> {
    pub codecs: Vec<Codec>,
    pub collections: &'a [Arc<Collection>],
    pub learned: &'a [ByColumn],
    /// Of each column.
    pub documents_max: usize,
}

impl Codecs for Measured<'_> {
    fn names(&self) -> Vec<String> {
        self.codecs.iter().map(ToString::to_string).collect()
    }

    /// Columns count by their bytes.
    fn measure(&self, codec: &str, collection: usize) -> CodecTimes {
        let mut sum = CodecTimes::default();
        let found = self.codecs.iter().find(|known| known.name() == codec);
        let Some(&codec) = found else { return sum };
        let mut bytes_total = 0.0;
        let rows = &self.collections[collection].rows;
        for (column, learned) in self.learned[collection].iter().enumerate() {
            let rows = rows.iter().take(self.documents_max);
            let documents: Vec<&str> = rows.map(|row| &*row[column]).collect();
            let bytes = documents.iter().map(|text| text.len()).sum::<usize>() as f64;
            let report = measure_codec(codec, learned, &documents);
            sum.encode_us += report.encode_us * bytes;
            sum.encode_unverified_us += report.encode_unverified_us * bytes;
            sum.decode_us += report.decode_us * bytes;
            bytes_total += bytes;
        }
        let bytes_total = f64::max(bytes_total, 1.0);
        CodecTimes {
            encode_us: sum.encode_us / bytes_total,
            encode_unverified_us: sum.encode_unverified_us / bytes_total,
            decode_us: sum.decode_us / bytes_total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_come_back_from_every_codec_in_every_column() {
        let profiles = Collection::profiles(30, 300, 1);
        let learned = learn_columns(&profiles);
        for codec in Codec::ALL {
            let coding = ClientCoding::new(codec, &learned);
            let (mut stored, mut document) = (Vec::new(), String::new());
            let mut bytes = 0;
            for row in &profiles.rows {
                for (column, text) in row.iter().enumerate() {
                    coding.encode(column, text, &mut stored);
                    bytes += stored.len();
                    assert!(coding.decode(column, &stored, &mut document), "{codec}");
                    assert_eq!(document, *text, "{codec}");
                }
            }
            let shrinks = (bytes as u64) < profiles.bytes();
            assert!(shrinks || codec == Codec::Raw, "{codec}: {bytes}");
            assert!(!coding.decode(0, b"\xff\xff", &mut document));
            // A document that no codec takes.
            coding.encode(0, "{\"a\" : 1.0", &mut stored);
            assert!(coding.decode(0, &stored, &mut document));
            assert_eq!(document, "{\"a\" : 1.0");
        }
    }

    #[test]
    fn each_codec_takes_time() {
        let collections = [Arc::new(Collection::profiles(20, 100, 1))];
        let learned = [learn_columns(&collections[0])];
        let measured = Measured {
            codecs: vec![Codec::Smile, Codec::Shape],
            collections: &collections,
            learned: &learned,
            documents_max: 10,
        };
        assert_eq!(measured.names(), ["smile", "shape"]);
        for name in measured.names() {
            let times = measured.measure(&name, 0);
            assert!(times.encode_us > 0.0 && times.decode_us > 0.0, "{times:?}");
        }
    }
}
