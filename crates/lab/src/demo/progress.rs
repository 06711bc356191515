//! Progress of the demo, on the terminal.

/// Something begins.
pub(super) fn step(line: String) {
    println!("• {line}");
}

/// The result of the step.
pub(super) fn done(line: String) {
    println!("  {line}");
}
