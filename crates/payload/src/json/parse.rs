//! Reads a document into nodes.

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    /// Also the name of an object's member, which stands before its value.
    String,
    Number,
    True,
    False,
    Null,
}

/// A value of a document, or the name of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    /// A string has escapes.
    pub is_escaped: bool,
    /// Where it is in the text; a string without its quotation marks.
    start: u32,
    end: u32,
    /// The node after it and all that it contains.
    pub next: u32,
    /// Members of an object, elements of an array.
    pub count: u32,
}

impl Node {
    /// As written.
    pub(crate) fn text<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// As written, a string with its quotation marks.
    pub(crate) fn raw<'t>(&self, text: &'t str) -> &'t str {
        let marks = usize::from(self.kind == Kind::String);
        text.get(self.start as usize - marks..self.end as usize + marks)
            .unwrap_or_default()
    }
}

/// The white space of a document. `Other`: any other, which is not looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// None.
    #[default]
    Compact,
    /// A space after each comma and colon, as Python writes.
    Spaced,
    Other,
}

/// A document's nodes, parents before children. Kept from one document to the next for its memory.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub nodes: Vec<Node>,
    pub style: Style,
    /// Containers that have not ended, while a text is read.
    open: Vec<u32>,
}

/// Why a text is not looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotJson {
    Syntax,
    TooDeep,
    TooLong,
}

pub(crate) fn parse(text: &str, depth_max: usize, document: &mut Document) -> Result<(), NotJson> {
    if u32::try_from(text.len()).is_err() {
        return Err(NotJson::TooLong);
    }
    document.nodes.clear();
    document.open.clear();
    let mut parser = Parser {
        bytes: text.as_bytes(),
        at: 0,
        nodes: &mut document.nodes,
        open: &mut document.open,
        depth_max,
        after_separator: [false; 2],
        is_other: false,
    };
    parser.document()?;
    document.style = match (parser.is_other, parser.after_separator) {
        (true, _) | (_, [true, true]) => Style::Other,
        (_, [_, true]) => Style::Spaced,
        _ => Style::Compact,
    };
    Ok(())
}

struct Parser<'t, 'd> {
    bytes: &'t [u8],
    at: usize,
    nodes: &'d mut Vec<Node>,
    /// Containers that have not ended, the inner ones last.
    open: &'d mut Vec<u32>,
    depth_max: usize,
    /// There are commas and colons with nothing after them, and with a space.
    after_separator: [bool; 2],
    is_other: bool,
}

impl Parser<'_, '_> {
    fn document(&mut self) -> Result<(), NotJson> {
        self.no_space();
        loop {
            // A value, or the first one in a container.
            let opened = self.value()?;
            if opened && !self.is_empty()? {
                continue;
            }
            // The tokens that may follow a value.
            loop {
                let Some(parent) = self.open.last().copied() else {
                    self.no_space();
                    return match self.at == self.bytes.len() {
                        true => Ok(()),
                        false => Err(NotJson::Syntax),
                    };
                };
                let is_object = self.nodes[parent as usize].kind == Kind::Object;
                self.no_space();
                match (self.peek(), is_object) {
                    (Some(b','), _) => {
                        self.at += 1;
                        self.separator_space();
                        self.nodes[parent as usize].count += 1;
                        if is_object {
                            self.name()?;
                        }
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => self.close(parent),
                    _ => return Err(NotJson::Syntax),
                }
            }
        }
    }

    /// Reads a value; true if it was the beginning of a container.
    fn value(&mut self) -> Result<bool, NotJson> {
        let kind = match self.peek().ok_or(NotJson::Syntax)? {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => return self.string().map(|()| false),
            b't' => return self.word(b"true", Kind::True),
            b'f' => return self.word(b"false", Kind::False),
            b'n' => return self.word(b"null", Kind::Null),
            _ => return self.number().map(|()| false),
        };
        if self.open.len() == self.depth_max {
            return Err(NotJson::TooDeep);
        }
        self.open.push(self.nodes.len() as u32);
        self.at += 1;
        self.push(kind, self.at - 1, self.at, false);
        Ok(true)
    }

    /// True if a container that has just begun ends at once; otherwise its first value is next.
    fn is_empty(&mut self) -> Result<bool, NotJson> {
        self.no_space();
        let Some(parent) = self.open.last().copied() else {
            return Ok(true);
        };
        let node = &mut self.nodes[parent as usize];
        let (is_object, end) = match node.kind {
            Kind::Object => (true, b'}'),
            _ => (false, b']'),
        };
        if self.bytes.get(self.at) == Some(&end) {
            self.close(parent);
            return Ok(true);
        }
        node.count = 1;
        if is_object {
            self.name()?;
        }
        Ok(false)
    }

    fn close(&mut self, parent: u32) {
        self.at += 1;
        self.open.pop();
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[parent as usize];
        (node.end, node.next) = (self.at as u32, next);
    }

    /// A member's name and the colon.
    fn name(&mut self) -> Result<(), NotJson> {
        if self.peek() != Some(b'"') {
            return Err(NotJson::Syntax);
        }
        self.string()?;
        self.no_space();
        if self.peek() != Some(b':') {
            return Err(NotJson::Syntax);
        }
        self.at += 1;
        self.separator_space();
        Ok(())
    }

    fn string(&mut self) -> Result<(), NotJson> {
        let start = self.at + 1;
        let mut at = start;
        let mut is_escaped = false;
        loop {
            at += plain_bytes(self.bytes.get(at..).unwrap_or_default());
            match self.bytes.get(at).ok_or(NotJson::Syntax)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    at += match self.bytes.get(at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') => {
                            let digits = self.bytes.get(at + 2..at + 6);
                            let digits = digits.filter(|d| d.iter().all(u8::is_ascii_hexdigit));
                            digits.ok_or(NotJson::Syntax)?;
                            6
                        }
                        _ => return Err(NotJson::Syntax),
                    };
                }
                _ => return Err(NotJson::Syntax),
            }
        }
        self.push(Kind::String, start, at, is_escaped);
        self.at = at + 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<bool, NotJson> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word) {
            return Err(NotJson::Syntax);
        }
        self.push(kind, self.at, end, false);
        self.at = end;
        Ok(false)
    }

    fn number(&mut self) -> Result<(), NotJson> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        self.push(Kind::Number, start, self.at, false);
        Ok(())
    }

    /// At least one.
    fn digits(&mut self) -> Result<(), NotJson> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += count;
        match count {
            0 => Err(NotJson::Syntax),
            _ => Ok(()),
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize, is_escaped: bool) {
        // Names and scalars contain nothing else.
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node {
            kind,
            is_escaped,
            start: start as u32,
            end: end as u32,
            next,
            count: 0,
        });
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// White space where none of the known styles has any.
    fn no_space(&mut self) {
        if let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.is_other = true;
            self.skip_space();
        }
    }

    fn separator_space(&mut self) {
        match self.peek() {
            Some(b' ') => {
                self.after_separator[1] = true;
                self.at += 1;
                self.no_space();
            }
            Some(b'\n' | b'\r' | b'\t') => self.no_space(),
            _ => self.after_separator[0] = true,
        }
    }

    fn skip_space(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_space = |b: &&u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
        self.at += rest.iter().take_while(is_space).count();
    }
}

/// How many bytes of a string come before its end, an escape, or what must not be there; eight at a time.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    const QUOTES: u64 = ONES * b'"' as u64;
    const ESCAPES: u64 = ONES * b'\\' as u64;
    // The highest bit of each byte that is 0, and perhaps of those after it.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (chunks, rest) = bytes.as_chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        let word = u64::from_le_bytes(*chunk);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let marks = zeros(word ^ QUOTES) | zeros(word ^ ESCAPES);
        let special = controls | marks;
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let plain = rest
        .iter()
        .take_while(|b| !matches!(b, b'"' | b'\\' | 0..0x20));
    chunks.len() * 8 + plain.count()
}

#[cfg(test)]
mod tests {
    use super::plain_bytes;

    #[test]
    fn the_first_special_byte_is_found_wherever_it_is() {
        for length in 0..40 {
            for special in [0, 0x1f, b'"', b'\\'] {
                for at in 0..=length {
                    let mut bytes: Vec<u8> = [0xff, b'!', 0x80, b' ', b'#', b'[', b']', b'a']
                        .into_iter()
                        .cycle()
                        .skip(at)
                        .take(length)
                        .collect();
                    let expected = match bytes.get_mut(at) {
                        Some(byte) => {
                            *byte = special;
                            at
                        }
                        None => length,
                    };
                    assert_eq!(plain_bytes(&bytes), expected, "{bytes:?}");
                }
            }
        }
    }
}
