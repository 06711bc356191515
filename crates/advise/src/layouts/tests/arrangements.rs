//! What layouts take in each arrangement over data centres.

use super::*;

#[test]
fn arrangements_say_what_they_take_what_they_answer_and_how_they_are_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (workload, rows) = files(folder.path(), APART);
    let options = ["--replicas", "2", "--replication", TWO, "--copies-max", "7"];
    let report = advise(&args(&workload, &rows, &options)).expect("valid");
    println!("{}", show::text(&report));
    let json = json::json(&report);
    println!("{:#}", json["arrangements"]);
    assert_eq!(json["replication"]["from"], "option");
    assert_eq!(json["replication"]["replicas"]["dc2"], 2);
    let all = json["arrangements"].as_array().expect("a list");
    let told = all.iter().map(|of| {
        let held = of["layouts"].as_array().into_iter().flatten();
        let held = held.map(|layout| {
            let first = layout["clustering"][0].as_str().expect("a column");
            format!("{first} in {}", layout["data_centers"])
        });
        let of_layouts = &of["copies_of_layouts"];
        let copies = [&of["copies"], &of_layouts["dc1"], &of_layouts["dc2"]];
        (
            of["kind"].as_str().expect("a text"),
            held.collect::<Vec<_>>(),
            copies.map(|copies| copies.as_u64().expect("a number")),
            of["copies_as_now_with"].to_string(),
        )
    });
    let told: Vec<_> = told.collect();
    let (date, customer) = ("orderdate in", "clerk in");
    let (one, two, both) = (r#"["dc1"]"#, r#"["dc2"]"#, r#"["dc1","dc2"]"#);
    let lists = |held: &[(&str, &str)]| {
        let held = held.iter();
        held.map(|(layout, places)| format!("{layout} {places}"))
            .collect::<Vec<_>>()
    };
    let sorted = |(kind, mut held, copies, then): (_, Vec<String>, _, _)| {
        held.sort();
        (kind, held, copies, then)
    };
    let told: Vec<_> = told.into_iter().map(sorted).collect();
    let as_now = |dc1: u32, dc2: u32| format!("{{\"dc1\":{dc1},\"dc2\":{dc2}}}");
    let none = "null".to_owned();
    let expected = [
        ("table", vec![], [5, 0, 0], none.clone()),
        (
            "beside",
            lists(&[(customer, both), (date, both)]),
            [15, 6, 4],
            none,
        ),
        (
            "derived",
            lists(&[(customer, two), (date, one)]),
            [7, 1, 1],
            as_now(2, 1),
        ),
        ("derived", lists(&[(date, one)]), [6, 1, 0], as_now(2, 2)),
        (
            "derived",
            lists(&[(customer, two)]),
            [6, 0, 1],
            as_now(3, 1),
        ),
    ];
    assert_eq!(told, expected);
    let cost = |at: usize, place: &str| all[at]["cost_us_in"][place].as_f64().expect("a time");
    // The clients of the other data centre read the table.
    assert_eq!(cost(3, "dc2"), cost(0, "dc2"));
    assert_eq!(cost(4, "dc1"), cost(0, "dc1"));
    assert!(cost(3, "dc1") < cost(0, "dc1") && cost(4, "dc2") < cost(0, "dc2"));
    assert_eq!(all[2]["cost_us_in"], all[1]["cost_us_in"]);
    let design = json["cost_us"].as_f64().expect("a time");
    let beside = all[1]["cost_us"].as_f64().expect("a time");
    assert!((beside / design - 1.0).abs() < 1e-9, "{beside} {design}");
    let bound = all[2]["lower_bound_us"].as_f64().expect("it was placed");
    assert!((beside / bound - 1.0).abs() < 1e-9, "it is proven: {bound}");
    assert_eq!(all[1]["reads_at"], serde_json::Value::Null);
    assert_eq!(all[2]["reads_at"][1], "LOCAL_ONE");
    assert_eq!(all[3]["clients_in"], serde_json::json!(["dc1"]));
    assert_eq!(all[0]["commands"], serde_json::json!([]));
    assert_eq!(all[1]["commands"].as_array().map(Vec::len), Some(1));
    let commands = all[2]["commands"].as_array().expect("a list");
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let command = command.as_str().expect("a text");
        let begins = "helenus layouts create shop.orders --contact HOST:PORT --layout";
        assert!(command.starts_with(begins), "{command}");
        assert!(command.contains("--keyspace shop__layouts_dc"), "{command}");
    }
    let text = show::text(&report);
    for command in commands {
        assert!(text.contains(command.as_str().expect("a text")), "{text}");
    }
    assert!(text.contains("3+1"), "{text}");
    assert!(text.contains("2 in dc1, 1 in dc2"), "{text}");
    assert!(
        text.contains("2: no derived layouts with as many copies cost less"),
        "{text}"
    );
}

#[test]
fn what_is_not_said_of_data_centers_is_assumed_and_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (workload, rows) = files(folder.path(), PAPER);
    let report = advise(&args(&workload, &rows, &["--replicas", "2"])).expect("valid");
    let json = json::json(&report);
    let copies = json["arrangements"].as_array().into_iter().flatten();
    let copies: Vec<_> = copies.map(|of| of["copies"].as_u64()).collect();
    assert_eq!(copies, [Some(3), Some(9), Some(5)]);
    assert_eq!(json["replication"]["from"], "assumed");
    let text = show::text(&report);
    assert!(text.contains("replicas are assumed"), "{text}");
    // Statements without a data centre are asked alike in all.
    let options = ["--replication", TWO];
    let report = advise(&args(&workload, &rows, &options)).expect("valid");
    let all = &json::json(&report)["arrangements"];
    assert_eq!(all[0]["cost_us_in"]["dc1"], all[0]["cost_us_in"]["dc2"]);
    let error = |statements: &str, options: &[&str]| {
        let (workload, rows) = files(folder.path(), statements);
        let refused = advise(&args(&workload, &rows, options)).map(|_| ());
        format!("{:#}", refused.expect_err("something is wrong"))
    };
    let elsewhere = "{'class': 'NetworkTopologyStrategy', 'dc1': 3}";
    let everywhere = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}";
    for (found, wanted) in [
        (
            error(APART, &[]),
            "line 2: the table is not known to have replicas in the data centre dc1",
        ),
        (
            error(APART, &["--replication", elsewhere]),
            "line 3: the table is not known to have",
        ),
        (
            error(PAPER, &["--replication", everywhere]),
            "does not name the data centres",
        ),
        (
            error(PAPER, &["--replication", TWO, "--copies-max", "5"]),
            "leaves nothing for layouts",
        ),
    ] {
        assert!(found.contains(wanted), "{found:?} does not say {wanted:?}");
    }
    let both = ["--replication", TWO, "--table-replicas", "3"];
    let line = ["advise", "--workload", "a", "--rows", "b"];
    assert!(Cli::try_parse_from([&line[..], &both].concat()).is_err());
}
