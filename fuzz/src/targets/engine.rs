//! Workers between clients and nodes: whatever these do, and in whatever order, each request is answered
//! once or its client's connection is closed, and nothing is left when they are gone.
use crate::world::World;

pub fn run(data: &[u8]) {
    World::new(data).run();
}
