//! Texts of statements.

/// Any text is understood or opaque.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = helenus_cql::facts(text);
    }
}
