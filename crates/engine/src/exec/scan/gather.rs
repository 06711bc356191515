//! Parts of one client request that are under way at the same time, and what has come of them.

use crate::keys::NodeRequestKey;

/// One part.
#[derive(Debug)]
pub(crate) struct Part<P> {
    /// The request that it is a part of.
    pub of: P,
    /// The node request for it; none before it is sent and when it has come.
    child: Option<NodeRequestKey>,
    content: Option<Vec<u8>>,
}

impl<P> Part<P> {
    pub(crate) fn child(&self) -> Option<NodeRequestKey> {
        self.child
    }

    pub(crate) fn has_come(&self) -> bool {
        self.content.is_some()
    }
}

/// The parts of one client request.
#[derive(Debug)]
pub(crate) struct Gather<P> {
    parts: Vec<Part<P>>,
    missing: usize,
}

impl<P> Default for Gather<P> {
    fn default() -> Self {
        Gather {
            parts: Vec::new(),
            missing: 0,
        }
    }
}

impl<P> Gather<P> {
    /// Adds a part that has not been sent.
    pub(crate) fn push(&mut self, of: P) {
        self.parts.push(Part {
            of,
            child: None,
            content: None,
        });
        self.missing += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(crate) fn parts(&self) -> &[Part<P>] {
        &self.parts
    }

    pub(crate) fn part_mut(&mut self, index: u16) -> Option<&mut P> {
        let part = self.parts.get_mut(usize::from(index))?;
        Some(&mut part.of)
    }

    /// How many have not come.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// A part has been sent by this node request.
    pub(crate) fn sent(&mut self, index: usize, child: NodeRequestKey) {
        if let Some(part) = self.parts.get_mut(index) {
            part.child = Some(child);
        }
    }

    /// Keeps what has come of a part; false if it had come before.
    pub(crate) fn keep(&mut self, index: u16, content: &[u8]) -> bool {
        let part = self.parts.get_mut(usize::from(index));
        let Some(part) = part.filter(|part| part.content.is_none()) else {
            return false;
        };
        part.child = None;
        part.content = Some(content.to_vec());
        self.missing -= 1;
        true
    }

    /// True if a node request is for the part of this number, and that is still wanted.
    pub(crate) fn awaits(&self, index: u16, child: NodeRequestKey) -> bool {
        let part = self.parts.get(usize::from(index));
        part.is_some_and(|part| part.child == Some(child))
    }

    /// The node requests for those that are under way.
    pub(crate) fn children(&self) -> Vec<NodeRequestKey> {
        self.parts.iter().filter_map(Part::child).collect()
    }

    /// The contents that have come, in the order of the parts.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(|part| part.content.as_deref())
    }

    /// The content of one part, if it has come.
    pub(crate) fn contents_of(&self, index: usize) -> Option<&[u8]> {
        self.parts.get(index)?.content.as_deref()
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.contents().map(<[u8]>::len).sum()
    }
}
