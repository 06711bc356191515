//! Which keys are asked for, and who owns them.

use helenus_policy::ring::NodeIndex;

use crate::dice::Dice;

/// Keys by how often they are asked for.
pub(crate) struct Keys {
    /// Share of requests for keys up to this one.
    up_to: Vec<f64>,
    seed: u64,
    nodes: u64,
    replicas: u64,
    hot_share: f64,
}

impl Keys {
    /// So many keys, asked for by a Zipf distribution with this exponent; 0 for all alike.
    pub(crate) fn new(seed: u64, keys: usize, zipf: f64, nodes: u16, replicas: u16) -> Keys {
        let mut sum = 0.0;
        let weights = (1..=keys.max(1)).map(|rank| {
            sum += (rank as f64).powf(-zipf);
            sum
        });
        let mut up_to: Vec<f64> = weights.collect();
        up_to.iter_mut().for_each(|share| *share /= sum);
        Keys {
            up_to,
            seed,
            nodes: nodes.into(),
            replicas: replicas.into(),
            hot_share: 0.0,
        }
    }

    /// The same, but that this share of requests is for one more key.
    pub(crate) fn with_hot(mut self, share: f64) -> Keys {
        self.hot_share = share;
        self
    }

    /// The hash of a random key.
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        if self.hot_share > 0.0 && dice.share() < self.hot_share {
            return self.hot();
        }
        let share = dice.share();
        let rank = self.up_to.partition_point(|up_to| *up_to < share);
        Dice::of(self.seed, rank as u64, 7).draw()
    }

    /// The hash of the hot key.
    pub(crate) fn hot(&self) -> u64 {
        Dice::of(self.seed, u64::MAX, 7).draw()
    }

    /// The owners of a key, in ring order.
    pub(crate) fn owners(&self, hash: u64) -> impl Iterator<Item = NodeIndex> {
        let (first, nodes) = (hash % self.nodes, self.nodes);
        (0..self.replicas).map(move |at| NodeIndex(((first + at) % nodes) as u16))
    }
}
