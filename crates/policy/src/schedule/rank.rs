//! In which order what waits of one class goes.

use super::{Class, Job, Variant};

/// The lower is served first; equal ones by arrival.
pub(super) type Rank = (u32, u32);

/// A scan gives way to smaller ones that come later for this many times its own work.
const STRETCH: u64 = 32;

/// When an item shall be through, where that orders its class: scans of the default. So the smaller
/// ones go first, but a large one does not wait for all that ever come.
pub(super) fn through_us(variant: Variant, class: Class, job: &Job, arrived_us: u64) -> u64 {
    match class {
        Class::Scan if !variant.is_preset() => {
            arrived_us.saturating_add(STRETCH * u64::from(job.work_us))
        }
        _ => 0,
    }
}

/// The order within a class.
pub(super) fn rank_of(variant: Variant, class: Class, job: &Job) -> Rank {
    match variant {
        Variant::Default => (32 - job.work_us.leading_zeros(), 0),
        _ if class == Class::Scan && variant.ranges_ordered() => {
            (u32::from(job.nodes_left), job.rows)
        }
        _ => (0, 0),
    }
}
