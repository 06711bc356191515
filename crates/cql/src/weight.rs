//! How much memory facts occupy besides the struct itself, for caches bounded in bytes.

use crate::facts::{
    Facts, InRelation, InValues, KeyTerm, OrderBy, Overwrites, RangeRelation, SelectFacts,
    Selected, SelectedColumn, Term, TokenRelation,
};
use crate::literal::Literal;
use crate::name::Name;

/// Bytes on the heap.
trait Heap {
    fn heap_len(&self) -> usize;
}

impl<T: Heap> Heap for Vec<T> {
    fn heap_len(&self) -> usize {
        let items: usize = self.iter().map(Heap::heap_len).sum();
        self.capacity() * size_of::<T>() + items
    }
}

impl<T: Heap> Heap for Option<T> {
    fn heap_len(&self) -> usize {
        self.as_ref().map_or(0, Heap::heap_len)
    }
}

impl Heap for Name {
    fn heap_len(&self) -> usize {
        self.as_str().len()
    }
}

impl Heap for Literal {
    fn heap_len(&self) -> usize {
        match self {
            Literal::Null | Literal::Bool(_) | Literal::Int(_) | Literal::Uuid(_) => 0,
            Literal::BigInt(text) | Literal::Float(text) | Literal::Duration(text) => text.len(),
            Literal::Text(text) => text.capacity(),
            Literal::Blob(bytes) => bytes.capacity(),
        }
    }
}

impl Heap for Term {
    fn heap_len(&self) -> usize {
        match self {
            Term::Literal(literal) => literal.heap_len(),
            Term::Marker(_) | Term::NamedMarker(_) | Term::Other => 0,
        }
    }
}

impl Heap for KeyTerm {
    fn heap_len(&self) -> usize {
        self.column.heap_len() + self.term.heap_len()
    }
}

impl Heap for (Name, u16) {
    fn heap_len(&self) -> usize {
        self.0.heap_len()
    }
}

impl Heap for SelectedColumn {
    fn heap_len(&self) -> usize {
        self.column.heap_len() + self.alias.heap_len()
    }
}

impl Heap for OrderBy {
    fn heap_len(&self) -> usize {
        self.column.heap_len()
    }
}

impl Heap for TokenRelation {
    fn heap_len(&self) -> usize {
        self.columns.heap_len() + self.term.heap_len()
    }
}

impl Heap for InRelation {
    fn heap_len(&self) -> usize {
        let values = match &self.values {
            InValues::Terms(terms) => terms.heap_len(),
            InValues::Marker(term) => term.heap_len(),
        };
        self.columns.heap_len() + values
    }
}

impl Heap for RangeRelation {
    fn heap_len(&self) -> usize {
        self.columns.heap_len() + self.terms.heap_len()
    }
}

impl Heap for Box<SelectFacts> {
    fn heap_len(&self) -> usize {
        let columns = match &self.columns {
            Selected::All => 0,
            Selected::Columns(columns) => columns.heap_len(),
        };
        size_of::<SelectFacts>()
            + columns
            + self.folds.capacity()
            + self.order_by.heap_len()
            + self.limit.heap_len()
            + self.per_partition_limit.heap_len()
            + self.tokens.heap_len()
            + self.ins.heap_len()
            + self.ranges.heap_len()
    }
}

impl Heap for Overwrites {
    fn heap_len(&self) -> usize {
        match self {
            Overwrites::Columns(columns) => columns.heap_len(),
            Overwrites::Any => 0,
        }
    }
}

impl Heap for Facts {
    fn heap_len(&self) -> usize {
        self.keyspace.heap_len()
            + self.table.heap_len()
            + self.key_terms.heap_len()
            + self.overwrites.heap_len()
            + self.named_markers.heap_len()
            + self.select.heap_len()
            + self.use_keyspace.heap_len()
            + self.inner.heap_len()
    }
}

impl Facts {
    /// Bytes that the facts occupy, including the struct itself.
    pub fn byte_len(&self) -> usize {
        size_of::<Facts>() + self.heap_len()
    }
}

#[cfg(test)]
mod tests {
    use crate::facts;

    #[test]
    fn long_lists_weigh_what_they_take() {
        let plain = facts("SELECT a FROM t WHERE k = 1").byte_len();
        let list: Vec<String> = (0..8_000).map(|n| n.to_string()).collect();
        let long = facts(&format!("SELECT a FROM t WHERE k IN ({})", list.join(", "))).byte_len();
        assert!(plain < 4_000, "{plain}");
        assert!((8_000 * 16..8_000 * 128).contains(&long), "{long}");
        let batch = "BEGIN BATCH INSERT INTO t (k) VALUES ('abcdefgh') APPLY BATCH";
        assert!(facts(batch).byte_len() > 2 * size_of::<crate::Facts>());
    }
}
