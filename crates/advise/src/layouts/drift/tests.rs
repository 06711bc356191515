//! Layouts in use against designs, for orders that are asked for by clerk and by day.

use clap::Parser;
use helenus_layout::{
    Effort, Objective, Options, Query, Restriction, Sample, Statistics, Value, design,
};

use super::*;

#[derive(Parser)]
struct Cli {
    /// The others conflict with it.
    #[arg(long)]
    workload: Option<String>,
    #[command(flatten)]
    args: DriftArgs,
}

fn args(more: &[&str]) -> DriftArgs {
    Cli::parse_from([&["advise"], more].concat()).args
}

/// Judges layouts in use by their clustering columns, with the best single layout beside the table
/// (day, clerk, id), which begins with the clerk.
fn judged(args: &DriftArgs, in_use: &[(&str, &str)], queries_per_s: f64) -> Result<Drift> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let table = Table::new(names(&["day", "clerk", "id"]), names(&["shop"]), Vec::new())?;
    let int = |value: i128| Value::Int(value);
    let rows = (0..4_000).map(|n| [n % 50, n * 7 % 40, n, 1].map(int).to_vec());
    let sample = Sample::new(4, rows.collect())?;
    let query = |column: usize, weight: f64, statement: usize| {
        let mut restrictions = vec![Restriction::None; 3];
        restrictions[column] = Restriction::Equal(int(3));
        restrictions.push(Restriction::Equal(int(1)));
        Query {
            restrictions,
            ordered: false,
            limit: None,
            weight,
            statement,
        }
    };
    let queries = vec![query(1, 3.0, 0), query(0, 1.0, 1)];
    let sets = SampledModel::sets(&table, queries.iter().map(Query::bound));
    let statistics = Statistics::of_sample(sample, 4_000, &sets);
    let costs = Costs::default();
    let storage = Storage::default();
    let model = SampledModel::new(&table, &statistics, queries, storage, costs.coefficients);
    let options = Options {
        replicas: 1,
        permuted: vec![0, 1, 2],
        kept: vec![Layout::own(3)],
        objective: Objective::Cost,
        effort: Effort::default(),
        anneal: None,
    };
    let design = design(&model, 3, &options).context("nothing")?;
    assert_eq!(design.layouts[0].columns().next(), Some(1), "{design:?}");
    let basis = Basis {
        table: &table,
        full_name: "shop.orders",
        model: &model,
        design: &design,
        storage,
        rows_total: 1e6,
        costs: &costs,
    };
    let entries = in_use.iter().map(|(name, clustering)| Entry {
        name: (*name).to_owned(),
        clustering: clustering.split(',').map(str::to_owned).collect(),
        ready: true,
    });
    let present = Present {
        entries: entries.collect(),
        replicas: 3,
        queries_per_s,
    };
    judge(args, present, &basis)
}

fn is_change(drift: &Drift) -> bool {
    drift.advice != Advice::Keep
}

#[test]
fn the_first_layout_pays_if_it_is_asked_for_often_enough() {
    let often = judged(&args(&[]), &[], 100.0).expect("valid");
    assert_eq!(
        (&often.build[..], often.names()),
        (&[0][..], vec!["A".to_owned()])
    );
    assert!(is_change(&often));
    let pays = often.pays_after_s().expect("it saves something");
    let now = often.comparison;
    // Three of four queries read 4,000 rows, and would read 100.
    let saved_us = now.cost_us - now.best_cost_us;
    assert!(saved_us > 0.75 * 1.1 * 3_900.0, "{saved_us}");
    assert!((pays - now.build_s / (saved_us * 100.0 / 1e6)).abs() < 1e-9);
    // On three replicas a million rows are read, written, and read twice.
    assert!(
        now.build_s > 3.0 * 50.0 && now.build_s < 3.0 * 60.0,
        "{}",
        now.build_s
    );
    let seldom = judged(&args(&[]), &[], 0.01).expect("valid");
    assert!(!is_change(&seldom));
    // A change that does not pay in a week may pay in a year.
    let patient = judged(&args(&["--horizon-days", "365"]), &[], 0.01).expect("valid");
    assert!(is_change(&patient));
    let never = judged(&args(&[]), &[], 0.0).expect("valid");
    assert_eq!((is_change(&never), never.pays_after_s()), (false, None));
}

#[test]
fn what_is_as_good_stays_and_is_not_built_again() {
    // No query tells it from (clerk, day, id).
    let drift = judged(&args(&[]), &[("x", "clerk,id,day")], 1e6).expect("valid");
    assert!(!is_change(&drift));
    assert_eq!(drift.build, [0; 0]);
    assert_eq!(drift.comparison.build_s, 0.0);
    assert_eq!(drift.names(), ["x"]);
    let stays = drift.stays[0].as_ref().expect("it is there");
    assert_eq!(stays.columns().collect::<Vec<_>>(), [1, 2, 0]);
    assert!(
        drift.in_use[0].saves_us > 0.75 * 1.1 * 3_900.0,
        "{:?}",
        drift.in_use
    );
}

#[test]
fn what_the_workload_no_longer_asks_for_is_seen() {
    let drift = judged(&args(&[]), &[("a", "id,day,clerk")], 100.0).expect("valid");
    assert!(is_change(&drift));
    assert_eq!((drift.in_use[0].saves_us, drift.in_use[0].is), (0.0, None));
    assert_eq!(
        (drift.names(), &drift.build[..]),
        (vec!["B".to_owned()], &[0][..])
    );
    // A design that is smaller than what there is saves nothing by that.
    let both = [("a", "clerk,day,id"), ("b", "id,day,clerk")];
    let larger = judged(&args(&[]), &both, 1e6).expect("valid");
    assert!(!is_change(&larger));
    assert_eq!(larger.comparison.saved_per_s(), 0.0);
    assert_eq!((larger.in_use[0].is, larger.in_use[1].is), (Some(0), None));
}

#[test]
fn with_a_file_the_saving_must_be_seen_three_times_in_a_row() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state.json");
    let remembered = args(&["--state", path.to_str().expect("UTF-8")]);
    let look = |in_use: &[(&str, &str)], per_s: f64| {
        let drift = judged(&remembered, in_use, per_s).expect("valid");
        (is_change(&drift), drift.standing.in_a_row)
    };
    assert_eq!(look(&[], 100.0), (false, 1));
    assert_eq!(look(&[], 100.0), (false, 2));
    assert_eq!(look(&[], 0.001), (false, 0));
    assert_eq!(look(&[], 100.0), (false, 1));
    assert_eq!(look(&[], 100.0), (false, 2));
    assert_eq!(look(&[], 100.0), (true, 3));
    // In between, the advice stands.
    let built = judged(&args(&[]), &[], 1.0).expect("valid").comparison;
    let even = built.build_s / (built.saved_per_s() * 7.0 * DAY_S);
    assert_eq!(look(&[], even), (true, 0));
    // Other layouts are looked at anew.
    assert_eq!(look(&[("a", "id,day,clerk")], 100.0), (false, 1));
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 1, "nothing is left beside it");
}

#[test]
fn wrong_files_and_catalogues_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state.json");
    let remembered = args(&["--state", path.to_str().expect("UTF-8")]);
    let error = |in_use: &[(&str, &str)]| match judged(&remembered, in_use, 1.0) {
        Ok(_) => panic!("it is accepted"),
        Err(error) => format!("{error:#}"),
    };
    std::fs::write(&path, "{}").expect("a temporary file");
    assert!(error(&[]).contains("was not written by"), "{}", error(&[]));
    let other = Seen::new("shop.customers", &[]);
    other
        .write(&path, Standing::default())
        .expect("a temporary file");
    assert!(
        error(&[]).contains("is about shop.customers"),
        "{}",
        error(&[])
    );
    let misfit = error(&[("a", "clerk,day")]);
    assert!(misfit.contains("layout a in the catalogue"), "{misfit}");
    let no_days = args(&["--horizon-days", "0"]).check();
    assert!(no_days.is_err_and(|e| e.to_string().contains("0.01 to 365")));
}
