use super::*;
use helenus_policy::schedule::Variant;

fn crowded() -> Setup {
    Setup::paper()
}

fn means(setup: &Setup, variant: Variant) -> (f64, f64) {
    let outcome = run(setup, &Arm::variant(variant, setup));
    assert_eq!(outcome.points_refused + outcome.scans_refused, 0);
    (outcome.points.mean_us(), outcome.scans.mean_us())
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let setup = Setup {
        queries: 500,
        proxies: 3,
        ..crowded()
    };
    for (name, arm) in Arm::all(&setup) {
        let [a, b] = [0, 1].map(|_| format!("{:?}", run(&setup, &arm)));
        assert_eq!(a, b, "{name}");
        let other = Setup { seed: 2, ..setup };
        assert_ne!(a, format!("{:?}", run(&other, &arm)), "{name}");
    }
}

/// `run` itself asserts that every query ends once and nothing is left anywhere.
#[test]
fn every_query_ends_once_in_every_arm() {
    for seed in 0..20 {
        let setup = Setup {
            seed,
            nodes: 1 + seed as u32 % 5,
            proxies: 1 + seed as u32 % 3,
            clients: 1 + 40 * (seed as u32 % 7),
            queries: 300,
            points_in_ten: seed as u32 % 11,
            ..crowded()
        };
        for (_, arm) in Arm::all(&setup) {
            let outcome = run(&setup, &arm);
            let scans = outcome.scans.count() as u32 + outcome.scans_refused;
            let points = outcome.points.count() as u32 + outcome.points_refused;
            assert_eq!(points + scans, 300, "seed {seed}");
        }
    }
}

#[test]
fn what_waits_too_long_is_given_back() {
    let setup = Setup {
        nodes: 1,
        points_in_ten: 0,
        queries: 300,
        clients: 300,
        ..crowded()
    };
    let Arm::Proxy {
        mut settings,
        piece_rows,
        fan,
    } = Arm::variant(Variant::Default, &setup)
    else {
        panic!("the default has a proxy");
    };
    settings.wait_max_us = [200_000; Class::COUNT];
    let outcome = run(
        &setup,
        &Arm::Proxy {
            settings,
            piece_rows,
            fan,
        },
    );
    assert!(outcome.scans_refused > 0 && outcome.scans.count() > 0);
}

#[test]
fn the_papers_findings_hold() {
    let setup = crowded();
    let direct = run(&setup, &Arm::Direct);
    let of = |variant| means(&setup, variant);
    let (o, res, p, a) = (
        of(Variant::O),
        of(Variant::ReS),
        of(Variant::P),
        of(Variant::A),
    );
    // Points first: points gain most of what there is to gain.
    assert!(res.0 < 0.2 * o.0, "{res:?} {o:?}");
    assert!(a.0 < 0.2 * o.0, "{a:?} {o:?}");
    // Parallel ranges alone put points behind more of them.
    assert!(p.0 > o.0, "{p:?} {o:?}");
    // All three together are good for ranges too.
    assert!(a.1 < 0.95 * o.1, "{a:?} {o:?}");
    let default = of(Variant::Default);
    assert!(default.0 < 0.2 * direct.points.mean_us(), "{default:?}");
    assert!(default.1 < direct.scans.mean_us(), "{default:?}");
}
