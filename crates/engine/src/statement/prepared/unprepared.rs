//! How nodes say that they do not know a prepared statement.

use helenus_wire::write;

/// The text and fields with which a node says that it does not know a statement.
pub(crate) fn unprepared(id: &[u8]) -> (String, Vec<u8>) {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!(
        "Prepared query with ID {hex} not found (either the query was not prepared on this host \
         (maybe the host has been restarted?) or you have prepared too many queries and it has \
         been evicted from the internal cache)"
    );
    let mut fields = Vec::new();
    write::short_bytes(&mut fields, id);
    (text, fields)
}
