//! Decides who owns which part of the token ring.
//!
//! Picture: a round table with name cards. A dish is set down somewhere on the
//! rim; it belongs to the first card found going clockwise, and its copies to
//! further guests met on the same walk (see [`ReplicaSets`] for who counts).
//!
//! Formula: sort all tokens of all nodes, t₀ < t₁ < … < tₙ₋₁. Slot i is the
//! range (tᵢ₋₁, tᵢ]; slot 0 is the range that wraps around the end, (tₙ₋₁, t₀].
//! The slot of a token t is the smallest i with tᵢ ≥ t, or 0 if there is none.
//!
//! Source: D. Karger et al., Consistent Hashing and Random Trees (STOC 1997);
//! Cassandra's `TokenMetadata.firstTokenIndex`.

use crate::token::{Partitioner, Token, murmur3_token};

mod replicas;
mod replication;
#[cfg(test)]
mod tests;

pub use replicas::{ReplicaCatalog, ReplicaSets};
pub use replication::Replication;

/// A node's place in the list that the ring was made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u16);

impl NodeIndex {
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

/// What the ring needs to know of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    pub dc: String,
    pub rack: String,
    /// Tokens of another partitioner than the ring's are passed over.
    pub tokens: Vec<Token>,
}

/// The sorted tokens of a cluster with their owners. Immutable: a change of
/// topology makes a new ring.
#[derive(Clone, Debug)]
pub struct Ring {
    tokens: Tokens,
    owners: Vec<NodeIndex>,
    locations: Vec<Location>,
}

/// Kept apart by kind so that a Murmur3 look-up is a search in a plain `[i64]`.
#[derive(Clone, Debug)]
enum Tokens {
    Murmur3(Vec<i64>),
    Bytes(Vec<Box<[u8]>>),
}

/// Numbers instead of names: equal numbers mean the same place.
#[derive(Clone, Debug)]
struct Location {
    dc: String,
    /// Unique over all data centres, as racks of two centres may share a name.
    rack: u16,
}

impl Ring {
    /// Builds the ring. At most 65,536 nodes are looked at. If two nodes claim one
    /// token, as can be seen for a moment while nodes move, the first listed keeps it.
    pub fn new(partitioner: Partitioner, nodes: &[NodeSpec]) -> Ring {
        let indexed = || (0..=u16::MAX).map(NodeIndex).zip(nodes);
        let (tokens, owners) = match partitioner {
            Partitioner::Murmur3 => {
                let claims = indexed().flat_map(|(node, spec)| {
                    spec.tokens.iter().filter_map(move |token| match token {
                        Token::Murmur3(token) => Some((*token, node)),
                        Token::Bytes(_) => None,
                    })
                });
                let (tokens, owners) = settle(claims.collect());
                (Tokens::Murmur3(tokens), owners)
            }
            Partitioner::ByteOrdered => {
                let claims = indexed().flat_map(|(node, spec)| {
                    spec.tokens.iter().filter_map(move |token| match token {
                        Token::Bytes(bytes) => Some((bytes.clone(), node)),
                        Token::Murmur3(_) => None,
                    })
                });
                let (tokens, owners) = settle(claims.collect());
                (Tokens::Bytes(tokens), owners)
            }
        };
        let mut places: Vec<(&str, &str)> = indexed()
            .map(|(_, spec)| (spec.dc.as_str(), spec.rack.as_str()))
            .collect();
        places.sort_unstable();
        places.dedup();
        let locations = indexed()
            .map(|(_, spec)| Location {
                dc: spec.dc.clone(),
                // Found at its own place or, never, at an insertion point: no failure to handle.
                rack: places
                    .binary_search(&(spec.dc.as_str(), spec.rack.as_str()))
                    .unwrap_or_else(|at| at) as u16,
            })
            .collect();
        Ring {
            tokens,
            owners,
            locations,
        }
    }

    pub fn partitioner(&self) -> Partitioner {
        match self.tokens {
            Tokens::Murmur3(_) => Partitioner::Murmur3,
            Tokens::Bytes(_) => Partitioner::ByteOrdered,
        }
    }

    /// The number of slots, which is the number of distinct tokens.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// True if no node has a token; then no slot exists.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// The number of nodes the ring was made from, with or without tokens.
    pub fn node_count(&self) -> usize {
        self.locations.len()
    }

    /// The slot that holds `token`; 0 for an empty ring. A token of the other
    /// partitioner is a mistake of the caller.
    pub fn slot(&self, token: &Token) -> usize {
        match (&self.tokens, token) {
            (Tokens::Murmur3(tokens), Token::Murmur3(token)) => slot_in(tokens, token),
            (Tokens::Bytes(tokens), Token::Bytes(token)) => {
                wrap(tokens.partition_point(|t| t < token), tokens.len())
            }
            _ => {
                debug_assert!(false, "{token:?} is not of {:?}", self.partitioner());
                0
            }
        }
    }

    /// The slot of a serialized partition key, without allocating.
    pub fn slot_of_key(&self, key: &[u8]) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        Some(match &self.tokens {
            Tokens::Murmur3(tokens) => slot_in(tokens, &murmur3_token(key)),
            Tokens::Bytes(tokens) => wrap(tokens.partition_point(|t| **t < *key), tokens.len()),
        })
    }

    /// The node whose token ends the slot.
    pub fn owner(&self, slot: usize) -> Option<NodeIndex> {
        self.owners.get(slot).copied()
    }

    /// The token that ends the slot and belongs to it.
    pub fn end_token(&self, slot: usize) -> Option<Token> {
        match &self.tokens {
            Tokens::Murmur3(tokens) => tokens.get(slot).copied().map(Token::Murmur3),
            Tokens::Bytes(tokens) => tokens.get(slot).cloned().map(Token::Bytes),
        }
    }

    /// The token before the slot, which does not belong to it. Slot 0 starts at
    /// the last token of the ring.
    pub fn start_token(&self, slot: usize) -> Option<Token> {
        let before = slot.checked_sub(1).or(self.len().checked_sub(1))?;
        self.end_token(before)
    }
}

/// Sorts the claims and lets the first claimant of each token keep it.
fn settle<T: Ord>(mut claims: Vec<(T, NodeIndex)>) -> (Vec<T>, Vec<NodeIndex>) {
    claims.sort_unstable();
    claims.dedup_by(|later, earlier| later.0 == earlier.0);
    claims.into_iter().unzip()
}

fn slot_in(tokens: &[i64], token: &i64) -> usize {
    wrap(tokens.partition_point(|t| t < token), tokens.len())
}

fn wrap(slot: usize, len: usize) -> usize {
    if slot == len { 0 } else { slot }
}
