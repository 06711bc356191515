//! Writes that part from the batch that they share: each then goes by itself.

use helenus_wire::code;

use crate::engine::Engine;
use crate::exec::Execution;
use crate::features::merge::gate::Merge;
use crate::keys::ClientRequestKey;
use crate::pipeline::retry::resendable::Loss;
use crate::stats::add;

impl Engine {
    /// Whether a request is one of several that share a batch.
    pub(crate) fn leads_batch(&self, key: ClientRequestKey) -> bool {
        let request = self.requests.clients.get(key);
        request.is_some_and(|request| request.merge.leads())
    }

    /// A node has answered a batch with an error, or it came to nothing. True if each of its writes goes by
    /// itself now, because the error tells nothing of most of them. `in_doubt`: a node before may have
    /// applied it.
    pub(crate) fn part(&mut self, key: ClientRequestKey, error: i32, in_doubt: bool) -> bool {
        let Some(request) = self.requests.clients.get_mut(key) else {
            return false;
        };
        if !request.merge.leads() {
            return false;
        }
        let in_doubt = in_doubt || !is_refusal(error);
        let loss = match in_doubt {
            true => Loss::MayCome,
            false => Loss::NotBegun,
        };
        if is_of_all(error) || !request.resendable().after(loss) {
            return false;
        }
        let prepared = request.query.prepared.clone();
        if let Some(form) = prepared.as_deref().and_then(|p| p.merged_form()) {
            form.note_refused();
            if error == code::UNPREPARED {
                form.timed.forget_range();
            }
        }
        let mut parted = vec![key];
        parted.append(&mut request.merge.take_members());
        request.execution = Execution::Single(None);
        add(&self.cx.shared.stats.global.write_batches_parted, 1);
        self.go_alone(parted, in_doubt);
        true
    }

    /// What had joined a write that is no more, or parts from it. `in_doubt`: it may have been applied.
    pub(crate) fn go_alone(&mut self, members: Vec<ClientRequestKey>, in_doubt: bool) {
        for member in members {
            if let Some(request) = self.requests.clients.get_mut(member) {
                request.merge = match in_doubt {
                    true => Merge::Parted,
                    false => Merge::Alone,
                };
                self.start(member);
            }
        }
    }
}

/// Whether an error tells of all writes of a batch what it would of each: that nodes are away or late.
fn is_of_all(error: i32) -> bool {
    matches!(
        error,
        code::WRITE_TIMEOUT | code::UNAVAILABLE | code::OVERLOADED | code::IS_BOOTSTRAPPING
    )
}

/// Whether an error tells that nothing was done.
fn is_refusal(error: i32) -> bool {
    matches!(
        error,
        code::INVALID | code::SYNTAX | code::UNAUTHORIZED | code::UNPREPARED | code::PROTOCOL
    )
}
