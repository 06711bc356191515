//! Decides which node owns which part of the token ring.
//!
//! Formula: sort all tokens of all nodes, t₀ < t₁ < … < tₙ₋₁. Slot i is the token range (tᵢ₋₁, tᵢ];
//! slot 0 is the range that wraps around, (tₙ₋₁, t₀]. The slot of a token t is the smallest i with
//! tᵢ ≥ t, or 0 if there is none. [`ReplicaSets`] says which nodes hold the replicas of a slot.
//!
//! Evidence: `ring/tests.rs` compares replicas with lists that Cassandra 5.0.6 printed
//! (`testdata/replicas.txt`), and random rings with a naive model.
//!
//! Limits: at most 65,536 nodes; Murmur3Partitioner and ByteOrderedPartitioner only.
//!
//! Source: D. Karger et al., Consistent Hashing and Random Trees (STOC 1997); Cassandra's
//! `TokenMetadata.firstTokenIndex`.

use crate::token::{Partitioner, Token, murmur3_token};

mod replicas;
mod replication;
#[cfg(test)]
mod tests;

pub use replicas::{ReplicaCatalog, ReplicaSets};
pub use replication::Replication;

/// A node's index in the list that the ring was built from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u16);

impl NodeIndex {
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

/// A node as the ring needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    pub dc: String,
    pub rack: String,
    /// Tokens of a partitioner other than the ring's are ignored.
    pub tokens: Vec<Token>,
}

/// The sorted tokens of a cluster with their owners. Immutable: a topology change builds a new
/// ring.
#[derive(Clone, Debug)]
pub struct Ring {
    tokens: Tokens,
    owners: Vec<NodeIndex>,
    locations: Vec<Location>,
}

/// Separate by kind, so that a Murmur3 look-up searches a plain `[i64]`.
#[derive(Clone, Debug)]
enum Tokens {
    Murmur3(Vec<i64>),
    Bytes(Vec<Box<[u8]>>),
}

/// A node's data centre and rack.
#[derive(Clone, Debug)]
struct Location {
    dc: String,
    /// A number unique over all data centres, because racks of two centres may share a name.
    rack: u16,
}

impl Ring {
    /// Builds the ring from the first 65,536 nodes. If two nodes claim one token, as can happen
    /// briefly while nodes move, the one listed first keeps it.
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
                let (tokens, owners) = resolve_claims(claims.collect());
                (Tokens::Murmur3(tokens), owners)
            }
            Partitioner::ByteOrdered => {
                let claims = indexed().flat_map(|(node, spec)| {
                    spec.tokens.iter().filter_map(move |token| match token {
                        Token::Bytes(bytes) => Some((bytes.clone(), node)),
                        Token::Murmur3(_) => None,
                    })
                });
                let (tokens, owners) = resolve_claims(claims.collect());
                (Tokens::Bytes(tokens), owners)
            }
        };
        let mut racks: Vec<(&str, &str)> = indexed()
            .map(|(_, spec)| (spec.dc.as_str(), spec.rack.as_str()))
            .collect();
        racks.sort_unstable();
        racks.dedup();
        let locations = indexed()
            .map(|(_, spec)| Location {
                dc: spec.dc.clone(),
                // It is always found.
                rack: racks
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

    /// The number of slots, that is of distinct tokens.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// True if no node has a token, so that there are no slots.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// The number of nodes the ring was built from, with or without tokens.
    pub fn node_count(&self) -> usize {
        self.locations.len()
    }

    /// The slot that contains `token`; 0 for an empty ring. Passing a token of the other
    /// partitioner is a bug of the caller.
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

    /// [`Self::slot_of_key`], with the key's Murmur3 token, whatever the partitioner.
    pub fn slot_and_token_of_key(&self, key: &[u8]) -> Option<(usize, i64)> {
        if self.is_empty() {
            return None;
        }
        Some(match &self.tokens {
            Tokens::Murmur3(tokens) => {
                let token = murmur3_token(key);
                (slot_in(tokens, &token), token)
            }
            Tokens::Bytes(_) => (self.slot_of_key(key)?, murmur3_token(key)),
        })
    }

    /// The node whose token ends the slot.
    pub fn owner(&self, slot: usize) -> Option<NodeIndex> {
        self.owners.get(slot).copied()
    }

    /// The inclusive end of the slot.
    pub fn end_token(&self, slot: usize) -> Option<Token> {
        match &self.tokens {
            Tokens::Murmur3(tokens) => tokens.get(slot).copied().map(Token::Murmur3),
            Tokens::Bytes(tokens) => tokens.get(slot).cloned().map(Token::Bytes),
        }
    }

    /// The exclusive start of the slot. Slot 0 starts at the last token of the ring.
    pub fn start_token(&self, slot: usize) -> Option<Token> {
        let before = slot.checked_sub(1).or(self.len().checked_sub(1))?;
        self.end_token(before)
    }
}

/// Sorts the claims; the first claimant of each token keeps it.
fn resolve_claims<T: Ord>(mut claims: Vec<(T, NodeIndex)>) -> (Vec<T>, Vec<NodeIndex>) {
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
