//! Literals in Cassandra's own bytes, so that a key written in the text can be hashed.

use crate::literal::Literal;

/// The bytes that Cassandra stores for this literal in a column of this CQL type. None if the
/// literal does not fit the type, or if the outcome is not certain; the caller then does without.
pub fn encode_literal(literal: &Literal, ty: &str) -> Option<Vec<u8>> {
    let ty = ty.trim().to_ascii_lowercase();
    let bytes = match (ty.as_str(), literal) {
        ("text" | "varchar", Literal::Text(text)) => text.clone().into_bytes(),
        ("ascii", Literal::Text(text)) if text.is_ascii() => text.clone().into_bytes(),
        ("int", Literal::Int(n)) => i32::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("bigint" | "counter", Literal::Int(n)) => i64::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("smallint", Literal::Int(n)) => i16::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("tinyint", Literal::Int(n)) => i8::try_from(*n).ok()?.to_be_bytes().to_vec(),
        ("uuid", Literal::Uuid(uuid)) => uuid.to_vec(),
        ("boolean", Literal::Bool(b)) => vec![u8::from(*b)],
        ("blob", Literal::Blob(blob)) => blob.clone(),
        _ => return None,
    };
    Some(bytes)
}
