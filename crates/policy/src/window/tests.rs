use super::*;

fn seen(queries: u64, mean_us: u64) -> Observed {
    Observed {
        queries,
        latency_sum_us: queries * mean_us,
        interval_us: 100_000,
        links: 2,
    }
}

#[test]
fn it_grows_under_load_up_to_the_budget() {
    let mut window = Window::new(10, 200);
    for _ in 0..50 {
        window.observe(seen(50_000, 900));
    }
    assert_eq!(window.us(), 200);
}

#[test]
fn it_halves_when_latency_leaves_the_budget() {
    let mut window = Window::new(10, 200);
    for _ in 0..10 {
        window.observe(seen(50_000, 900));
    }
    assert_eq!(window.us(), 100);
    window.observe(seen(50_000, 1_101));
    assert_eq!(window.us(), 50);
    window.observe(seen(50_000, 1_100));
    assert_eq!(window.us(), 60);
}

#[test]
fn it_does_not_wait_for_queries_that_do_not_come() {
    let mut window = Window::new(10, 200);
    for _ in 0..10 {
        window.observe(seen(50_000, 900));
    }
    for _ in 0..10 {
        window.observe(seen(100, 300));
    }
    assert_eq!(window.us(), 0);
    window.observe(seen(50_000, 400));
    assert_eq!(window.us(), 10);
    window.observe(seen(0, 0));
    assert_eq!(window.us(), 0);
}

#[test]
fn it_grows_only_if_more_than_one_query_comes_in_a_step() {
    let mut window = Window::new(10, 200);
    window.observe(seen(20_000, 900));
    assert_eq!(window.us(), 0, "one for each link and step");
    window.observe(seen(20_002, 900));
    assert_eq!(window.us(), 10);
}
