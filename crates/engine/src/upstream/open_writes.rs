//! Writes on a link that others may still join: they are written down when the link's bytes leave.

use std::sync::Arc;

use helenus_wire::{
    ExecuteView, Header, Opcode, begin_unlogged_batch, end_batch, push_batch_child,
};

use crate::context::Context;
use crate::keys::LinkKey;
use crate::pipeline::node_request::NodeRequest;
use crate::pipeline::query::Query;
use crate::statement::prepared::Prepared;
use crate::upstream::link::OpenWrites;
use crate::upstream::links::Links;

impl Links {
    /// The writes on a link that others may still join, if there are any; to be given back.
    pub(crate) fn take_open(&mut self, key: LinkKey) -> Option<OpenWrites> {
        let link = self.open.get_mut(key)?;
        let is_any = !link.open_writes.is_empty();
        is_any.then(|| std::mem::take(&mut link.open_writes))
    }

    /// Gives back the list, whose writes have been written down.
    pub(crate) fn give_back_open(&mut self, key: LinkKey, mut open: OpenWrites) {
        open.clear();
        if let Some(link) = self.open.get_mut(key) {
            link.open_writes = open;
        }
    }

    /// A stream whose request was given up before it was written down: no answer will come.
    pub(crate) fn release_unsent(&mut self, key: LinkKey, stream: i16) {
        if let Some(link) = self.open.get_mut(key) {
            link.release_stream(stream);
        }
    }

    /// Writes down a write that none has joined.
    pub(crate) fn push_one(
        &mut self,
        cx: &Context,
        (link, stream): (LinkKey, i16),
        request: &NodeRequest,
        query: &Query,
    ) {
        if let Some(link) = self.open.get_mut(link) {
            link.push(cx, stream, request, query);
        }
    }

    /// Writes down a batch of these writes, the first of which is `leader`. `timed`: what each is sent as
    /// with its client's timestamp, and the number of the marker for it.
    pub(crate) fn push_batch<'q>(
        &mut self,
        (link, stream): (LinkKey, i16),
        leader: &Query,
        queries: impl Iterator<Item = &'q Query>,
        timed: Option<&(Arc<Prepared>, u16)>,
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
            opcode: Opcode::Batch as u8,
            body_len: 0,
        };
        // They were read when they joined, so this cannot fail; if it does, the node refuses the empty body
        // and each goes by itself. None may be left out.
        let views = queries.map(|query| ExecuteView::parse(&query.body, query.version).ok());
        let views: Option<Vec<ExecuteView<'_>>> = views.collect();
        debug_assert!(views.is_some(), "a write of a batch cannot be read");
        link.encoder.push(header, |out| {
            let Some(views) = views else { return };
            begin_unlogged_batch(views.len() as u16, out);
            for view in &views {
                let values = &view.options.values;
                match (view.options.timestamp, timed) {
                    (Some(timestamp), Some((timed, at))) => {
                        push_batch_child(&timed.id, values, Some((*at, timestamp)), out);
                    }
                    _ => push_batch_child(view.id, values, None, out),
                }
            }
            end_batch(leader.consistency, leader.serial_consistency, version, out);
        });
    }
}
