//! How nodes are spoken to.

use helenus_wire::Version;

/// The version that nodes speak, and what they say to who begins to speak.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The version spoken to all nodes.
    pub(super) version: Version,
    /// The body of the nodes' AUTHENTICATE, if they ask for authentication.
    pub(super) authenticate: Option<Vec<u8>>,
    /// Body of the nodes' SUPPORTED.
    pub(super) supported: Vec<u8>,
}

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol {
            version: Version::V4,
            authenticate: None,
            supported: Vec::new(),
        }
    }
}

impl Protocol {
    /// The body of the nodes' AUTHENTICATE, if they ask for authentication.
    pub fn authenticate(&self) -> Option<&[u8]> {
        self.authenticate.as_deref()
    }

    /// True if clients have to log in.
    #[inline]
    pub fn asks_for_login(&self) -> bool {
        self.authenticate.is_some()
    }

    /// Body of the nodes' SUPPORTED.
    pub(crate) fn supported(&self) -> &[u8] {
        &self.supported
    }
}
