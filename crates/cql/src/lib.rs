//! CQL lexer and statement facts. Pure.
//!
//! [`facts()`] reads a statement once and returns what a proxy must know to route, retry, split or
//! rewrite it. The text itself is never changed or re-printed. Nothing here fails: a statement that
//! is not understood is [`Kind::Opaque`]. Nothing recurses, and time is linear in the text.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::unreachable
    )
)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod calls;
mod encode;
mod facts;
pub mod lexer;
mod literal;
mod modification;
mod name;
mod normalised;
mod parse;
mod scan;
mod token_range;
mod weight;

pub use calls::{Call, calls};
pub use encode::encode_literal;
pub use facts::{
    BatchKind, Facts, Fold, InRelation, InValues, KeyTerm, Kind, Op, OrderBy, Overwrites,
    RangeRelation, SelectFacts, Selected, SelectedColumn, Spans, Term, TokenRelation,
};
pub use literal::Literal;
pub use modification::{Assigned, AssignedValue, Change, Changed, JsonDocument, Modification};
pub use name::{Name, fold_identifier, is_reserved, qualified_name, quote_identifier, quote_text};
pub use normalised::{first_words, normalised, with_markers, without_values};
pub use parse::{facts, modification};
pub use token_range::{
    PreparedRange, RangeValue, TokenRange, is_lower, is_upper, prepared_range, takes_token_range,
    token_range,
};
