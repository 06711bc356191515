//! Decides if what was sent for a request may be sent again ([`crate::pipeline::retry::resendable`]).

use crate::keys::NodeRequestKey;
use crate::pipeline::request::{ClientRequest, Requests};
use crate::pipeline::retry::resendable::{Loss, Resendable};

impl ClientRequest {
    /// After which losses what is sent for it may be sent again.
    pub(crate) fn resendable(&self) -> Resendable {
        self.query.resendable.min(self.features.resendable())
    }
}

impl Requests {
    /// True if a node request may be sent again after it was lost in this way.
    pub(crate) fn may_be_sent_again(&self, key: NodeRequestKey, loss: Loss) -> bool {
        let Some(request) = self.nodes.get(key) else {
            return false;
        };
        let resendable = match request.other() {
            Some(query) => Some(query.resendable),
            None => {
                let client = request.client();
                let client = client.and_then(|client| self.clients.get(client));
                client.map(ClientRequest::resendable)
            }
        };
        resendable.is_some_and(|resendable| resendable.after(loss))
    }
}

#[cfg(test)]
mod tests;
