//! Parses a statement file. Every error carries its line.

use super::generate::{Generator, Value};
use super::{CqlText, Script, Source, Statement, Values};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    pub line: usize,
    pub message: String,
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ScriptError {}

fn error<T>(line: usize, message: impl Into<String>) -> Result<T, ScriptError> {
    let message = message.into();
    Err(ScriptError { line, message })
}

/// The directives that apply to the next statement.
#[derive(Default)]
struct Directives {
    setup: bool,
    statement: Option<(String, f64)>,
    values: Option<(usize, Vec<Source>)>,
    line: usize,
}

#[derive(Default)]
struct Parser {
    lets: BTreeMap<String, Source>,
    directives: Directives,
    script: (Vec<CqlText>, Vec<Statement>),
}

/// Parses a whole file; the parent module describes the format.
pub fn parse(file: &str) -> Result<Script, ScriptError> {
    let mut parser = Parser::default();
    let mut open: Option<OpenStatement> = None;
    for (index, line) in file.lines().enumerate() {
        let number = index + 1;
        let trimmed = line.trim_start();
        if open.is_none() && trimmed.starts_with('@') {
            parser.directive(number, &without_comment(trimmed)[1..])?;
            continue;
        }
        let mut rest = line;
        loop {
            let cql = open.get_or_insert_with(|| OpenStatement::new(number));
            let Some(after) = cql.consume(rest) else {
                break;
            };
            rest = after;
            if let Some(done) = open.take() {
                parser.statement(done)?;
            }
        }
        if open.as_ref().is_some_and(OpenStatement::is_blank) {
            open = None;
        }
    }
    if let Some(cql) = open {
        let what = match cql.quote {
            Some(quote) => format!("a {quote} is opened in this statement and never closed"),
            None => "this statement does not end: a ; is missing".to_owned(),
        };
        return error(cql.line, what);
    }
    let line = parser.directives.line;
    if parser.directives.is_pending() {
        return error(line, "no statement follows this directive");
    }
    let (setup, statements) = parser.script;
    if statements.is_empty() {
        return error(1, "the file has no statement to execute");
    }
    Ok(Script { setup, statements })
}

impl Directives {
    fn is_pending(&self) -> bool {
        self.setup || self.statement.is_some() || self.values.is_some()
    }
}

impl Parser {
    fn directive(&mut self, line: usize, text: &str) -> Result<(), ScriptError> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        if word != "let" {
            self.directives.line = line;
        }
        match word {
            "let" => self.define(line, rest),
            "setup" if rest.is_empty() => {
                self.directives.setup = true;
                Ok(())
            }
            "setup" => error(line, "@setup takes no arguments"),
            "statement" => {
                self.directives.statement = Some(header(line, rest)?);
                Ok(())
            }
            "values" => {
                let items = split_list(rest).map_err(|message| ScriptError { line, message })?;
                let sources: Result<_, _> =
                    items.iter().map(|item| self.source(line, item)).collect();
                self.directives.values = Some((line, sources?));
                Ok(())
            }
            _ => error(
                line,
                format!(
                    "unknown directive @{word}: there are @let, @setup, @statement and @values"
                ),
            ),
        }
    }

    fn define(&mut self, line: usize, text: &str) -> Result<(), ScriptError> {
        let Some((name, generator)) = text.split_once('=') else {
            return error(line, "write it as @let name = generator(…)");
        };
        let name = name.trim().to_owned();
        if !is_name(&name) {
            return error(
                line,
                format!("{name:?} is not a valid name: use letters, digits and _"),
            );
        }
        let source = Source {
            // Cassandra folds the case of marker names, as it does for columns.
            name: Some(name.to_lowercase()),
            generator: Arc::new(generator_of(line, generator.trim())?),
        };
        if self.lets.insert(name.to_lowercase(), source).is_some() {
            return error(line, format!("{name} is defined twice"));
        }
        Ok(())
    }

    /// The name of a `@let`, or an inline generator.
    fn source(&self, line: usize, item: &str) -> Result<Source, ScriptError> {
        if !is_name(item) {
            let generator = Arc::new(generator_of(line, item)?);
            return Ok(Source {
                name: None,
                generator,
            });
        }
        match self.lets.get(&item.to_lowercase()) {
            Some(source) => Ok(source.clone()),
            None => error(
                line,
                format!("{item} is not defined: give it a @let before this line"),
            ),
        }
    }

    fn statement(&mut self, cql: OpenStatement) -> Result<(), ScriptError> {
        let directives = std::mem::take(&mut self.directives);
        let line = cql.line;
        let text = CqlText {
            line,
            cql: cql.text.trim().to_owned(),
        };
        if text.cql.is_empty() {
            return error(line, "a ; without a statement");
        }
        let positional = cql
            .markers
            .iter()
            .filter(|marker| marker.1.is_none())
            .count();
        if directives.setup {
            if directives.statement.is_some() || directives.values.is_some() {
                return error(
                    directives.line,
                    "@setup cannot be combined with other directives",
                );
            }
            if let Some((line, _)) = cql.markers.first() {
                return error(*line, "statements under @setup cannot have markers");
            }
            self.script.0.push(text);
            return Ok(());
        }
        if directives.statement.is_none() && changes_schema(&text.cql) {
            return error(
                line,
                "this changes the schema: put @setup before it (before each such statement), or \
                 @statement if it shall be part of the load",
            );
        }
        if positional > 0 && positional < cql.markers.len() {
            return error(line, "a statement has either ? or named markers, not both");
        }
        let values = match directives.values {
            Some((values_line, sources)) => {
                if sources.len() != positional {
                    let given = sources.len();
                    let what = format!("{given} values for {positional} markers ?");
                    return error(values_line, what);
                }
                Values::Positional(sources)
            }
            None if positional > 0 => {
                return error(line, "markers ? need a line @values before the statement");
            }
            None => Values::Named(self.named(&cql.markers)?),
        };
        let number = self.script.1.len() + 1;
        let (name, weight) = directives
            .statement
            .unwrap_or_else(|| (format!("statement {number}"), 1.0));
        if self.script.1.iter().any(|other| other.name == name) {
            return error(line, format!("a second statement is named {name}"));
        }
        self.script.1.push(Statement {
            name,
            weight,
            text,
            values,
        });
        Ok(())
    }

    /// One source per distinct name.
    fn named(&self, markers: &[(usize, Option<String>)]) -> Result<Vec<Source>, ScriptError> {
        let mut sources: Vec<Source> = Vec::new();
        for (line, name) in markers {
            let Some(name) = name else { continue };
            let source = self.source(*line, name)?;
            if sources.iter().all(|other| other.name != source.name) {
                sources.push(source);
            }
        }
        Ok(sources)
    }
}

/// `name weight=3`.
fn header(line: usize, text: &str) -> Result<(String, f64), ScriptError> {
    let (mut name, mut weight) = (None, 1.0);
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("weight", number)) => match number.parse::<f64>() {
                Ok(parsed) if parsed.is_finite() && parsed > 0.0 => weight = parsed,
                _ => {
                    return error(
                        line,
                        format!("{number:?} is not a valid weight: use a number above 0"),
                    );
                }
            },
            Some((key, _)) => return error(line, format!("unknown {key}=: there is weight=")),
            None if name.is_none() => name = Some(word.to_owned()),
            None => return error(line, format!("{word:?}: a statement has one name")),
        }
    }
    match name {
        Some(name) => Ok((name, weight)),
        None => error(
            line,
            "write it as @statement name, with weight=… if it is not 1",
        ),
    }
}

fn generator_of(line: usize, text: &str) -> Result<Generator, ScriptError> {
    let inner = || {
        let (name, rest) = text.split_once('(')?;
        Some((name.trim(), rest.strip_suffix(')')?))
    };
    let Some((name, arguments)) = inner() else {
        return error(
            line,
            format!("{text:?} is not a generator: write it as uniform(1, 100)"),
        );
    };
    let wrong = |message| ScriptError { line, message };
    let items = split_list(arguments).map_err(wrong)?;
    let literals: Result<Vec<Value>, String> = items.iter().map(|item| literal(item)).collect();
    Generator::new(name, literals.map_err(wrong)?).map_err(|error| wrong(format!("{error:#}")))
}

fn literal(text: &str) -> Result<Value, String> {
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner
            .strip_suffix('\'')
            .ok_or(format!("{text} is not closed"))?;
        return Ok(Value::Text(inner.replace("''", "'")));
    }
    if let Ok(value) = text.parse() {
        return Ok(Value::Integer(value));
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Value::Float(value)),
        _ => Err(format!("{text:?} is neither a number nor a 'string'")),
    }
}

/// Splits at commas outside strings and parentheses; an empty item is an error.
fn split_list(text: &str) -> Result<Vec<String>, String> {
    let mut items = vec![String::new()];
    let (mut depth, mut quoted) = (0i32, false);
    for letter in text.chars() {
        match letter {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(letter);
        }
    }
    let items: Vec<String> = items.iter().map(|item| item.trim().to_owned()).collect();
    if items.len() == 1 && items[0].is_empty() {
        return Ok(Vec::new());
    }
    if quoted || depth != 0 {
        return Err(format!("a ' or a parenthesis is not closed in {text:?}"));
    }
    if items.iter().any(String::is_empty) {
        return Err(format!(
            "something is missing between the commas of {text:?}"
        ));
    }
    Ok(items)
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain)
}

/// A directive's line up to `--` outside a string.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, letter) in line.char_indices() {
        quoted ^= letter == '\'';
        if !quoted && line[at..].starts_with("--") {
            return line[..at].trim_end();
        }
    }
    line.trim_end()
}

/// A statement while it is being read, with its markers: the line, and the name if it has one.
struct OpenStatement {
    line: usize,
    text: String,
    markers: Vec<(usize, Option<String>)>,
    quote: Option<char>,
    lines_read: usize,
}

impl OpenStatement {
    fn new(line: usize) -> Self {
        Self {
            line,
            text: String::new(),
            markers: Vec::new(),
            quote: None,
            lines_read: 0,
        }
    }

    fn is_blank(&self) -> bool {
        self.quote.is_none() && self.text.trim().is_empty()
    }

    /// Consumes a line up to the end of the statement and returns the rest; None if the statement
    /// continues.
    fn consume<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        let number = self.line + self.lines_read;
        for (at, letter) in line.char_indices() {
            if let Some(quote) = self.quote {
                self.text.push(letter);
                if letter == quote {
                    self.quote = None;
                }
                continue;
            }
            match letter {
                ';' => return Some(&line[at + 1..]),
                '-' if line[at..].starts_with("--") => break,
                '\'' | '"' => self.quote = Some(letter),
                '?' => self.markers.push((number, None)),
                ':' => {
                    let after = &line[at + 1..];
                    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let name = &after[..end.unwrap_or(after.len())];
                    // A colon before anything else belongs to a map literal, as in {'a':true}.
                    let constant = ["true", "false", "null", "nan", "infinity"];
                    let is_constant = constant.iter().any(|c| name.eq_ignore_ascii_case(c));
                    if is_name(name) && !is_constant {
                        self.markers.push((number, Some(name.to_owned())));
                    }
                }
                _ => {}
            }
            self.text.push(letter);
        }
        self.text.push('\n');
        self.lines_read += 1;
        None
    }
}

fn changes_schema(cql: &str) -> bool {
    let word = cql.split_whitespace().next().unwrap_or_default();
    ["CREATE", "ALTER", "DROP"]
        .iter()
        .any(|w| w.eq_ignore_ascii_case(word))
}
