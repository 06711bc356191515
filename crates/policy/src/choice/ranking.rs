//! Orders a few nodes by score, without allocating.

use super::request::CANDIDATES_MAX;
use crate::ring::NodeIndex;

/// The whole slice, starting at element `rotation mod n`.
pub(super) fn in_turn(nodes: &mut [NodeIndex], rotation: u64) {
    if nodes.len() > 1 {
        let start = (rotation % nodes.len() as u64) as usize;
        nodes.rotate_left(start);
    }
}

/// Lowest score first; equal ones take turns.
pub(super) fn by_score(nodes: &mut [NodeIndex], rotation: u64, score: impl Fn(NodeIndex) -> f32) {
    let len = nodes.len().min(CANDIDATES_MAX);
    let nodes = &mut nodes[..len];
    in_turn(nodes, rotation);
    let mut scores = [0.0; CANDIDATES_MAX];
    for (of, node) in scores.iter_mut().zip(nodes.iter()) {
        *of = score(*node);
    }
    sort(nodes, &mut scores);
}

/// Sorts by insertion: there are two or three.
#[inline]
pub(super) fn sort(nodes: &mut [NodeIndex], scores: &mut [f32]) {
    for end in 1..nodes.len().min(scores.len()) {
        let mut at = end;
        while at > 0 && scores[at] < scores[at - 1] {
            scores.swap(at, at - 1);
            nodes.swap(at, at - 1);
            at -= 1;
        }
    }
}
