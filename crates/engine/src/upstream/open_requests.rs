//! Open requests: node requests on a link that others may still join. They are written down when the link's bytes
//! leave.

use helenus_wire::{Header, Opcode, Version};

use crate::context::Context;
use crate::keys::LinkKey;
use crate::pipeline::node_request::NodeRequest;
use crate::pipeline::query::Query;
use crate::upstream::link::OpenRequests;
use crate::upstream::links::Links;

impl Links {
    /// The open requests of a link, if there are any; to be given back.
    pub(crate) fn take_open(&mut self, key: LinkKey) -> Option<OpenRequests> {
        let link = self.open.get_mut(key)?;
        let is_any = !link.open_requests.is_empty();
        is_any.then(|| std::mem::take(&mut link.open_requests))
    }

    /// Gives back the list, whose requests have been written down.
    pub(crate) fn give_back_open(&mut self, key: LinkKey, mut open: OpenRequests) {
        open.clear();
        if let Some(link) = self.open.get_mut(key) {
            link.open_requests = open;
        }
    }

    /// A stream whose request was given up before it was written down: no answer will come.
    pub(crate) fn release_unsent(&mut self, key: LinkKey, stream: i16) {
        if let Some(link) = self.open.get_mut(key) {
            link.release_stream(stream);
        }
    }

    /// Writes down an open request.
    pub(crate) fn push_one(
        &mut self,
        cx: &Context,
        link: LinkKey,
        stream: i16,
        request: &NodeRequest,
        query: &Query,
    ) {
        if let Some(link) = self.open.get_mut(link) {
            link.push(cx, stream, request, query);
        }
    }

    /// Writes down something else in the place of an open request: with this body, in the link's version, of at most
    /// about so many bytes.
    pub(crate) fn push_instead(
        &mut self,
        link: LinkKey,
        stream: i16,
        opcode: Opcode,
        body_len_max: usize,
        body: impl FnOnce(Version, &mut Vec<u8>),
    ) {
        let Some(link) = self.open.get_mut(link) else {
            return;
        };
        let version = link.version;
        let header = Header {
            version: version as u8,
            response: false,
            flags: 0,
            stream,
            opcode: opcode as u8,
            body_len: 0,
        };
        link.encoder
            .push(header, body_len_max, |out| body(version, out));
    }
}
