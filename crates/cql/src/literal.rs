//! Constants as written in a statement.

use crate::lexer::TokenKind;

#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i128),
    /// Decimal digits of an integer too large for [`Literal::Int`], possibly with a minus sign; without zeros in front.
    BigInt(Box<str>),
    /// As written; `NaN`, `Infinity` and `-Infinity` in this spelling.
    Float(Box<str>),
    /// Unescaped, from `'…'` or `$$…$$`.
    Text(String),
    Blob(Vec<u8>),
    Uuid([u8; 16]),
    /// As written.
    Duration(Box<str>),
}

impl Literal {
    /// The literal that a token represents, if any.
    pub(crate) fn from_token(kind: TokenKind, written: &str) -> Option<Literal> {
        Some(match kind {
            TokenKind::Word => return Literal::from_word(written),
            TokenKind::Integer => match written.parse() {
                Ok(number) => Literal::Int(number),
                Err(_) => Literal::BigInt(without_zeros(written)),
            },
            TokenKind::Float => match written.strip_prefix('-').unwrap_or(written) {
                // Cassandra reads -NaN as NaN.
                name if name.eq_ignore_ascii_case("nan") => Literal::Float("NaN".into()),
                name if name.eq_ignore_ascii_case("infinity") => Literal::Float("-Infinity".into()),
                _ => Literal::Float(written.into()),
            },
            TokenKind::Text => {
                let inner = written.get(1..written.len().checked_sub(1)?)?;
                Literal::Text(inner.replace("''", "'"))
            }
            TokenKind::DollarText => {
                Literal::Text(written.get(2..written.len().checked_sub(2)?)?.to_owned())
            }
            TokenKind::Hex => Literal::Blob(hex(written.get(2..)?)?),
            TokenKind::Uuid => {
                let bytes = hex(&written.replace('-', ""))?;
                Literal::Uuid(bytes.try_into().ok()?)
            }
            TokenKind::Duration => Literal::Duration(written.into()),
            _ => return None,
        })
    }

    fn from_word(word: &str) -> Option<Literal> {
        let is = |literal: &str| word.eq_ignore_ascii_case(literal);
        Some(if is("null") {
            Literal::Null
        } else if is("true") {
            Literal::Bool(true)
        } else if is("false") {
            Literal::Bool(false)
        } else if is("nan") {
            Literal::Float("NaN".into())
        } else if is("infinity") {
            Literal::Float("Infinity".into())
        } else {
            return None;
        })
    }
}

/// An integer as Cassandra keeps it.
fn without_zeros(written: &str) -> Box<str> {
    match written.strip_prefix('-') {
        Some(digits) => format!("-{}", digits.trim_start_matches('0')).into(),
        None => written.trim_start_matches('0').into(),
    }
}

/// None for an odd number of digits, which Cassandra rejects.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| {
            let high = char::from(*high).to_digit(16)?;
            let low = char::from(*low).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        })
        .collect()
}
