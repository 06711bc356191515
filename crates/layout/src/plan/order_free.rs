//! Results that do not depend on the order in which rows are read.

use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_cql::{Name, SelectFacts, Selected, fold_identifier};

use super::logical_table::LogicalTable;

/// Everything selected is an aggregate that comes out the same in any order. Without GROUP BY, that
/// is one row. A plain column beside an aggregate is the first row's.
pub(super) fn is_order_free(table: &LogicalTable, text: &str, select: &SelectFacts) -> bool {
    let Selected::Columns(items) = &select.columns else {
        return false;
    };
    let is_free = |piece: &str| aggregate(piece).is_some_and(|found| found.is_free(table));
    let mut pieces = items.iter().map(|item| text.get(item.span.clone()));
    !items.is_empty() && pieces.all(|piece| piece.is_some_and(is_free))
}

struct Aggregate {
    function: Name,
    /// None for all rows: `*`, `1`.
    column: Option<Name>,
}

/// `function(column)`, `function(*)` or `function(1)`.
fn aggregate(piece: &str) -> Option<Aggregate> {
    let tokens: Vec<Token> = Lexer::new(piece).take(5).collect();
    let [function, open, of, close] = tokens.as_slice() else {
        return None;
    };
    let written = |token: &Token| piece.get(token.start..token.end);
    let is_call = function.kind == TokenKind::Word
        && open.kind == TokenKind::LParen
        && close.kind == TokenKind::RParen;
    let column = match of.kind {
        TokenKind::Star => None,
        TokenKind::Integer if written(of) == Some("1") => None,
        TokenKind::Word | TokenKind::QuotedName => Some(fold_identifier(written(of)?)),
        _ => return None,
    };
    let function = fold_identifier(written(function)?);
    is_call.then_some(Aggregate { function, column })
}

impl Aggregate {
    fn is_free(&self, table: &LogicalTable) -> bool {
        let Some(column) = &self.column else {
            return self.function == "count";
        };
        match self.function.as_str() {
            "count" => true,
            // All rows of one partition have the same value.
            "min" | "max" | "sum" | "avg" if table.is_partition_key(column) => true,
            "min" | "max" | "sum" | "avg" if table.column(column).is_some_and(|c| c.is_static) => {
                true
            }
            // Two values can be equal and written differently: 1.0 and 1.00.
            "min" | "max" => {
                let in_one_form = |ty| INTEGERS.contains(&ty) || ONE_FORM.contains(&ty);
                table.type_of(column).is_some_and(in_one_form)
            }
            // Sums of floating point numbers are rounded at each step, and so are means of decimals.
            "sum" => {
                let is_exact = |ty| INTEGERS.contains(&ty) || UNBOUNDED.contains(&ty);
                table.type_of(column).is_some_and(is_exact)
            }
            "avg" => table
                .type_of(column)
                .is_some_and(|ty| INTEGERS.contains(&ty)),
            _ => false,
        }
    }
}

const INTEGERS: &[&str] = &["tinyint", "smallint", "int", "bigint"];

/// Numbers that are added exactly, however many they are.
const UNBOUNDED: &[&str] = &["decimal", "varint"];

/// Other types in which equal values have equal bytes.
const ONE_FORM: &[&str] = &[
    "ascii",
    "blob",
    "boolean",
    "date",
    "double",
    "float",
    "inet",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "uuid",
    "varchar",
];
