//! Splits CQL text into tokens with byte spans. Any input is accepted: text that is not a CQL
//! token, or not terminated, becomes [`TokenKind::Invalid`]. Comments and blanks are dropped.
//!
//! Two peculiarities of Cassandra's own lexer: a minus sign directly before a digit belongs to the
//! number (`a-1` is a name and the number −1), and `P1D` is a duration although it looks like a
//! name.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted name or a keyword; only the grammar can distinguish them.
    Word,
    /// `"…"` with `""` for a quote inside.
    QuotedName,
    /// `'…'` with `''` for a quote inside.
    Text,
    /// `$$…$$`, nothing escaped.
    DollarText,
    Integer,
    Float,
    /// `0x…`
    Hex,
    Uuid,
    /// `1h30m`, `P1DT2H`, `P3W` or `P0001-02-03T04:05:06`.
    Duration,
    /// `?`
    Question,
    /// `:name`. The lexer itself yields a colon and a word; joining them takes context, because
    /// `{a:b}` has a colon too.
    NamedMarker,
    Colon,
    Comma,
    Semicolon,
    Dot,
    /// `..`
    Range,
    LParen,
    RParen,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    Equal,
    /// `!=`
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    /// `+=`
    PlusEqual,
    /// `-=`
    MinusEqual,
    Invalid,
}

/// One token; `start..end` are byte offsets on character boundaries of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

/// Iterates over the tokens of a text; linear in its length.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Lexer {
            bytes: text.as_bytes(),
            pos: 0,
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let start = match self.skip_blanks() {
            Ok(start) => start,
            Err(unterminated_comment) => {
                self.pos = self.bytes.len();
                return Some(Token {
                    kind: TokenKind::Invalid,
                    start: unterminated_comment,
                    end: self.pos,
                });
            }
        };
        let first = self.at(start)?;
        let (kind, end) = self.token(start, first);
        self.pos = end;
        Some(Token { kind, start, end })
    }
}

impl Lexer<'_> {
    fn at(&self, pos: usize) -> Option<u8> {
        self.bytes.get(pos).copied()
    }

    /// The next position that is neither blank nor comment, or the start of an unterminated
    /// comment: Cassandra wants the end of its line, too.
    fn skip_blanks(&self) -> Result<usize, usize> {
        let mut pos = self.pos;
        loop {
            match (self.at(pos), self.at(pos + 1)) {
                (Some(b' ' | b'\t' | b'\n' | b'\r'), _) => pos += 1,
                (Some(b'-'), Some(b'-')) | (Some(b'/'), Some(b'/')) => {
                    let start = pos;
                    pos += 2;
                    while !matches!(self.at(pos), Some(b'\n' | b'\r')) {
                        if self.at(pos).is_none() {
                            return Err(start);
                        }
                        pos += 1;
                    }
                }
                (Some(b'/'), Some(b'*')) => {
                    let start = pos;
                    pos += 2;
                    while (self.at(pos), self.at(pos + 1)) != (Some(b'*'), Some(b'/')) {
                        if self.at(pos).is_none() {
                            return Err(start);
                        }
                        pos += 1;
                    }
                    pos += 2;
                }
                _ => return Ok(pos),
            }
        }
    }

    fn token(&self, start: usize, first: u8) -> (TokenKind, usize) {
        use TokenKind::*;
        let next = self.at(start + 1);
        let one = |kind| (kind, start + 1);
        let two = |kind| (kind, start + 2);
        match first {
            b'0'..=b'9' => self.number(start),
            b'a'..=b'z' | b'A'..=b'Z' => self.word(start, first),
            b'\'' => self.quoted(start, b'\'', Text),
            b'"' => self.quoted(start, b'"', QuotedName),
            b'$' if next == Some(b'$') => self.dollar_text(start),
            b'-' => match next {
                Some(b'0'..=b'9') => self.number(start),
                Some(b'=') => two(MinusEqual),
                // After a sign it is not a name, whatever follows.
                Some(b'P') => self
                    .iso_duration(start + 1)
                    .map_or(one(Minus), |end| (Duration, end)),
                _ => self
                    .negative_name(start)
                    .map_or(one(Minus), |end| (Float, end)),
            },
            b'+' if next == Some(b'=') => two(PlusEqual),
            b'<' if next == Some(b'=') => two(LessEqual),
            b'>' if next == Some(b'=') => two(GreaterEqual),
            b'!' if next == Some(b'=') => two(NotEqual),
            b'.' if next == Some(b'.') => two(Range),
            b'+' => one(Plus),
            b'<' => one(Less),
            b'>' => one(Greater),
            b'.' => one(Dot),
            b'?' => one(Question),
            b':' => one(Colon),
            b',' => one(Comma),
            b';' => one(Semicolon),
            b'(' => one(LParen),
            b')' => one(RParen),
            b'[' => one(LBracket),
            b']' => one(RBracket),
            b'{' => one(LBrace),
            b'}' => one(RBrace),
            b'=' => one(Equal),
            b'*' => one(Star),
            b'/' => one(Slash),
            b'%' => one(Percent),
            _ => (Invalid, self.char_end(start)),
        }
    }

    /// Advances past the whole UTF-8 character, so that spans stay on character boundaries.
    fn char_end(&self, start: usize) -> usize {
        self.take_while(start + 1, |b| b & 0b1100_0000 == 0b1000_0000)
    }

    fn take_while(&self, mut pos: usize, test: impl Fn(u8) -> bool) -> usize {
        while self.at(pos).is_some_and(&test) {
            pos += 1;
        }
        pos
    }

    fn digits(&self, pos: usize) -> usize {
        self.take_while(pos, |b| b.is_ascii_digit())
    }

    fn quoted(&self, start: usize, quote: u8, kind: TokenKind) -> (TokenKind, usize) {
        let mut pos = start + 1;
        loop {
            match self.at(pos) {
                None => return (TokenKind::Invalid, pos),
                Some(b) if b != quote => pos += 1,
                Some(_) if self.at(pos + 1) == Some(quote) => pos += 2,
                Some(_) => return (kind, pos + 1),
            }
        }
    }

    fn dollar_text(&self, start: usize) -> (TokenKind, usize) {
        let mut pos = start + 2;
        while (self.at(pos), self.at(pos + 1)) != (Some(b'$'), Some(b'$')) {
            if self.at(pos).is_none() {
                return (TokenKind::Invalid, pos);
            }
            pos += 1;
        }
        (TokenKind::DollarText, pos + 2)
    }

    fn word(&self, start: usize, first: u8) -> (TokenKind, usize) {
        if let Some(end) = self.uuid(start) {
            return (TokenKind::Uuid, end);
        }
        if first == b'P'
            && let Some(end) = self.iso_word(start)
        {
            return (TokenKind::Duration, end);
        }
        (TokenKind::Word, self.take_while(start, is_word_byte))
    }

    /// `-NaN` and `-Infinity`, in any case, whatever follows: no name begins with a sign.
    fn negative_name(&self, start: usize) -> Option<usize> {
        let is = |name: &&str| {
            let word = self.bytes.get(start + 1..start + 1 + name.len());
            word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        let name = ["nan", "infinity"].into_iter().find(is)?;
        Some(start + 1 + name.len())
    }

    fn number(&self, start: usize) -> (TokenKind, usize) {
        if let Some(end) = self.uuid(start) {
            return (TokenKind::Uuid, end);
        }
        if self.at(start) == Some(b'0') && matches!(self.at(start + 1), Some(b'x' | b'X')) {
            let end = self.take_while(start + 2, |b| b.is_ascii_hexdigit());
            return (TokenKind::Hex, end);
        }
        let whole = self.digits(start + 1);
        let mut pos = whole;
        if self.at(pos) == Some(b'.') {
            // `1..2` is a range of integers, `1...2` the float `1.` and a range.
            if self.at(pos + 1) == Some(b'.') && self.at(pos + 2) != Some(b'.') {
                return (TokenKind::Integer, pos);
            }
            pos = self.digits(pos + 1);
        }
        if matches!(self.at(pos), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.at(pos + 1), Some(b'+' | b'-')));
            let end = self.digits(pos + 1 + sign);
            if end > pos + 1 + sign {
                return (TokenKind::Float, end);
            }
        }
        if pos > whole {
            return (TokenKind::Float, pos);
        }
        match self.duration(whole) {
            Some(end) => (TokenKind::Duration, end),
            None => (TokenKind::Integer, whole),
        }
    }

    /// The rest of `1h30m` after its first digits.
    fn duration(&self, digits_end: usize) -> Option<usize> {
        let mut end = self.duration_unit(digits_end)?;
        loop {
            let digits = self.digits(end);
            match self.duration_unit(digits) {
                Some(next) if digits > end => end = next,
                _ => return Some(end),
            }
        }
    }

    fn duration_unit(&self, pos: usize) -> Option<usize> {
        let lower = |p: usize| self.at(p).map(|b| b.to_ascii_lowercase());
        match (lower(pos)?, lower(pos + 1)) {
            (b'm', Some(b'o' | b's')) | (b'u' | b'n', Some(b's')) => Some(pos + 2),
            (0xC2, Some(0xB5)) if lower(pos + 2) == Some(b's') => Some(pos + 3),
            (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => Some(pos + 1),
            _ => None,
        }
    }

    /// A duration where a word could stand.
    fn iso_word(&self, start: usize) -> Option<usize> {
        // No name has the dashes and colons of this form, so what follows is a token of its own.
        if let Some(end) = self.iso_alternative(start + 1) {
            return Some(end);
        }
        self.iso_duration(start)
            // A longer word is a name.
            .filter(|end| !self.at(*end).is_some_and(is_word_byte))
    }

    /// ISO 8601: `P1Y2M3DT4H5M6S`, `P4W` or `P0001-02-03T04:05:06`; `start` is at the P.
    fn iso_duration(&self, start: usize) -> Option<usize> {
        let pos = start + 1;
        self.iso_alternative(pos)
            .or_else(|| self.iso_weeks(pos))
            .or_else(|| self.iso_designators(pos))
    }

    fn iso_weeks(&self, pos: usize) -> Option<usize> {
        let end = self.digits(pos);
        (end > pos && self.at(end) == Some(b'W')).then_some(end + 1)
    }

    fn iso_alternative(&self, mut pos: usize) -> Option<usize> {
        for expected in b"dddd-dd-ddTdd:dd:dd" {
            let byte = self.at(pos)?;
            let fits = match expected {
                b'd' => byte.is_ascii_digit(),
                other => byte == *other,
            };
            if !fits {
                return None;
            }
            pos += 1;
        }
        Some(pos)
    }

    fn iso_designators(&self, start: usize) -> Option<usize> {
        let dated = self.designators(start, b"YMD");
        if self.at(dated) == Some(b'T') {
            let timed = self.designators(dated + 1, b"HMS");
            return (timed > dated + 1).then_some(timed);
        }
        (dated > start).then_some(dated)
    }

    fn designators(&self, mut pos: usize, letters: &[u8]) -> usize {
        for letter in letters {
            let digits = self.digits(pos);
            if digits > pos && self.at(digits) == Some(*letter) {
                pos = digits + 1;
            }
        }
        pos
    }

    fn uuid(&self, mut pos: usize) -> Option<usize> {
        for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
            if group > 0 {
                if self.at(pos) != Some(b'-') {
                    return None;
                }
                pos += 1;
            }
            let digits = self.bytes.get(pos..pos + length)?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            pos += length;
        }
        Some(pos)
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
