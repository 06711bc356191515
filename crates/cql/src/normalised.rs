//! Statements as people compare them: without the values that are written into them.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::scan::is_literal_word;

/// What stands for a value.
const VALUE: &str = "?";
/// What stands for further values of a list.
const FURTHER: &str = ", …";

/// A statement with `?` in place of every value, whether it was written there or bound; without comments,
/// which may hold anything, and with single blanks. Lists of values in `IN`, in brackets and in braces are
/// shown as their first value. So statements that differ in their values only are the same text. What comes
/// after `bytes_max` is left out.
pub fn normalised(text: &str, bytes_max: usize) -> String {
    let mut made = Normalised::new(text, bytes_max);
    for token in Lexer::new(text) {
        if made.out.len() > bytes_max {
            break;
        }
        made.push(token);
    }
    made.finish()
}

struct Normalised<'a> {
    text: &'a str,
    out: String,
    bytes_max: usize,
    last: Option<Token>,
    after: After,
    /// Those that are open.
    brackets: Vec<Bracket>,
    list: List,
    /// A colon that starts a marker, if a name follows.
    colon: Option<Token>,
}

/// What has just been written, as far as it matters for what comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    In,
    Not,
    Other,
}

/// What an open bracket is around.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// All that is in it is shown.
    Plain,
    /// Of values, the first.
    List,
    /// The same, and there may be keys of entries.
    Braces,
}

/// How far a list of values has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// Nothing, or something that is no value by itself.
    Other,
    /// One value.
    One,
    /// One value and a comma that is not written yet.
    Comma,
    /// The ellipsis.
    Further,
}

impl<'a> Normalised<'a> {
    fn new(text: &'a str, bytes_max: usize) -> Self {
        Normalised {
            text,
            out: String::with_capacity(text.len().min(bytes_max)),
            bytes_max,
            last: None,
            after: After::Other,
            brackets: Vec::new(),
            list: List::Other,
            colon: None,
        }
    }

    fn push(&mut self, mut token: Token) {
        let is_name = matches!(token.kind, TokenKind::Word | TokenKind::QuotedName);
        let colon = self.colon.take();
        if let Some(colon) = colon {
            if is_name {
                token.start = colon.start;
            } else {
                self.other(colon);
                self.last = Some(colon);
            }
        }
        if token.kind == TokenKind::Colon && self.starts_marker() {
            self.colon = Some(token);
            return;
        }
        let written = self.text.get(token.start..token.end).unwrap_or_default();
        let is_value = match token.kind {
            TokenKind::Text
            | TokenKind::DollarText
            | TokenKind::Integer
            | TokenKind::Float
            | TokenKind::Hex
            | TokenKind::Uuid
            | TokenKind::Duration
            | TokenKind::Question
            | TokenKind::Invalid => true,
            _ if is_name && colon.is_some() => true,
            TokenKind::Word => is_literal_word(written) && self.after != After::Not,
            _ => false,
        };
        match is_value {
            true => self.value(token),
            false => self.other(token),
        }
        self.last = Some(token);
    }

    /// Whether a colon that comes now is the beginning of a marker. In braces it may also part the key of an
    /// entry from its value.
    fn starts_marker(&self) -> bool {
        use TokenKind::{Colon, Comma, LBrace};
        let last = self.last.map(|last| last.kind);
        self.brackets.last() != Some(&Bracket::Braces)
            || matches!(last, Some(LBrace | Comma | Colon))
    }

    fn is_in_list(&self) -> bool {
        matches!(self.brackets.last(), Some(Bracket::List | Bracket::Braces))
    }

    fn value(&mut self, token: Token) {
        self.after = After::Other;
        match self.list {
            List::Comma if self.is_in_list() => {
                self.out.push_str(FURTHER);
                self.list = List::Further;
            }
            // Or two that are not parted, in a text that is broken.
            List::Further | List::One if self.is_in_list() => {}
            _ => {
                self.blank(token);
                self.out.push_str(VALUE);
                self.list = List::One;
            }
        }
    }

    fn other(&mut self, token: Token) {
        use TokenKind::{Colon, Comma, LBrace, LBracket, LParen, RBrace, RBracket, RParen, Word};
        let written = self.text.get(token.start..token.end).unwrap_or_default();
        let list = match self.is_in_list() {
            true => self.list,
            false => List::Other,
        };
        let closes = matches!(token.kind, RParen | RBracket | RBrace);
        match (list, token.kind) {
            (List::One, Comma) => {
                self.list = List::Comma;
                return;
            }
            (List::Further, Comma | Colon) => return,
            (List::Comma, _) if !closes => self.out.push(','),
            _ => {}
        }
        self.list = List::Other;
        if closes {
            self.brackets.pop();
        }
        self.blank(token);
        self.out.push_str(written);
        match token.kind {
            LParen if self.after == After::In => self.brackets.push(Bracket::List),
            LParen => self.brackets.push(Bracket::Plain),
            LBracket => self.brackets.push(Bracket::List),
            LBrace => self.brackets.push(Bracket::Braces),
            _ => {}
        }
        let is = |word: &str| token.kind == Word && written.eq_ignore_ascii_case(word);
        self.after = match () {
            () if is("in") => After::In,
            () if is("not") => After::Not,
            () => After::Other,
        };
    }

    /// The blank before a token, if there is one.
    fn blank(&mut self, token: Token) {
        use TokenKind::*;
        let Some(last) = self.last else { return };
        let was_apart = last.end < token.start;
        let is_glued_behind = matches!(last.kind, LParen | LBracket | LBrace | Dot);
        let is_glued = matches!(
            token.kind,
            Comma | Semicolon | RParen | RBracket | RBrace | Dot | Colon
        );
        let is_operator = |kind| {
            matches!(
                kind,
                Equal | NotEqual | LessEqual | GreaterEqual | PlusEqual | MinusEqual
            )
        };
        let is_apart =
            last.kind == Comma || is_operator(last.kind) || is_operator(token.kind) || was_apart;
        if is_apart && !is_glued && !is_glued_behind {
            self.out.push(' ');
        }
    }

    fn finish(mut self) -> String {
        if self.out.len() > self.bytes_max {
            let mut end = self.bytes_max;
            while !self.out.is_char_boundary(end) {
                end -= 1;
            }
            self.out.truncate(end);
            self.out.push('…');
            return self.out;
        }
        let end = self.out.trim_end_matches([';', ' ']).len();
        self.out.truncate(end);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(normalised(text, 4_096), expected);
        assert_eq!(normalised(expected, 4_096), expected, "a second time");
    }

    #[test]
    fn no_value_is_left_and_markers_are_like_values() {
        check(
            "SELECT v FROM app.t WHERE k = 'it''s' AND c>=-5 AND d = ? LIMIT 10;",
            "SELECT v FROM app.t WHERE k = ? AND c >= ? AND d = ? LIMIT ?",
        );
        check(
            "INSERT INTO t (a, b, c, d) VALUES (0xCAFE, true, null, $$x$$) USING TTL 3600",
            "INSERT INTO t (a, b, c, d) VALUES (?, ?, ?, ?) USING TTL ?",
        );
        check(
            "UPDATE t SET v = :value WHERE k=:\"Key\"",
            "UPDATE t SET v = ? WHERE k = ?",
        );
        check(
            "CREATE ROLE app WITH PASSWORD = 'hunter2' AND LOGIN = true",
            "CREATE ROLE app WITH PASSWORD = ? AND LOGIN = ?",
        );
        check(
            "SELECT * FROM t WHERE a = 123e4567-e89b-12d3-a456-426614174000 AND b = 1h30m AND e = NaN",
            "SELECT * FROM t WHERE a = ? AND b = ? AND e = ?",
        );
        check(
            "SELECT v FROM t WHERE v IS NOT NULL",
            "SELECT v FROM t WHERE v IS NOT NULL",
        );
    }

    #[test]
    fn comments_blanks_and_names_do_not_hide_values() {
        check(
            "SELECT  v\n\tFROM \"My Table\" -- secret\n WHERE /* 'secret' */ k = 1",
            "SELECT v FROM \"My Table\" WHERE k = ?",
        );
        // Not terminated: all that follows may be a value.
        check(
            "SELECT v FROM t WHERE k = 'secret AND",
            "SELECT v FROM t WHERE k = ?",
        );
        check("SELECT v FROM t /* secret", "SELECT v FROM t ?");
        check("SELECT count(*) FROM t", "SELECT count(*) FROM t");
    }

    #[test]
    fn lists_of_values_are_as_long_as_their_first() {
        check(
            "SELECT v FROM t WHERE k IN (1, 2, 3) AND c IN (?,?)",
            "SELECT v FROM t WHERE k IN (?, …) AND c IN (?, …)",
        );
        check(
            "SELECT v FROM t WHERE k IN (1) AND l IN ?",
            "SELECT v FROM t WHERE k IN (?) AND l IN ?",
        );
        check(
            "UPDATE t SET l = [1, 2, 3], s = {'a', 'b'} WHERE k = 1",
            "UPDATE t SET l = [?, …], s = {?, …} WHERE k = ?",
        );
        check(
            "UPDATE t SET m = {'a': 1, 'b' : 2}, u = {street: 'x', number: :n} WHERE k = 1",
            "UPDATE t SET m = {?: ?, …}, u = {street: ?, number: ?} WHERE k = ?",
        );
        check(
            "SELECT {1: f(2), 3: 4} FROM t",
            "SELECT {?: f(?), ?: ?} FROM t",
        );
        check(
            "SELECT v FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
            "SELECT v FROM t WHERE (a, b) IN ((?, ?), (?, ?))",
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = format!("SELECT {} FROM t", "\"ü\", ".repeat(1_000));
        let cut = normalised(&long, 100);
        assert!(cut.len() <= 104 && cut.ends_with('…'), "{cut}");
        let bulk = format!("INSERT INTO t (k) VALUES ('{}')", "x".repeat(100_000));
        assert_eq!(normalised(&bulk, 100), "INSERT INTO t (k) VALUES (?)");
    }
}
