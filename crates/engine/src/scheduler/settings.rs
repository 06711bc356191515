//! Settings of a worker's queue for a node.

use helenus_policy::choice;
use helenus_policy::schedule::{Class, Settings, Variant};

use crate::config::Config;

/// However many workers and proxies there are, each may have this many queries other than scans at a node while its
/// own scans are there, or `window_min` when answers are late: a share of the window would be so few that a node which
/// is slow to answer stands idle.
const WINDOW_FLOOR: u32 = 16;

/// A worker's share of what the settings allow for a node of so many processors.
pub(crate) fn settings(config: &Config, workers: usize, processors: Option<u32>) -> Settings {
    let scheduling = &config.scheduling;
    let workers = workers.max(1);
    let links = config.links.per_node.div_ceil(workers).max(1);
    let open = (config.links.in_flight_max * links).min(config.links.node_in_flight_max) as u32;
    let share = |n: u32| n.div_ceil(workers as u32).max(1);
    let queue = u32::try_from(config.limits.node_queue_max).unwrap_or(u32::MAX);
    let us = |ms: u64| ms.saturating_mul(1_000);
    let point = us(scheduling.point_wait_max_ms);
    let write = us(scheduling.write_wait_max_ms);
    let scan = us(scheduling.scan_wait_max_ms);
    let other = us(scheduling.other_wait_max_ms);
    let proxies = u32::try_from(config.proxies_at_work()).unwrap_or(u32::MAX);
    let settings = Settings {
        variant: Variant::Default,
        window_min: share(scheduling.window_min),
        window_floor: WINDOW_FLOOR.min(scheduling.window_min),
        window_max: share(scheduling.window_max),
        window_open_max: open,
        scan_slots: scheduling.scan_slots,
        scan_slots_idle: scheduling.scan_slots_idle,
        scan_slots_start: scheduling.scan_slots_idle,
        scan_slots_max: scheduling.scan_slots_max,
        wait_max_us: [other, point, point, point, write, write, scan, other],
        standing_wait_max_us: Class::ALL.map(|class| match class {
            Class::Scan => us(scheduling.standing_scan_wait_max_ms),
            _ => us(scheduling.standing_wait_max_ms),
        }),
        queue_max: [queue; Class::COUNT],
    };
    let settings = settings.of_node(processors.unwrap_or(0)).shared_by(proxies);
    let window_max = settings
        .window_max
        .max(WINDOW_FLOOR.min(scheduling.window_max));
    let settings = Settings {
        window_max,
        ..settings
    };
    if !scheduling.enabled {
        return Settings {
            variant: Variant::O,
            window_max: open,
            ..settings
        };
    }
    Settings {
        variant: scheduling.variant.parse().unwrap_or_default(),
        ..settings
    }
}

/// The setting that bounds how long a request of a class waits in a node's queue.
pub(crate) fn wait_key(class: Class) -> &'static str {
    match class {
        Class::Point | Class::Slice | Class::Multi => "point_wait_max_ms",
        Class::Write | Class::Lwt => "write_wait_max_ms",
        Class::Scan => "scan_wait_max_ms",
        Class::System | Class::Other => "other_wait_max_ms",
    }
}

/// The setting that bounds it while more requests come than the node serves.
pub(crate) fn standing_key(class: Class) -> &'static str {
    match class {
        Class::Scan => "standing_scan_wait_max_ms",
        _ => "standing_wait_max_ms",
    }
}

/// How a worker chooses replicas.
pub(crate) fn assignment(config: &Config, workers: usize) -> choice::Settings {
    let proxies = config.proxies_at_work();
    let clients = workers.max(1).saturating_mul(proxies);
    choice::Settings {
        policy: config.assignment.policy.parse().unwrap_or_default(),
        clients: u16::try_from(clients).unwrap_or(u16::MAX),
        weights: choice::Weights {
            memory: config.assignment.memory_weight as f32,
            disk: config.assignment.disk_weight as f32,
            ..choice::Weights::default()
        },
    }
}
