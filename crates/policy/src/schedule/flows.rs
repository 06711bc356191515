//! The order in which one tenant's items of one rank are served: those of each hot partition beside those of all
//! other partitions.
//!
//! Formula: start-time fair queueing. Each hot partition is a *flow*, and all others together are one. An item
//! starts at the virtual time or where its flow's last item has ended, whichever is later, and ends
//! [`HOT_COST`] later if its partition is hot, and 1 later if not; virtual time is the latest start of all
//! that were served. Items of equal rank are served by start, and each rank has virtual time and flows of its
//! own: what a hot partition has waiting in one does not keep it back in another. So while both wait, the others get
//! [`HOT_COST`] items for each of a hot partition, and while nothing is hot, arrival decides, as before.
//!
//! Why: otherwise a thousand waiting requests for one key would have to be served before the next request for
//! any other key of the same role.
//!
//! Evidence: `schedule/tests/flows.rs`.
//!
//! Limits: shares are of items, not of work: items compare only within a rank, which is a power of two of
//! work. At most [`FLOWS_MAX`] partitions are told apart; further ones count as all others do. Items that
//! have waited for half of their bound are due, and then arrival decides again.
//!
//! Source: P. Goyal, H. Vin, H. Cheng (SIGCOMM 1996), as `shares.rs`.

/// Items of other partitions for each of a hot one.
const HOT_COST: u64 = 4;
/// Hot partitions of a tenant in one queue and rank.
const FLOWS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Flows {
    virtual_time: u64,
    /// Where the last item of all partitions that are not hot has ended.
    others_end: u64,
    /// Where the last item of each hot partition has ended, by number.
    hot_ends: Vec<(u32, u64)>,
}

impl Flows {
    /// Where an item starts. `flow`: the number of its partition if that is hot, else 0.
    pub(super) fn enter(&mut self, flow: u32) -> u64 {
        let now = self.virtual_time;
        let (end, cost) = match self.hot_end(flow) {
            Some(end) => (end, HOT_COST),
            None => (&mut self.others_end, 1),
        };
        let start = (*end).max(now);
        *end = start + cost;
        start
    }

    /// An item that started there is served.
    pub(super) fn on_served(&mut self, start: u64) {
        self.virtual_time = self.virtual_time.max(start);
    }

    fn hot_end(&mut self, flow: u32) -> Option<&mut u64> {
        if flow == 0 {
            return None;
        }
        let now = self.virtual_time;
        let known = self.hot_ends.iter().position(|(of, _)| *of == flow);
        let at = match known {
            Some(at) => at,
            None => {
                if self.hot_ends.len() >= FLOWS_MAX {
                    // These would start afresh anyway.
                    self.hot_ends.retain(|(_, end)| *end > now);
                }
                if self.hot_ends.len() >= FLOWS_MAX {
                    return None;
                }
                self.hot_ends.push((flow, 0));
                self.hot_ends.len() - 1
            }
        };
        self.hot_ends.get_mut(at).map(|(_, end)| end)
    }
}
