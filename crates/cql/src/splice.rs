//! Other words in places of a text.

use std::ops::Range;

/// The text with these pieces in place of its own, which do not overlap; `None` where one is not within it.
pub(crate) fn spliced(text: &str, mut pieces: Vec<(Range<usize>, String)>) -> Option<String> {
    pieces.sort_by_key(|(span, _)| (span.start, span.end));
    let more: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
    let mut out = String::with_capacity(text.len() + more);
    let mut at = 0;
    for (span, piece) in pieces {
        out.push_str(text.get(at..span.start)?);
        out.push_str(&piece);
        at = span.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}
