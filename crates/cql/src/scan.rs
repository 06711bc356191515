//! One pass over the tokens of a statement that determines what depends on context: which colons
//! start a marker, the number of each marker, and which bracket closes which. Later passes skip
//! over brackets instead of descending into them, so nesting costs neither stack nor time.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::name::{Name, fold_identifier};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tok {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
    /// For a bracket: the position of its partner among the tokens. For a marker: its index.
    pub link: usize,
}

pub(crate) struct Scan<'a> {
    pub text: &'a str,
    pub toks: Vec<Tok>,
    pub markers: u16,
    pub named: Vec<(Name, u16)>,
    /// Every token is valid CQL, every bracket has its partner, and markers fit into 16 bits.
    pub sound: bool,
}

/// Tokens for which there is room at first: a long text may be one literal.
const ROOM_FIRST: usize = 4_096;

pub(crate) fn scan(text: &str) -> Scan<'_> {
    let mut scan = Scan {
        text,
        toks: Vec::with_capacity((text.len() / 5 + 4).min(ROOM_FIRST)),
        markers: 0,
        named: Vec::new(),
        sound: true,
    };
    let mut open: Vec<usize> = Vec::new();
    let mut lexer = Lexer::new(text).peekable();
    while let Some(token) = lexer.next() {
        let mut tok = Tok {
            kind: token.kind,
            start: token.start,
            end: token.end,
            link: usize::MAX,
        };
        match token.kind {
            TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace => {
                open.push(scan.toks.len());
            }
            TokenKind::RParen | TokenKind::RBracket | TokenKind::RBrace => {
                tok.link = scan.close(open.pop(), token.kind);
            }
            TokenKind::Question => tok.link = scan.new_marker(),
            TokenKind::Colon => {
                let name = lexer.next_if(|next| {
                    is_name(next.kind) && scan.colon_starts_marker(open.last().copied())
                });
                if let Some(Token { start, end, .. }) = name {
                    tok.kind = TokenKind::NamedMarker;
                    tok.end = end;
                    tok.link = scan.new_marker();
                    if let Ok(index) = u16::try_from(tok.link) {
                        let written = text.get(start..end).unwrap_or_default();
                        scan.named.push((fold_identifier(written), index));
                    }
                }
            }
            TokenKind::Invalid => scan.sound = false,
            _ => {}
        }
        scan.toks.push(tok);
    }
    scan.sound &= open.is_empty();
    scan
}

pub(crate) fn is_name(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Word | TokenKind::QuotedName)
}

impl Scan<'_> {
    pub(crate) fn str(&self, index: usize) -> &str {
        self.toks
            .get(index)
            .and_then(|tok| self.text.get(tok.start..tok.end))
            .unwrap_or_default()
    }

    pub(crate) fn kind(&self, index: usize) -> Option<TokenKind> {
        self.toks.get(index).map(|tok| tok.kind)
    }

    /// True if the token is this keyword (given in lower case).
    pub(crate) fn is_word(&self, index: usize, keyword: &str) -> bool {
        self.kind(index) == Some(TokenKind::Word) && self.str(index).eq_ignore_ascii_case(keyword)
    }

    /// The protocol counts markers in 16 bits; a statement with more is not sound.
    fn new_marker(&mut self) -> usize {
        let index = self.markers;
        match self.markers.checked_add(1) {
            Some(next) => {
                self.markers = next;
                usize::from(index)
            }
            None => {
                self.sound = false;
                usize::MAX
            }
        }
    }

    fn close(&mut self, open: Option<usize>, closing: TokenKind) -> usize {
        let here = self.toks.len();
        let partner = open.and_then(|open| Some((open, self.toks.get_mut(open)?)));
        match partner {
            Some((open, tok)) if partner_of(tok.kind) == closing => {
                tok.link = here;
                open
            }
            _ => {
                self.sound = false;
                usize::MAX
            }
        }
    }

    /// True if the next colon, which precedes a name, starts a marker rather than separating the two sides of a map
    /// entry. Only braces have entries, and there it separates if something that could be a key has just ended.
    fn colon_starts_marker(&self, innermost: Option<usize>) -> bool {
        let in_braces = innermost.and_then(|open| self.kind(open)) == Some(TokenKind::LBrace);
        let Some(last) = self.toks.len().checked_sub(1).filter(|_| in_braces) else {
            return true;
        };
        match self.kind(last) {
            Some(TokenKind::RParen) => self.closes_type_cast(last),
            Some(
                TokenKind::Word
                | TokenKind::QuotedName
                | TokenKind::Text
                | TokenKind::DollarText
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Hex
                | TokenKind::Uuid
                | TokenKind::Duration
                | TokenKind::Question
                | TokenKind::NamedMarker
                | TokenKind::RBracket
                | TokenKind::RBrace,
            ) => false,
            _ => true,
        }
    }

    /// True if the brackets that close here contain a type name, as in `(int) :value`.
    fn closes_type_cast(&self, close: usize) -> bool {
        let Some(open) = self.toks.get(close).map(|tok| tok.link) else {
            return false;
        };
        let first = open.saturating_add(1);
        let a_word = self.kind(first).is_some_and(is_name) && !is_literal_word(self.str(first));
        let called = open.checked_sub(1).and_then(|before| self.kind(before));
        a_word
            && !called.is_some_and(is_name)
            && match self.kind(first + 1) {
                Some(TokenKind::RParen) => first + 1 == close,
                Some(TokenKind::Dot) => first + 3 == close,
                Some(TokenKind::Less) => true,
                _ => false,
            }
    }
}

/// Words that are values.
pub(crate) fn is_literal_word(word: &str) -> bool {
    ["true", "false", "null", "nan", "infinity"]
        .iter()
        .any(|literal| word.eq_ignore_ascii_case(literal))
}

fn partner_of(open: TokenKind) -> TokenKind {
    match open {
        TokenKind::LParen => TokenKind::RParen,
        TokenKind::LBracket => TokenKind::RBracket,
        _ => TokenKind::RBrace,
    }
}
