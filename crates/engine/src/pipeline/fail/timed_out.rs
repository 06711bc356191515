//! The error that says that nobody knows what became of a query.

use helenus_wire::{Opcode, code, write};

use crate::pipeline::query::Query;

/// Its code and fields. `newest`: the client speaks v5.
pub(crate) fn timed_out(query: &Query, newest: bool) -> (i32, Vec<u8>) {
    let mut fields = Vec::with_capacity(24);
    write::u16(&mut fields, query.consistency.0);
    write::i32(&mut fields, 0);
    write::i32(&mut fields, 1);
    if query.is_read() {
        fields.push(0);
        return (code::READ_TIMEOUT, fields);
    }
    if !query.is_write() {
        return (code::SERVER, Vec::new());
    }
    let lwt = query.statement.as_ref().is_some_and(|s| s.facts.lwt);
    let write_type = match query.opcode {
        // One statement as a batch, of itself and of others that follow from it, is one mutation.
        Opcode::Batch if query.statement.is_none() => "BATCH",
        _ if lwt => "CAS",
        _ => "SIMPLE",
    };
    write::string(&mut fields, write_type);
    // The two bytes behind "CAS" count contentions. Only v5 has them, and the conversion to an
    // older version would replace the text.
    if write_type == "CAS" && newest {
        write::u16(&mut fields, 0);
    }
    (code::WRITE_TIMEOUT, fields)
}
