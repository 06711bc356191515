use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: RampArgs,
}

fn args(line: &str) -> Result<RampArgs> {
    let args = Line::try_parse_from(line.split_whitespace())?.args;
    args.check()?;
    Ok(args)
}

#[test]
fn options_become_the_policy_of_the_search() {
    let policy = args("x --min-clients 2 --max-clients 300 --target-p99 20ms --windows 4");
    let policy = policy.unwrap().policy();
    assert_eq!((policy.load_min, policy.load_max), (2, 300));
    assert_eq!(policy.limits.latency_us_p99_max, Some(20_000.0));
    assert_eq!(policy.limits.achieved_share_min, None);
    assert_eq!((policy.windows, policy.confirmations), (2, 4));
    let open = args("x --open-loop --min-rate 50 --max-rate 9000 --errors-max 0").unwrap();
    let policy = open.policy();
    assert_eq!((policy.load_min, policy.load_max), (50, 9_000));
    assert_eq!(policy.limits.achieved_share_min, Some(0.95));
    assert_eq!(open.model(70), (LoadModel::Open(70.0), OPEN_LOOP_CLIENTS));
}

#[test]
fn only_nodes_that_carry_the_load_count_for_the_headroom() {
    let count = |line: &str, local: &[LocalNode], seen: Option<&[SeenNode]>| {
        let args = args(line).expect(line);
        let endpoints = args.target.endpoints().expect(line);
        let (endpoint, pid) = &endpoints[0];
        args.count_nodes(endpoint, local, seen, pid.is_some())
    };
    let local: Vec<LocalNode> = [
        ("near", true),
        ("near", true),
        ("far", true),
        ("near", false),
    ]
    .iter()
    .zip(1..)
    .map(|((dc, runs), number)| LocalNode {
        number,
        address: std::net::SocketAddr::from(([127, 0, 3, number as u8], 9042)),
        dc: (*dc).to_owned(),
        pid: runs.then_some(7),
    })
    .collect();
    assert_eq!(count("x", &local, None), Some(3));
    assert_eq!(count("x --local-dc near", &local, None), Some(2));
    let node = |dc: &str, is_proxy| SeenNode {
        name: "n".to_owned(),
        dc: Some(dc.to_owned()),
        is_proxy,
    };
    let seen = [node("near", false), node("near", false), node("far", false)];
    assert_eq!(count("x", &[], Some(&seen)), Some(3));
    assert_eq!(count("x --local-dc near", &[], Some(&seen)), Some(2));
    assert_eq!(count("x", &[], None), None);
    // Proxies are no nodes, whether one knows their processes or not.
    let proxies = [node("near", true), node("near", true)];
    assert_eq!(count("x", &[], Some(&proxies)), None);
    assert_eq!(count("x --arm p=127.0.0.1:9142@17", &[], Some(&seen)), None);
    assert_eq!(count("x --node 127.0.0.1:9042", &[], Some(&seen)), Some(3));
}

#[test]
fn it_takes_the_workloads_and_endpoints_of_load() {
    let ycsb = args("x --ycsb b --client raw --arm p=127.0.0.1:9142@17").unwrap();
    assert_eq!(ycsb.target.workload_name(), "YCSB B");
    assert_eq!(ycsb.target.arms[0].pid, Some(17));
    assert_eq!(ycsb.target.sessions(500), 500);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "x --min-clients 9 --max-clients 8",
        "x --open-loop --max-clients 8",
        "x --max-rate 100",
        "x --open-loop --min-rate 500 --max-rate 100",
        "x --open-loop --max-rate nan",
        "x --today -5",
        "x --today 0",
        "x --target-p99 0",
        "x --target-p99 fast",
        "x --window 10ms",
        "x --windows 0",
        "x --errors-max 2",
        "x --cluster a --cluster-dir b",
        "x --arm a=h:1 --arm b=h:2",
        "x --rate 100",
        "x --clients 5",
    ] {
        assert!(args(line).is_err(), "{line}");
    }
}

#[test]
fn the_command_leads_to_load_or_to_ramp() {
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        command: crate::load::LoadCommand,
    }
    let parsed = |line: &str| Command::try_parse_from(line.split_whitespace());
    let action = |line: &str| parsed(line).unwrap().command.action;
    assert!(action("x --clients 5").is_none());
    assert!(action("x ramp --max-clients 5").is_some());
    assert!(
        parsed("x --clients 5 ramp").is_err(),
        "options of load do not reach it"
    );
}
