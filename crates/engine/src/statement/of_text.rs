//! Values made of a text once, for whatever is derived from statements.

/// A statement, as its text tells.
pub(crate) trait OfText {
    fn of_text(text: &str) -> Self;
}
