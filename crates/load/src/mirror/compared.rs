//! Answers of an endpoint beside those that the proxy's clients got, of which only sizes and errors are known.

use helenus_capture::Answer;

use crate::replay::answers::{Compared, Got, Read};

/// How they compare: [`Compared::Different`] if they have different sizes. None if nobody can tell: a paging state,
/// which is part of the answer, has a size of its own in each cluster, and so has a description of columns that have
/// changed.
pub(crate) fn compare_with_client(client: &Answer, read: &Read) -> Option<Compared> {
    let error = client.error.map(|code| code as i32);
    match (error, &read.got) {
        (Some(one), Got::Error(other)) if one == *other => Some(Compared::Same),
        (Some(_), _) | (None, Got::Error(_) | Got::Nothing(_)) => Some(Compared::Failed),
        (None, Got::Rows(_) | Got::Done) if read.has_new_metadata => None,
        (None, Got::Rows(_) | Got::Done) => match &read.state {
            Some(_) => None,
            None if client.bytes == read.bytes => Some(Compared::Same),
            None => Some(Compared::Different),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_errors_are_compared_where_they_say_something() {
        let client = |bytes, error| Answer {
            took_us: 1,
            bytes,
            error,
        };
        let read = |got, bytes, has_more: bool| Read {
            bytes,
            state: has_more.then(Vec::new),
            ..Read::of(got)
        };
        let (ok, overloaded, timeout) = (None, Some(0x1001), Some(0x1200));
        for (client, read, compared) in [
            (
                client(70, ok),
                read(Got::Done, 70, false),
                Some(Compared::Same),
            ),
            (
                client(70, ok),
                read(Got::Done, 71, false),
                Some(Compared::Different),
            ),
            (client(70, ok), read(Got::Done, 71, true), None),
            (
                client(70, ok),
                read(Got::Error(0x1001), 70, false),
                Some(Compared::Failed),
            ),
            (
                client(70, ok),
                read(Got::Nothing("x"), 0, false),
                Some(Compared::Failed),
            ),
            (
                client(9, overloaded),
                read(Got::Done, 9, false),
                Some(Compared::Failed),
            ),
            (
                client(9, overloaded),
                read(Got::Error(0x1001), 8, false),
                Some(Compared::Same),
            ),
            (
                client(9, timeout),
                read(Got::Error(0x1001), 9, false),
                Some(Compared::Failed),
            ),
        ] {
            assert_eq!(
                compare_with_client(&client, &read),
                compared,
                "{client:?} {read:?}"
            );
        }
        let changed = Read {
            has_new_metadata: true,
            ..read(Got::Done, 71, false)
        };
        assert_eq!(compare_with_client(&client(70, ok), &changed), None);
    }
}
