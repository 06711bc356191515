//! Takes over what is new in the cluster and in the settings.

use std::sync::Arc;

use crate::config::Config;
use crate::features;
use crate::pipeline::engine::Engine;

impl Engine {
    /// Everything, when a worker begins.
    pub(crate) fn adopt_all(&mut self) {
        features::on_settings(self);
        features::on_start(self);
        self.adopt_snapshot();
    }

    /// Takes the newest snapshot and makes room for nodes that are new in it.
    pub(crate) fn adopt_snapshot(&mut self) {
        let new = self.cx.shared.snapshot.load_full();
        self.pauses
            .note_snapshot(self.cx.now, &self.cx.snapshot, &new);
        self.cx.snapshot = new;
        let joined = self.links.adopt_nodes(&self.cx);
        features::on_joined(self, joined);
        self.queues.adopt_nodes(&self.cx);
        features::on_snapshot(self);
        self.links.maintain(&mut self.cx);
    }

    /// Takes over settings that have changed while the proxy runs.
    pub(crate) fn adopt_settings(&mut self, config: Arc<Config>) {
        self.statements.adopt(&config, self.cx.workers);
        self.cx
            .memory
            .set_max(self.cx.shared.memory_max_of(&config));
        if config.aggregation != self.cx.shared.config.aggregation {
            self.links.adopt_window(&config.aggregation);
        }
        self.cx.shared = Arc::new(self.cx.shared.with(config));
        features::on_settings(self);
        self.queues.adopt_settings(&self.cx);
        self.links.maintain(&mut self.cx);
    }
}
