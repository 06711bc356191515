//! CQL lexer and statement facts. Pure.
