use super::*;
use crate::report::html::page;
use anyhow::bail;

/// Nodes on which nothing goes wrong but what is said.
#[derive(Default)]
struct Modelled {
    done: Vec<String>,
    is_layout_there: bool,
    is_replica_there: bool,
    /// The commands that bring back nothing.
    in_vain: Vec<&'static str>,
    /// Removing its files leaves a node with its rows.
    keeps_rows: bool,
    rows: Vec<u64>,
}

impl Modelled {
    fn of(experiment: &Layouts) -> Self {
        Self {
            rows: experiment.orders.counts(0..experiment.filled()),
            is_layout_there: true,
            is_replica_there: true,
            ..Self::default()
        }
    }

    fn restores(&self, by: &str) -> bool {
        !self.in_vain.contains(&by)
    }

    fn all(&self) -> u64 {
        self.rows.iter().sum()
    }
}

impl Losses for Modelled {
    fn settle(&mut self) -> Result<()> {
        self.done.push("settle".into());
        Ok(())
    }

    fn lose_layout(&mut self, layout: &str) -> Result<u64> {
        self.done.push(format!("lose {layout}"));
        self.is_layout_there = false;
        Ok(1000)
    }

    fn lose_replica(&mut self, table: &str) -> Result<u64> {
        self.done.push(format!("lose {table}"));
        self.is_replica_there = self.keeps_rows;
        Ok(2000)
    }

    fn own_rows(&mut self, _: &str, branch: i32) -> Result<u64> {
        let rows = self.rows[branch as usize];
        Ok(if self.is_replica_there { rows } else { 0 })
    }

    async fn rebuild(&mut self, table: &str) -> Result<Rebuilt> {
        self.done.push(format!("rebuild {table}"));
        self.is_layout_there = self.restores("rebuild");
        Ok(Rebuilt {
            rows: self.all(),
            filling: Duration::from_millis(1),
        })
    }

    async fn repair(&mut self, table: &str) -> Result<()> {
        self.done.push(format!("repair {table}"));
        self.is_replica_there = self.restores("repair");
        Ok(())
    }

    async fn verify(&mut self, table: &str) -> Result<u64> {
        self.done.push(format!("verify {table}"));
        match self.is_layout_there {
            true => Ok(self.all()),
            false => bail!("they differ"),
        }
    }
}

fn of_recovery() -> Layouts {
    let mut experiment = experiment();
    experiment.copies.truncate(2);
    experiment.copies[1].derived = Some(Derived::Together(2));
    experiment.arms.retain(|arm| arm.writes && arm.copies < 2);
    experiment.measured_rows = 0;
    experiment
}

fn empty_report() -> Report {
    Report::new("layouts", "x".into(), Machine::here("/".as_ref()), 2)
}

#[tokio::test]
async fn each_round_loses_and_restores_both_in_turn_and_looks_whether_they_are_whole() {
    let experiment = of_recovery();
    experiment.check_recovery().unwrap();
    let (mut modelled, mut report) = (Modelled::of(&experiment), empty_report());
    let say = &mut |_: String| ();
    let recovered = experiment.recover(&mut modelled, &mut report, say);
    recovered.await.unwrap();
    let layout = [
        "settle",
        "lose Layouts__layouts.orders__layout_a",
        "rebuild Layouts.orders",
    ];
    let replica = ["settle", "lose Plain.orders", "repair Plain.orders"];
    let check = ["verify Layouts.orders"];
    let expected = [&layout[..], &replica, &check, &replica, &layout, &check];
    assert_eq!(modelled.done, expected.concat());
    for (by, lost) in [(REBUILD, 1000.0), (REPAIR, 2000.0)] {
        let phases = report.phases(by, RECOVERY);
        assert_eq!(phases.len(), 2, "{by}");
        let rows = experiment.orders.rows.len() as u64;
        assert!(phases.iter().all(|phase| phase.ops == rows), "{by}");
        assert!(phases.iter().all(|phase| phase.extra[LOST_BYTES] == lost));
    }
    assert!(
        RECOVERY_KEYS
            .iter()
            .all(|key| report.ratios.contains_key(*key))
    );
}

#[tokio::test]
async fn what_was_not_lost_or_is_not_restored_ends_the_run() {
    let experiment = of_recovery();
    type Spoil = fn(&mut Modelled);
    let cases: [(Spoil, &str); 3] = [
        (|modelled| modelled.keeps_rows = true, "has kept rows"),
        (
            |modelled| modelled.in_vain = vec!["repair"],
            "after the repair",
        ),
        (|modelled| modelled.in_vain = vec!["rebuild"], "differ"),
    ];
    for (spoil, expected) in cases {
        let (mut modelled, mut report) = (Modelled::of(&experiment), empty_report());
        spoil(&mut modelled);
        let say = &mut |_: String| ();
        let recovered = experiment.recover(&mut modelled, &mut report, say);
        let error = recovered.await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_round_for_which_no_time_is_left_is_left_out() {
    let mut experiment = of_recovery();
    experiment.until = Some(Instant::now());
    let (mut modelled, mut report) = (Modelled::of(&experiment), empty_report());
    let say = &mut |_: String| ();
    let recovered = experiment.recover(&mut modelled, &mut report, say);
    recovered.await.unwrap();
    assert_eq!(report.phases(REBUILD, RECOVERY).len(), 1);
    assert!(report.notes.iter().any(|note| note.contains("round 2")));
}

#[test]
fn the_rebuild_is_compared_with_the_repair_round_by_round() {
    let experiment = of_recovery();
    let mut report = empty_report();
    let s = Duration::from_secs;
    for (rebuild, filling, repair) in [(30, 10.0, 20), (90, 20.0, 40)] {
        let mut phase = super::super::recovery::restored(s(rebuild), 100, 5);
        phase.extra.insert(FILLING_SECONDS.into(), filling);
        report.add(REBUILD, RECOVERY, phase);
        report.add(
            REPAIR,
            RECOVERY,
            super::super::recovery::restored(s(repair), 100, 5),
        );
    }
    experiment.compare_recovery(&mut report);
    let [whole, filling] = RECOVERY_KEYS.map(|key| report.ratios[key]);
    assert_eq!((whole.min, whole.median, whole.max), (1.5, 1.875, 2.25));
    assert_eq!((filling.min, filling.max), (0.5, 0.5));
    assert_eq!(report.phases(REPAIR, RECOVERY)[0].ops_per_second, 5.0);
    assert!(page(&report).contains("Until a lost copy is back"));
}

#[test]
fn recovery_is_of_a_table_and_of_one_derived_layout() {
    let spoiled: [fn(&mut Layouts); 4] = [
        |experiment| experiment.copies.swap(0, 1),
        |experiment| experiment.copies.truncate(1),
        |experiment| experiment.copies[1].derived = None,
        |experiment| experiment.copies[1].orders.push(vec![1, 0, 2, 3]),
    ];
    for (number, spoil) in spoiled.into_iter().enumerate() {
        let mut experiment = of_recovery();
        spoil(&mut experiment);
        assert!(experiment.check_recovery().is_err(), "{number}");
    }
}
