use super::*;
use crate::bench::common::parsed;
use helenus_console::settings::judge;

fn args(line: &str) -> AssignmentArgs {
    parsed(line).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_policy_has_a_proxy_of_its_own_beside_the_default() {
    let pairs = |line: &str| -> Vec<(String, String)> {
        let variants = args(line).variants(None).into_iter();
        variants.map(|v| (v.name, v.settings.join(" "))).collect()
    };
    let unhedged = [(
        "helenus-unhedged".to_owned(),
        "assignment.hedging=false".to_owned(),
    )];
    assert_eq!(pairs("x --quick"), [("helenus".into(), String::new())]);
    assert_eq!(pairs("x --quick --unhedged")[1..], unhedged);
    assert_eq!(pairs("x")[1..], unhedged);
    assert_eq!(
        pairs("x --quick --policies first,token-aware")[1..],
        [
            ("helenus-first".into(), "assignment.policy=first".into()),
            (
                "helenus-token-aware".into(),
                "assignment.policy=token-aware".into()
            ),
        ]
    );
}

#[test]
fn reports_have_arms_of_their_own_beside_those_without() {
    let args = args("x --quick --agent --policies first,resource-v1,c3");
    let variants = args.variants(Some(Path::new("/s")));
    let names: Vec<&str> = variants.iter().map(|v| &*v.name).collect();
    let expected = [
        "helenus",
        "helenus-reports",
        "helenus-first",
        "helenus-resource-v1-reports",
        "helenus-resource-v1",
        "helenus-c3-reports",
        "helenus-c3",
    ];
    assert_eq!(names, expected);
    for variant in &variants {
        let takes = variant.settings.iter().any(|of| of.contains("reports"));
        assert_eq!(takes, variant.name.ends_with(REPORTS), "{}", variant.name);
        assert!(judge(&variant.settings).is_ok(), "{:?}", variant.settings);
    }
    assert!(
        args.on_reports()
            .is_some_and(|note| note.contains("have the agent"))
    );
    let contact = "x --agent --contact 127.0.0.1:9042";
    assert!(parsed::<AssignmentArgs>(contact).is_err());
}

#[test]
fn what_is_not_possible_is_left_out() {
    let mut several = args("x --scenarios slow-disk,idle");
    several.leave_out(Scenario::SlowDisk).unwrap();
    assert_eq!(several.scenarios(), [Scenario::Idle]);
    assert!(several.leave_out(Scenario::Idle).is_err());
}

#[test]
fn clients_are_those_of_the_paper_on_request() {
    assert_eq!(args("x").clients(), [5, 20, 100, 500]);
    assert_eq!(args("x --quick").clients(), [20]);
    assert_eq!(args("x --full").clients().len(), 7);
    assert_eq!(args("x --quick --clients 3,4").clients(), [3, 4]);
}

#[test]
fn scenarios_have_an_order_and_faults_need_own_nodes() {
    use Scenario::{Compacting, Frozen, Idle, SlowDisk, SlowNetwork, Stalling, Stressed};
    assert_eq!(
        args("x").scenarios(),
        [Idle, Stressed, Frozen, Stalling, Compacting, SlowDisk]
    );
    assert_eq!(args("x --quick").scenarios(), [Idle, Stressed, Frozen]);
    assert_eq!(
        args("x --scenarios slow-network,frozen,idle,frozen").scenarios(),
        [Idle, Frozen, SlowNetwork]
    );
    let contact = "x --contact 127.0.0.1:9042";
    assert_eq!(args(contact).scenarios(), [Idle]);
    assert!(args(contact).check().is_ok());
    assert!(
        args(&format!("{contact} --scenarios frozen"))
            .check()
            .is_err()
    );
    assert!(args("x --nodes 1").check().is_err());
    assert!(args("x --nodes 1 --scenarios idle").check().is_ok());
    assert!(parsed::<AssignmentArgs>("x --scenarios calm").is_err());
}

#[test]
fn stress_needs_a_limit_and_gets_one() {
    let capped = |line: &str| {
        let mut args = args(line);
        args.choose_cap();
        args.common.node_cpus
    };
    assert!(capped("x").is_some_and(|cores| cores >= 0.01));
    assert_eq!(capped("x --node-cpus 0.3"), Some(0.3));
    assert_eq!(capped("x --scenarios idle,frozen"), None);
}

#[test]
fn numbers_have_bounds() {
    assert!(args("x").check().is_ok());
    for wrong in [
        "x --rate 0",
        "x --rate NaN",
        "x --freeze-seconds 0",
        "x --cell-seconds 0",
        "x --time-out 4000",
        "x --consistency MOST",
        "x --delay-ms 0",
    ] {
        assert!(args(wrong).check().is_err(), "{wrong}");
    }
}
