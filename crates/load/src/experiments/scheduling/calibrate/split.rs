//! Costs of the coordinator, of the replica, of a row and of its bytes.

/// A cost measured with the coordinator's own rows, and with another's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both {
    pub local_us: f64,
    pub coordinator_us: f64,
    pub replica_us: f64,
}

/// How it is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub coordinate_us: f64,
    pub read_us: f64,
    pub remote_us: f64,
}

impl Both {
    pub(super) fn per(self, less: Both, count: f64) -> Both {
        Both {
            local_us: (self.local_us - less.local_us) / count,
            coordinator_us: (self.coordinator_us - less.coordinator_us) / count,
            replica_us: (self.replica_us - less.replica_us) / count,
        }
    }

    pub(super) fn split(self) -> Split {
        let remote_us = (self.coordinator_us + self.replica_us - self.local_us) / 2.0;
        let remote_us = remote_us.max(0.0);
        Split {
            coordinate_us: (self.coordinator_us - remote_us).max(0.0),
            read_us: (self.replica_us - remote_us).max(0.0),
            remote_us,
        }
    }
}

/// The cost of each row without its bytes, and of each KiB of rows, from those of rows of two sizes.
pub(super) fn line(wide: f64, narrow: f64, [wide_kib, narrow_kib]: [f64; 2]) -> (f64, f64) {
    let kib_us = ((wide - narrow) / (wide_kib - narrow_kib)).max(0.0);
    ((narrow - kib_us * narrow_kib).max(0.0), kib_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_do_is_told_apart() {
        // c = 100, r = 70, m = 20.
        let both = Both {
            local_us: 170.0,
            coordinator_us: 120.0,
            replica_us: 90.0,
        };
        let split = both.split();
        let found = [split.coordinate_us, split.read_us, split.remote_us];
        assert_eq!(found, [100.0, 70.0, 20.0]);
        let per = both.per(
            Both {
                local_us: 70.0,
                coordinator_us: 20.0,
                replica_us: 40.0,
            },
            10.0,
        );
        assert_eq!(
            [per.local_us, per.coordinator_us, per.replica_us],
            [10.0, 10.0, 5.0]
        );
    }

    #[test]
    fn rows_and_their_bytes_are_told_apart() {
        // 3 µs for each row, and 4 for each KiB.
        assert_eq!(line(7.0, 3.5, [1.0, 0.125]), (3.0, 4.0));
        assert_eq!(line(2.0, 3.0, [1.0, 0.125]), (3.0, 0.0));
    }
}
