use super::*;

fn row(cells: &[(usize, i64, i32)]) -> Row {
    let cells = cells.iter().map(|&(column, timestamp, ttl)| Cell {
        column,
        element: None,
        value: timestamp.to_be_bytes().to_vec(),
        timestamp: Some(timestamp),
        ttl,
    });
    Row {
        partition: vec![Some(vec![1])],
        clustering: Some(vec![Some(vec![2])]),
        cells: cells.collect(),
    }
}

#[test]
fn a_value_that_a_busy_row_misses_is_the_same_difference_at_each_look() {
    // Column 0 is written all the time, and caught in between; column 1 is missing.
    let first = differing(
        Some(&row(&[(0, 5, 0), (1, 1, 90)])),
        Some(&row(&[(0, 4, 0)])),
    );
    let second = differing(
        Some(&row(&[(0, 9, 0), (1, 1, 89)])),
        Some(&row(&[(0, 8, 0)])),
    );
    let both: Vec<&Part> = first.iter().filter(|part| second.contains(part)).collect();
    let missing = row(&[(1, 1, 0)]).cells.remove(0);
    let missing = Part::Cell {
        is_own: true,
        cell: missing,
    };
    assert_eq!(both, [&missing]);
}

#[test]
fn rows_differ_but_for_what_is_about_to_expire() {
    let (bare, one, soon) = (row(&[]), row(&[(0, 5, 0)]), row(&[(0, 5, 3)]));
    let are_same = |own: Option<&Row>, copy: Option<&Row>| differing(own, copy).is_empty();
    for (own, copy) in [
        (None, None),
        (Some(&one), Some(&one)),
        (Some(&one), Some(&soon)),
        (Some(&soon), None),
        (Some(&bare), Some(&soon)),
        (Some(&bare), Some(&bare)),
    ] {
        assert!(
            are_same(own, copy) && are_same(copy, own),
            "{own:?} {copy:?}"
        );
    }
    for (own, copy) in [
        (Some(&bare), None),
        (Some(&one), None),
        (Some(&bare), Some(&one)),
        (Some(&row(&[(0, 6, 3)])), Some(&one)),
    ] {
        assert!(
            !are_same(own, copy) && !are_same(copy, own),
            "{own:?} {copy:?}"
        );
    }
}
