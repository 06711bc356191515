use super::*;
use crate::config::Config;
use crate::conn::ConnError;
use crate::testing::process;
use helenus_engine::copy_rings::RingId;

fn upkeep() -> Upkeep {
    Upkeep::new(Arc::new(process(Config::default())))
}

fn job(copy: usize) -> Job {
    Job::Compare(CopyName {
        table: ("s".to_owned(), "t".to_owned()),
        owners: Vec::new(),
        copy,
    })
}

fn failed() -> Result<End, Trouble> {
    Err(Trouble::Catalogue(ConnError::Closed))
}

/// For how many seconds a job waits.
fn wait_s(upkeep: &Upkeep, job: &Job) -> Option<u64> {
    let wait = upkeep.waits.get(job)?;
    Some(wait.until_us.saturating_sub(now_us()).div_ceil(1_000_000))
}

#[test]
fn a_turn_that_comes_no_further_does_not_begin_the_pauses_anew() {
    let (mut upkeep, job) = (upkeep(), job(2));
    for expected in [1, 2, 4] {
        upkeep.note_end(&job, failed());
        assert_eq!(wait_s(&upkeep, &job), Some(expected));
        let has_advanced = false;
        upkeep.note_end(&job, Ok(End::Goes { has_advanced }));
    }
    let has_advanced = true;
    upkeep.note_end(&job, Ok(End::Goes { has_advanced }));
    assert_eq!((wait_s(&upkeep, &job), upkeep.problems.len()), (None, 0));
    upkeep.note_end(&job, failed());
    assert_eq!(wait_s(&upkeep, &job), Some(1));
}

#[test]
fn what_was_given_up_is_looked_at_again_after_minutes_and_logged_once() {
    let (mut upkeep, job) = (upkeep(), job(2));
    let later = || Ok(End::Later(300_000_000, Some("3 rows".to_owned())));
    upkeep.note_end(&job, later());
    assert_eq!(wait_s(&upkeep, &job), Some(300));
    assert!(upkeep.problems[&job].contains("3 rows"));
    let logged = upkeep.logged.clone();
    let has_advanced = true;
    upkeep.note_end(&job, Ok(End::Goes { has_advanced }));
    assert_eq!(upkeep.logged, logged);
    upkeep.note_end(&job, Ok(End::Done));
    assert!(upkeep.logged.is_empty() && upkeep.problems.is_empty());
}

#[test]
fn what_waits_for_a_node_was_not_tried() {
    let (mut upkeep, job) = (upkeep(), job(2));
    for _ in 0..5 {
        upkeep.note_end(&job, Err(Trouble::Unreachable([7; 16])));
        assert_eq!(wait_s(&upkeep, &job), Some(1));
    }
    assert_eq!(upkeep.waits[&job].failures, 0);
}

#[test]
fn every_second_turn_is_for_a_copy_that_comes_back() {
    let mut upkeep = upkeep();
    let mut due: Vec<Job> = (0..9).map(Job::MakeGood).collect();
    due.extend([job(1), job(2)]);
    due.sort_unstable();
    let mut turns = Vec::new();
    for _ in 0..6 {
        let next = upkeep.next(&due).expect("one is due");
        upkeep.was_comeback = next.is_comeback();
        upkeep.last[usize::from(next.is_comeback())] = Some(next.clone());
        turns.push(next);
    }
    let [a, b, c] = [0, 1, 2].map(Job::MakeGood);
    assert_eq!(turns, [job(1), a, job(2), b, job(1), c]);
    assert_eq!(upkeep.next(&[job(2)]), Some(job(2)), "nothing else is due");
    assert_eq!(upkeep.next(&[]), None);
}

#[test]
fn a_bucket_that_cannot_be_made_equal_waits_and_is_not_read_row_by_row() {
    let mut upkeep = upkeep();
    let unfit = || Err(Trouble::Unfit("3 rows".to_owned()));
    for (job, expected) in [(Job::MakeGood(7), 300), (Job::LookAtLast([1; 16]), 10)] {
        for _ in 0..3 {
            upkeep.note_end(&job, unfit());
            assert_eq!(wait_s(&upkeep, &job), Some(expected));
        }
        upkeep.note_end(&job, Err(Trouble::Changed));
        assert_eq!(upkeep.waits[&job].of_nodes, 0);
    }
}

#[test]
fn who_is_not_the_caretaker_for_a_moment_goes_on_where_it_was() {
    let mut upkeep = upkeep();
    for job in [job(2), Job::MakeGood(7)] {
        upkeep.note_end(&job, Ok(End::Later(300_000_000, Some("3 rows".to_owned()))));
    }
    upkeep.retain(&[]);
    assert_eq!(wait_s(&upkeep, &job(2)), Some(300));
    assert_eq!((upkeep.waits.len(), upkeep.problems.len()), (1, 0));
    upkeep.status.is_caretaker = true;
    upkeep.retain(&[]);
    assert!(upkeep.waits.is_empty() && upkeep.logged.is_empty());
}

#[test]
fn buckets_with_values_that_expire_are_looked_at_again_a_few_times() {
    let (mut upkeep, job) = (upkeep(), Job::MakeGood(7));
    let expiring = Counts {
        expiring: 1,
        ..Counts::default()
    };
    let mut again = |counts| upkeep.is_to_be_looked_at_again(&job, counts);
    assert!(!again(Counts::default()));
    assert_eq!([(); 4].map(|()| again(expiring)), [true, true, true, false]);
}

#[test]
fn after_failures_fewer_rows_are_asked_for() {
    let rows = [0, 1, 2, 3, 40].map(page_rows_max);
    assert_eq!(rows, [1_000, 31, 1, 1, 1]);
}

fn regroup() -> Job {
    Job::Regroup(("s".to_owned(), "t".to_owned()), RingId::default())
}

#[test]
fn lists_that_are_missing_are_made_before_anything_else() {
    let mut upkeep = upkeep();
    let mut due = vec![regroup(), job(1), job(2), Job::Look];
    due.sort_unstable();
    for was_comeback in [false, true] {
        upkeep.was_comeback = was_comeback;
        upkeep.last = [Some(Job::Look), Some(job(1))];
        assert_eq!(upkeep.next(&due), Some(regroup()));
    }
    due.retain(|job| !job.is_regroup());
    assert_eq!(upkeep.next(&due), Some(Job::Look));
    // One that fails slowly, of two tables, lets others have their turns.
    upkeep.has_not_regrouped = true;
    assert_eq!(upkeep.next(&[regroup(), Job::Look]), Some(Job::Look));
    assert_eq!(upkeep.next(&[regroup()]), Some(regroup()));
}

#[test]
fn lists_that_are_missing_are_tried_again_soon_unless_the_ring_does_not_allow_them() {
    for (why, longest_s) in [
        (|| Trouble::Changed, 2),
        (|| Trouble::Catalogue(ConnError::Closed), 2),
        (|| Trouble::Unfit("no copy".to_owned()), 60),
    ] as [(fn() -> Trouble, u64); 3]
    {
        let mut upkeep = upkeep();
        let waits: Vec<Option<u64>> = (0..8)
            .map(|_| {
                upkeep.note_end(&regroup(), Err(why()));
                wait_s(&upkeep, &regroup())
            })
            .collect();
        assert_eq!(
            (waits[0], waits[7]),
            (Some(1), Some(longest_s)),
            "{waits:?}"
        );
    }
}

#[test]
fn the_table_itself_is_compared_and_joins_only_by_a_command() {
    let upkeep = upkeep();
    let table = ("s".to_owned(), "t".to_owned());
    let ranges = helenus_layout::insync::Ranges::new([(0, 10)]);
    let owners = vec![[1; 16], [2; 16]];
    let owned = super::super::rings::Owned {
        ring: RingId::default(),
        groups: [(owners.clone(), ranges.clone())].into(),
    };
    let rings: OwnedOfTables = [(table.clone(), owned)].into();
    let jobs = |list: helenus_layout::insync::Copies| {
        let mut known = helenus_layout::insync::Known::new(TIMING);
        known.adopt(list, 0, 0);
        let lists = Lists {
            copies: vec![CopiesOf {
                keyspace: table.0.clone(),
                table: table.1.clone(),
                owners: owners.clone(),
                ranges: Some(ranges.clone()),
                known,
                joins: Vec::new(),
            }],
            ..Lists::default()
        };
        let mut jobs = upkeep.jobs(&lists, &rings);
        jobs.retain(Job::is_comeback);
        jobs
    };
    let of = |copy| CopyName {
        table: table.clone(),
        owners: owners.clone(),
        copy,
    };
    let alone = helenus_layout::insync::Members::of(TABLE);
    let alone = helenus_layout::insync::Copies::new(alone, [0; 6]);
    assert_eq!(jobs(alone), [Job::Join(of(0)), Job::Join(of(1))]);
    let both = alone.join(0, 1).and_then(|list| list.promote(0, 2));
    let out = both
        .and_then(|list| list.evict(TABLE))
        .expect("one is in sync");
    assert_eq!(jobs(out), [Job::Join(of(1))]);
    let joins = out.join(TABLE, 0).expect("it is out");
    let compare = Job::Compare(of(TABLE));
    assert_eq!(jobs(joins), [Job::Join(of(1)), compare.clone()]);
    assert_eq!(
        compare.described(),
        "the table s.t itself cannot be compared"
    );
}
