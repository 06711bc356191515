//! Statements as people compare them: without the values that are written into them.
//!
//! Words that may be values are not shown. A text that does not parse to its end may hold values anywhere, where a
//! quote is missing for example: of it, only the keywords at its beginning are shown.

use crate::facts::{Facts, Kind};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::scan::{is_literal_word, is_name};

/// Stands for a value.
const VALUE: &str = "?";
/// Stands for further values of a list.
const FURTHER: &str = ", …";
/// Stands for all that is not shown.
const HIDDEN: &str = " …";
/// Stands for characters that would control a terminal.
const REPLACED: char = char::REPLACEMENT_CHARACTER;

/// Words with which statements begin, and those that say what such a statement is about.
const FIRST: &[&str] = &[
    "SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "USE", "TRUNCATE", "CREATE", "ALTER", "DROP",
    "GRANT", "REVOKE", "LIST", "ADD", "DESCRIBE", "DESC",
];
const SECOND: &[&str] = &[
    "KEYSPACE",
    "SCHEMA",
    "TABLE",
    "COLUMNFAMILY",
    "MATERIALIZED",
    "INDEX",
    "CUSTOM",
    "TRIGGER",
    "TYPE",
    "FUNCTION",
    "AGGREGATE",
    "ROLE",
    "USER",
    "IDENTITY",
    "BATCH",
    "UNLOGGED",
    "COUNTER",
];
/// Types that a value may be cast to.
const TYPES: &[&str] = &[
    "ASCII",
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "COUNTER",
    "DATE",
    "DECIMAL",
    "DOUBLE",
    "DURATION",
    "FLOAT",
    "INET",
    "INT",
    "SMALLINT",
    "TEXT",
    "TIME",
    "TIMESTAMP",
    "TIMEUUID",
    "TINYINT",
    "UUID",
    "VARCHAR",
    "VARINT",
];
/// Keywords that may come after a value.
const AFTER_VALUES: &[&str] = &[
    "AND",
    "AS",
    "FROM",
    "WHERE",
    "IF",
    "IN",
    "USING",
    "SET",
    "LIMIT",
    "ORDER",
    "GROUP",
    "PER",
    "ALLOW",
    "DEFAULT",
    "WITH",
    "APPLY",
    "INSERT",
    "UPDATE",
    "DELETE",
    "IS",
    "LIKE",
    "CONTAINS",
    "BETWEEN",
    "TTL",
    "TIMESTAMP",
    "BATCH",
];

/// A statement with `?` in place of every value, whether it was written there or bound; without comments,
/// which may hold anything, and with single blanks. Lists of values in `IN`, in brackets and in braces are
/// shown as their first value. So statements that differ in their values only are the same text. The text
/// after `bytes_max` is left out. Of roles and users, only the name is shown.
pub fn normalised(text: &str, facts: &Facts, bytes_max: usize) -> String {
    shown(text, facts, bytes_max, Lists::Shortened).0
}

/// [`normalised`], whole and with as many `?` as there are values.
pub fn without_values(text: &str, facts: &Facts) -> String {
    with_markers(text, facts).0
}

/// [`without_values`], and whether it means what the text means once its values are bound. It does not if something
/// is hidden, or if a name had to be taken for a value, such as a type of the user's own to which a value is cast.
pub fn with_markers(text: &str, facts: &Facts) -> (String, bool) {
    shown(text, facts, usize::MAX, Lists::Whole)
}

fn shown(text: &str, facts: &Facts, bytes_max: usize, lists: Lists) -> (String, bool) {
    if facts.kind == Kind::Opaque {
        return (first_words(text), false);
    }
    let mut made = Normalised::new(text, bytes_max, lists);
    let mut tokens = Lexer::new(text).peekable();
    let mut of_role = (facts.kind == Kind::Auth).then(RoleName::default);
    while let Some(token) = tokens.next() {
        if made.out.len() > bytes_max {
            break;
        }
        let written = text.get(token.start..token.end).unwrap_or_default();
        if let Some(of_role) = &mut of_role
            && of_role.hides(written, token.kind)
        {
            made.out.push_str(HIDDEN);
            made.is_whole = false;
            break;
        }
        made.push(token, tokens.peek().copied());
    }
    let is_whole = made.is_whole;
    (made.finish(), is_whole)
}

/// The keywords with which a text begins, two at most, and nothing of what follows.
pub fn first_words(text: &str) -> String {
    let mut tokens = Lexer::new(text);
    let mut next = |known: &[&'static str]| {
        let token = tokens.next()?;
        let written = text.get(token.start..token.end)?;
        let mut known = known.iter();
        known
            .find(|word| word.eq_ignore_ascii_case(written))
            .copied()
    };
    match next(FIRST) {
        None => HIDDEN.trim_start().to_owned(),
        Some(first) => match next(SECOND) {
            None => format!("{first}{HIDDEN}"),
            Some(second) => format!("{first} {second}{HIDDEN}"),
        },
    }
}

/// How far a statement that defines a role has come: its passwords and options come after its name.
#[derive(Default)]
enum RoleName {
    #[default]
    First,
    /// It defines something: its name is still to come.
    Defines,
    Named,
    /// It defines nothing, such as GRANT.
    Other,
}

impl RoleName {
    /// True if this and all that follows is hidden.
    fn hides(&mut self, written: &str, kind: TokenKind) -> bool {
        let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(written));
        match self {
            RoleName::First if is(&["CREATE", "ALTER", "DROP"]) => *self = RoleName::Defines,
            RoleName::First => *self = RoleName::Other,
            RoleName::Defines if is(&["ROLE", "USER", "IDENTITY", "IF", "NOT", "EXISTS"]) => {}
            RoleName::Defines => *self = RoleName::Named,
            RoleName::Named => return kind != TokenKind::Semicolon,
            RoleName::Other => return is(&["PASSWORD", "HASHED", "OPTIONS", "ACCESS"]),
        }
        false
    }
}

struct Normalised<'a> {
    text: &'a str,
    out: String,
    bytes_max: usize,
    lists: Lists,
    last: Option<Token>,
    after: After,
    /// Those that are open.
    brackets: Vec<Bracket>,
    list: List,
    /// A colon that starts a marker, if a name follows.
    colon: Option<Token>,
    /// The last token is a value, or without a blank behind one: `it's` has a value and a word.
    is_behind_value: bool,
    /// The name before the last token, if that was an operator.
    operator: Option<&'a str>,
    name: Option<&'a str>,
    /// Only values have become `?`.
    is_whole: bool,
}

/// The kind of the word just written, as far as it matters for the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    In,
    Not,
    /// VALUES, or an operator.
    Values,
    Other,
}

/// The content of an open bracket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// All that is in it is shown.
    Plain,
    /// Of values, all.
    Values,
    /// Of values, the first.
    List,
    /// Of values, the first, and there may be keys of entries.
    Braces,
}

/// How lists of values are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    Shortened,
    Whole,
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
    fn new(text: &'a str, bytes_max: usize, lists: Lists) -> Self {
        Normalised {
            text,
            out: String::with_capacity(text.len().min(bytes_max)),
            bytes_max,
            lists,
            last: None,
            after: After::Other,
            brackets: Vec::new(),
            list: List::Other,
            colon: None,
            is_behind_value: false,
            operator: None,
            name: None,
            is_whole: true,
        }
    }

    fn push(&mut self, mut token: Token, next: Option<Token>) {
        let is_name = is_name(token.kind);
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
            | TokenKind::Question => true,
            _ if is_name && colon.is_some() => true,
            TokenKind::Word if is_literal_word(written) => self.after != After::Not,
            TokenKind::Invalid => {
                self.is_whole = false;
                true
            }
            _ if is_name => {
                let is_in_place = self.is_in_place_of_value(token, written, next);
                self.is_whole &= !is_in_place;
                is_in_place
            }
            _ => false,
        };
        self.note(token, written, is_value);
        match is_value {
            true => self.value(token),
            false => self.other(token),
        }
        self.last = Some(token);
    }

    /// Notes what tells whether a name that follows is in place of a value.
    fn note(&mut self, token: Token, written: &'a str, is_value: bool) {
        use TokenKind::*;
        let is_glued = self.last.is_some_and(|last| last.end == token.start);
        let joins = is_name(token.kind)
            || matches!(
                token.kind,
                Dot | Minus | Plus | Slash | Star | Percent | Range
            );
        self.is_behind_value = is_value || self.is_behind_value && is_glued && joins;
        let is_operator = matches!(
            token.kind,
            Equal | NotEqual | LessEqual | GreaterEqual | PlusEqual | MinusEqual
        );
        self.operator = match is_operator {
            true => Some(self.name.unwrap_or_default()),
            false => None,
        };
        self.name = is_name(token.kind).then_some(written);
    }

    /// True if a name is where only a value makes sense, or may be a part of one: glued to a literal or right
    /// behind it, behind an operator, or in a list.
    fn is_in_place_of_value(&self, token: Token, written: &str, next: Option<Token>) -> bool {
        use TokenKind::{Colon, Dot, LParen, Question, RParen};
        let last = self.last.map(|last| last.kind);
        if self.is_behind_value {
            let is_glued = self.last.is_some_and(|last| last.end == token.start);
            let mut keywords = AFTER_VALUES.iter();
            // A marker ends by itself: a keyword needs no blank behind it.
            let may_be_keyword = !is_glued || last == Some(Question);
            return !(may_be_keyword && keywords.any(|word| word.eq_ignore_ascii_case(written)));
        }
        let next = next.map(|next| next.kind);
        if matches!(next, Some(LParen | Dot)) || last == Some(Dot) {
            return false;
        }
        let is_in_brackets = last == Some(LParen) && next == Some(RParen);
        if is_in_brackets && TYPES.iter().any(|of| of.eq_ignore_ascii_case(written)) {
            // `(int) 5`
            return false;
        }
        match self.operator {
            // `c = c + 1`
            Some(left) => written != left,
            // In braces, a word before a colon is a field; what is in double quotes may be the key of an entry.
            None => {
                let is_field = next == Some(Colon) && token.kind == TokenKind::Word;
                self.is_among_values() && !is_field
            }
        }
    }

    /// True if only values can come here, and names in their types.
    fn is_among_values(&self) -> bool {
        self.brackets.last().is_some_and(|of| *of != Bracket::Plain)
    }

    /// True if a colon that comes now is the beginning of a marker. In braces it may also part the key of an entry
    /// from its value.
    fn starts_marker(&self) -> bool {
        use TokenKind::{Colon, Comma, LBrace};
        let last = self.last.map(|last| last.kind);
        self.brackets.last() != Some(&Bracket::Braces)
            || matches!(last, Some(LBrace | Comma | Colon))
    }

    fn is_in_list(&self) -> bool {
        let is_list = matches!(self.brackets.last(), Some(Bracket::List | Bracket::Braces));
        is_list && self.lists == Lists::Shortened
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
        let shown = written.chars();
        let shown = shown.map(|c| if c.is_control() { REPLACED } else { c });
        self.out.extend(shown);
        match token.kind {
            LParen if self.after == After::In => self.brackets.push(Bracket::List),
            LParen if self.after == After::Values || self.is_among_values() => {
                self.brackets.push(Bracket::Values);
            }
            LParen => self.brackets.push(Bracket::Plain),
            LBracket => self.brackets.push(Bracket::List),
            LBrace => self.brackets.push(Bracket::Braces),
            _ => {}
        }
        let is = |word: &str| token.kind == Word && written.eq_ignore_ascii_case(word);
        self.after = match () {
            () if is("in") => After::In,
            () if is("not") => After::Not,
            () if is("values") || self.operator.is_some() => After::Values,
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
mod tests;
