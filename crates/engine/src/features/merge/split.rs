//! Writes that part from the batch that they share: each then goes by itself.

use helenus_wire::code;

use crate::exec::outcome::is_refusal;
use crate::features::merge::gate::{Merge, leads, take_members};
use crate::keys::ClientRequestKey;
use crate::pipeline::engine::Engine;
use crate::pipeline::retry::resendable::Loss;
use crate::statement::prepared::Prepared;
use crate::stats::add;

/// A node has answered a batch with an error, or it came to nothing. True if each of its writes goes by
/// itself now, because the error tells nothing of most of them. `in_doubt`: a node before may have
/// applied it.
pub(in crate::features) fn part(
    engine: &mut Engine,
    key: ClientRequestKey,
    error: i32,
    in_doubt: bool,
) -> bool {
    let Some(request) = engine.requests_mut().clients.get_mut(key) else {
        return false;
    };
    if !leads(&request.features) {
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
    if let Some(form) = prepared.as_deref().and_then(Prepared::timed_form) {
        form.features.merge.note_refused();
        if error == code::UNPREPARED {
            form.timed.forget_range();
        }
    }
    let mut parted = vec![key];
    parted.append(&mut take_members(&mut request.features));
    request.execution.restart();
    add(&engine.cx().shared.stats.global.write_batches_parted, 1);
    resend_individually(engine, parted, in_doubt);
    true
}

/// Members of a batch whose write is no more, or that they leave, go alone. `in_doubt`: it may have been applied.
pub(super) fn resend_individually(
    engine: &mut Engine,
    members: Vec<ClientRequestKey>,
    in_doubt: bool,
) {
    for member in members {
        if let Some(request) = engine.requests_mut().clients.get_mut(member) {
            request.features.keep().merge = match in_doubt {
                true => Merge::Parted,
                false => Merge::Alone,
            };
            engine.start(member);
        }
    }
}

/// True if an error tells of all writes of a batch what it would of each: that nodes are away or late.
fn is_of_all(error: i32) -> bool {
    matches!(
        error,
        code::WRITE_TIMEOUT | code::UNAVAILABLE | code::OVERLOADED | code::IS_BOOTSTRAPPING
    )
}
