//! How much of a page is made by the parts that have come.

/// An answer to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub rows: usize,
    /// It has more rows than it was asked for: there is a paging state behind these.
    pub goes_on: bool,
}

/// The parts at the front of a page that make it, as far as they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    /// How many parts are used, all of their rows.
    pub parts: usize,
    pub then: Then,
}

/// How the page goes on behind the parts that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// There is nothing behind them.
    End,
    /// With the rows behind the last one's paging state, unless it is full.
    Engine,
    /// With just the rows that are missing, from where the last one ends.
    Rows,
}

/// The parts that make up a page of `wanted` rows, as soon as those that have come decide it; `None`
/// until then. `to_end`: nothing is asked for behind the last part.
pub(crate) fn front(
    parts: impl Iterator<Item = Option<Came>>,
    wanted: usize,
    to_end: bool,
) -> Option<Front> {
    let (mut used, mut rows) = (0, 0);
    for came in parts {
        let came = came?;
        rows += came.rows;
        // A full page needs a paging state, and a part that has come to its end has none.
        let fits = rows < wanted || (rows == wanted && came.goes_on);
        if !fits {
            let then = Then::Rows;
            return Some(Front { parts: used, then });
        }
        used += 1;
        if came.goes_on {
            let then = Then::Engine;
            return Some(Front { parts: used, then });
        }
    }
    let then = if to_end { Then::End } else { Then::Rows };
    Some(Front { parts: used, then })
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: bool = true;

    fn check(parts: &[Option<(usize, bool)>], to_end: bool, expected: Option<(usize, Then)>) {
        let came =
            |part: &Option<(usize, bool)>| part.map(|(rows, goes_on)| Came { rows, goes_on });
        let expected = expected.map(|(parts, then)| Front { parts, then });
        let found = front(parts.iter().map(came), 100, to_end);
        assert_eq!(found, expected, "{parts:?}");
    }

    #[test]
    fn a_page_ends_with_all_of_its_parts_or_with_what_is_behind_them() {
        let parts = [Some((40, false)), Some((0, false)), Some((50, false))];
        check(&parts, END, Some((3, Then::End)));
        check(&parts, !END, Some((3, Then::Rows)));
        check(&parts[..2], !END, Some((2, Then::Rows)));
        check(&[Some((40, false)), None], END, None);
    }

    #[test]
    fn a_part_that_is_the_whole_page_needs_none_of_the_others() {
        let parts = [Some((100, true)), None, None];
        check(&parts, END, Some((1, Then::Engine)));
        check(
            &[Some((0, false)), Some((100, true))],
            END,
            Some((2, Then::Engine)),
        );
    }

    #[test]
    fn rows_beyond_the_page_leave_the_whole_parts_in_front() {
        let parts = [Some((60, false)), Some((100, true)), None];
        check(&parts, !END, Some((1, Then::Rows)));
        let parts = [Some((60, false)), Some((41, false)), Some((9, false))];
        check(&parts, END, Some((1, Then::Rows)));
    }

    #[test]
    fn a_full_page_without_a_paging_state_is_asked_for_one() {
        check(
            &[Some((60, false)), Some((40, false))],
            END,
            Some((1, Then::Rows)),
        );
        check(&[Some((100, false)), None], END, Some((0, Then::Rows)));
    }

    #[test]
    fn a_short_part_with_a_paging_state_is_gone_on_from() {
        check(
            &[Some((60, false)), Some((10, true)), None],
            END,
            Some((2, Then::Engine)),
        );
    }
}
