//! Which functions a piece of a statement calls.

use std::ops::Range;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::name::{Name, fold_identifier, is_reserved};
use crate::scan::is_name;

/// A function as it is called: `f(…)` or `ks.f(…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub keyspace: Option<Name>,
    pub name: Name,
    /// Where its arguments stand, with their parentheses; up to the end if they are not closed.
    pub arguments: Range<usize>,
}

/// The functions called in a selection, a list of values, a SET or WHERE clause, at any depth, in the
/// order of the text. CAST and TOKEN are among them.
pub fn calls(piece: &str) -> Vec<Call> {
    let tokens: Vec<Token> = Lexer::new(piece).collect();
    let written = |token: &Token| piece.get(token.start..token.end).unwrap_or_default();
    let kind = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map(|token| token.kind);
    let mut found: Vec<Call> = Vec::new();
    // Whose arguments stand in the parentheses that are open.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut is_called = false;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::LParen => open.push(is_called.then(|| found.len() - 1)),
            TokenKind::RParen => {
                let closed = open.pop().flatten().and_then(|at| found.get_mut(at));
                if let Some(call) = closed {
                    call.arguments.end = token.end;
                }
            }
            _ => {}
        }
        is_called = false;
        let word = written(token);
        let named = match token.kind {
            TokenKind::QuotedName => true,
            TokenKind::Word => word.eq_ignore_ascii_case("token") || !is_reserved(word),
            _ => false,
        };
        if !named || kind(Some(at + 1)) != Some(TokenKind::LParen) {
            continue;
        }
        is_called = true;
        let qualified = kind(at.checked_sub(1)) == Some(TokenKind::Dot);
        let keyspace = at.checked_sub(2).and_then(|before| tokens.get(before));
        found.push(Call {
            keyspace: keyspace
                .filter(|keyspace| qualified && is_name(keyspace.kind))
                .map(|keyspace| fold_identifier(written(keyspace))),
            name: fold_identifier(word),
            arguments: token.end..piece.len(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_at_any_depth_and_keywords_are_none() {
        let text = "a, Now(), m[ks.\"F\" (1)], [(int) {x: uuid()}], 'f()' AND (b) IN (1, token(c))";
        let found: Vec<String> = calls(text)
            .iter()
            .map(|call| match &call.keyspace {
                Some(keyspace) => format!("{keyspace}.{}", call.name),
                None => call.name.to_string(),
            })
            .collect();
        assert_eq!(found, ["now", "ks.F", "uuid", "token"]);
    }

    #[test]
    fn calls_say_where_their_arguments_stand() {
        let text = "(a), f ((b), g(')'), [c]), h(";
        let found = calls(text);
        let arguments: Vec<&str> = found.iter().map(|of| &text[of.arguments.clone()]).collect();
        assert_eq!(arguments, [" ((b), g(')'), [c])", "(')')", "("]);
    }
}
