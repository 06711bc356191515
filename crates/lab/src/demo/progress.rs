//! What the demo says while it works.

/// Something begins.
pub(super) fn step(line: String) {
    println!("• {line}");
}

/// What came of it.
pub(super) fn done(line: String) {
    println!("  {line}");
}
