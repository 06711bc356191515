//! Faults on demand, for tests of what becomes of a proxy that has one. Only programs with debug assertions know them.

/// The environment variable that names one.
const VARIABLE: &str = "HELENUS_PLANTED";

fn is_wanted(fault: &str) -> bool {
    std::env::var(VARIABLE).is_ok_and(|wanted| wanted == fault)
}

pub(crate) fn panic_in(place: &str) {
    if cfg!(debug_assertions) && is_wanted(&format!("panic in {place}")) {
        panic!("planted in {place}");
    }
}

/// Has a worker that never ends its turn.
pub(crate) fn stand_still() {
    while cfg!(debug_assertions) && is_wanted("a worker stands still") {
        std::thread::park();
    }
}
