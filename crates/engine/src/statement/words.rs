//! Words of statements that only begin to be understood.

use helenus_cql::lexer::{Lexer, TokenKind};

/// The first words of a statement, without comments.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let tokens = Lexer::new(text).take_while(|token| token.kind == TokenKind::Word);
    tokens.filter_map(|token| text.get(token.start..token.end))
}

/// True if a word is one of these keywords, in lower or upper case.
pub(crate) fn is_one_of(word: &str, any: &[&str]) -> bool {
    any.iter().any(|of| word.eq_ignore_ascii_case(of))
}
