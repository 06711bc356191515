//! Workers between clients and nodes: whatever these do, and in whatever order, each request is answered
//! once or its client's connection is closed, and nothing is left when they are gone.
#![no_main]

use helenus_fuzz::world::World;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| World::new(data).run());
