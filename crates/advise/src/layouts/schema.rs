//! Reads a CREATE TABLE statement, as far as keys and types are concerned.

use anyhow::{Result, bail};
use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Name, fold_identifier};

/// A table's key and the types of its columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Schema {
    /// Without the keyspace.
    pub table: String,
    /// As written, with the keyspace if there is one.
    pub full_name: String,
    /// Name and type, as written.
    pub columns: Vec<(Name, String)>,
    pub partition: Vec<Name>,
    pub clustering: Vec<Name>,
    /// Clustering columns that sort downwards.
    pub descending: Vec<Name>,
}

impl Schema {
    pub(super) fn type_of(&self, column: &str) -> Option<&str> {
        let found = self
            .columns
            .iter()
            .find(|(name, _)| name.as_str() == column);
        found.map(|(_, ty)| ty.as_str())
    }
}

pub(super) fn parse(text: &str) -> Result<Schema> {
    let mut parser = Parser {
        text,
        tokens: Lexer::new(text).collect(),
        at: 0,
    };
    let schema = parser.table()?;
    if schema.partition.is_empty() {
        bail!("CREATE TABLE {} has no PRIMARY KEY", schema.full_name);
    }
    for key in schema.partition.iter().chain(&schema.clustering) {
        if schema.type_of(key).is_none() {
            bail!("{key} is in the PRIMARY KEY but not among the columns");
        }
    }
    Ok(schema)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn table(&mut self) -> Result<Schema> {
        let mut schema = Schema::default();
        self.expect_word("create")?;
        if !self.take_word("table") {
            self.expect_word("columnfamily")?;
        }
        if self.take_word("if") {
            self.expect_word("not")?;
            self.expect_word("exists")?;
        }
        let mut name = self.name()?;
        schema.full_name = name.to_cql().into_owned();
        if self.take(TokenKind::Dot) {
            name = self.name()?;
            schema.full_name = format!("{}.{}", schema.full_name, name.to_cql());
        }
        schema.table = name.to_string();
        self.expect(TokenKind::LParen, "(")?;
        loop {
            self.item(&mut schema)?;
            if self.take(TokenKind::RParen) {
                break;
            }
            self.expect(TokenKind::Comma, ", or )")?;
            // Cassandra takes a comma before the bracket.
            if self.take(TokenKind::RParen) {
                break;
            }
        }
        self.options(&mut schema)?;
        Ok(schema)
    }

    /// A column, or the primary key.
    fn item(&mut self, schema: &mut Schema) -> Result<()> {
        if self.is_word(0, "primary") && self.is_word(1, "key") {
            self.at += 2;
            return self.primary_key(schema);
        }
        let name = self.name()?;
        let start = self.token().map_or(self.text.len(), |token| token.start);
        let mut end = start;
        let (mut angles, mut brackets) = (0usize, 0usize);
        while let Some(token) = self.token() {
            match token.kind {
                TokenKind::Less => angles += 1,
                TokenKind::Greater => angles = angles.saturating_sub(1),
                TokenKind::LParen => brackets += 1,
                TokenKind::RParen if brackets == 0 => break,
                TokenKind::RParen => brackets -= 1,
                TokenKind::Comma if angles == 0 && brackets == 0 => break,
                _ => {}
            }
            if self.is_word(0, "primary") && self.is_word(1, "key") {
                schema.partition.push(name.clone());
                self.at += 2;
                continue;
            }
            if self.is_word(0, "static") || self.is_word(0, "masked") {
                self.skip_to_end_of_item();
                break;
            }
            end = token.end;
            self.at += 1;
        }
        let ty = self.text.get(start..end).unwrap_or_default().trim();
        if ty.is_empty() {
            bail!("column {name} has no type");
        }
        schema.columns.push((name, ty.to_ascii_lowercase()));
        Ok(())
    }

    fn skip_to_end_of_item(&mut self) {
        let mut brackets = 0usize;
        while let Some(token) = self.token() {
            match token.kind {
                TokenKind::LParen => brackets += 1,
                TokenKind::RParen | TokenKind::Comma if brackets == 0 => return,
                TokenKind::RParen => brackets -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    fn primary_key(&mut self, schema: &mut Schema) -> Result<()> {
        self.expect(TokenKind::LParen, "(")?;
        if self.take(TokenKind::LParen) {
            schema.partition = self.names_to_bracket()?;
            if self.take(TokenKind::RParen) {
                return Ok(());
            }
            self.expect(TokenKind::Comma, ", or )")?;
            schema.clustering = self.names_to_bracket()?;
        } else {
            let mut names = self.names_to_bracket()?;
            schema.clustering = names.split_off(1.min(names.len()));
            schema.partition = names;
        }
        Ok(())
    }

    fn names_to_bracket(&mut self) -> Result<Vec<Name>> {
        let mut names = vec![self.name()?];
        while self.take(TokenKind::Comma) {
            names.push(self.name()?);
        }
        self.expect(TokenKind::RParen, ", or )")?;
        Ok(names)
    }

    /// Of all options, only the clustering order matters.
    fn options(&mut self, schema: &mut Schema) -> Result<()> {
        while self.at < self.tokens.len() {
            let order =
                self.is_word(0, "clustering") && self.is_word(1, "order") && self.is_word(2, "by");
            if !order {
                self.at += 1;
                continue;
            }
            self.at += 3;
            self.expect(TokenKind::LParen, "(")?;
            loop {
                let name = self.name()?;
                if self.take_word("desc") {
                    schema.descending.push(name);
                } else {
                    self.take_word("asc");
                }
                if self.take(TokenKind::RParen) {
                    break;
                }
                self.expect(TokenKind::Comma, ", or )")?;
            }
        }
        Ok(())
    }

    fn name(&mut self) -> Result<Name> {
        match self.token() {
            Some(token) if matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) => {
                self.at += 1;
                Ok(fold_identifier(self.written(token)))
            }
            _ => bail!("expected a name {}", self.place()),
        }
    }

    fn token(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn written(&self, token: Token) -> &'a str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        let token = self.tokens.get(self.at + ahead);
        token.is_some_and(|t| {
            t.kind == TokenKind::Word && self.written(*t).eq_ignore_ascii_case(word)
        })
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, kind: TokenKind) -> bool {
        let found = self.token().is_some_and(|token| token.kind == kind);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, kind: TokenKind, shown: &str) -> Result<()> {
        match self.take(kind) {
            true => Ok(()),
            false => bail!("expected {shown} {}", self.place()),
        }
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.take_word(word) {
            true => Ok(()),
            false => bail!("expected {} {}", word.to_ascii_uppercase(), self.place()),
        }
    }

    fn place(&self) -> String {
        match self.token() {
            Some(token) => format!("at {:?} in CREATE TABLE", self.written(token)),
            None => "at the end of CREATE TABLE".to_owned(),
        }
    }
}
