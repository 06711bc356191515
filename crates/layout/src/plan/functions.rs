//! Which functions give the same result whenever and wherever they are called.

use helenus_cql::Call;

/// Cassandra's own, 4.1 and 5.0, less the conversions from and to blobs. Not among them: `now`,
/// `uuid`, `current…`.
const DETERMINISTIC: &[&str] = &[
    "abs",
    "cast",
    "collection_avg",
    "collection_count",
    "collection_max",
    "collection_min",
    "collection_sum",
    "dateof",
    "exp",
    "floor",
    "from_json",
    "fromjson",
    "log",
    "log10",
    "map_keys",
    "map_values",
    "mask_default",
    "mask_hash",
    "mask_inner",
    "mask_null",
    "mask_outer",
    "mask_replace",
    "max_timeuuid",
    "maxtimeuuid",
    "min_timeuuid",
    "mintimeuuid",
    "round",
    "similarity_cosine",
    "similarity_dot_product",
    "similarity_euclidean",
    "to_date",
    "to_json",
    "to_timestamp",
    "to_unix_timestamp",
    "todate",
    "tojson",
    "token",
    "totimestamp",
    "tounixtimestamp",
    "unixtimestampof",
];

/// Functions that can only be selected: properties of a cell, and aggregates.
const SELECTED: &[&str] = &[
    "avg",
    "count",
    "max",
    "maxwritetime",
    "min",
    "minwritetime",
    "sum",
    "ttl",
    "writetime",
];

/// True if equal arguments give equal results each time, so that every copy can compute it for itself.
pub(super) fn is_deterministic(call: &Call) -> bool {
    let name = call.name.as_str();
    is_native(call) && (DETERMINISTIC.binary_search(&name).is_ok() || is_blob_conversion(name))
}

/// A function that may be selected from a layout.
pub(super) fn is_selectable(call: &Call) -> bool {
    is_deterministic(call)
        || (is_native(call) && SELECTED.binary_search(&call.name.as_str()).is_ok())
}

fn is_native(call: &Call) -> bool {
    call.keyspace
        .as_ref()
        .is_none_or(|keyspace| *keyspace == "system")
}

/// `blobasint`, `blob_as_int`, `intasblob`, `int_as_blob`.
fn is_blob_conversion(name: &str) -> bool {
    name.starts_with("blobas")
        || name.starts_with("blob_as_")
        || name.ends_with("asblob")
        || name.ends_with("_as_blob")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_name_and_keyspace() {
        assert!(DETERMINISTIC.is_sorted() && SELECTED.is_sorted());
        let is = |text: &str| is_deterministic(&helenus_cql::calls(text)[0]);
        for text in [
            "ToJson(a)",
            "system.abs(-1)",
            "intAsBlob(3)",
            "blob_as_text(0x00)",
        ] {
            assert!(is(text), "{text}");
        }
        for text in [
            "now()",
            "uuid()",
            "currentTimestamp()",
            "ks.abs(1)",
            "f(1)",
            "max(a)",
        ] {
            assert!(!is(text), "{text}");
        }
        assert!(is_selectable(&helenus_cql::calls("WRITETIME(a)")[0]));
    }
}
