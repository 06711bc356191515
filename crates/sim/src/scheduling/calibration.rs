//! Costs, in microseconds of one core unless said otherwise. They were measured on real nodes by
//! `helenus sim calibrate`, which writes the file that is read here.

/// Declares the figures with what they mean.
macro_rules! figures {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Calibration {
            $($(#[doc = $doc])+ pub $name: f64,)*
        }

        impl Calibration {
            /// Name, meaning and value of each.
            pub fn figures(&self) -> Vec<(&'static str, String, f64)> {
                vec![$((stringify!($name), concat!($($doc),+).trim().to_owned(), self.$name),)*]
            }

            fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }

            fn unknown() -> Calibration {
                Calibration { $($name: f64::NAN,)* }
            }
        }
    };
}

figures! {
    /// One way between two processes, in microseconds, with the time that threads take to wake up.
    hop_us,
    /// A node: each request of a client, with its answer.
    coordinate_us,
    /// A node: a PREPARE.
    prepare_us,
    /// A replica: a read of one row.
    point_us,
    /// A replica: each read of a range, before its first row.
    range_us,
    /// A replica: each row of a range.
    row_us,
    /// A replica: each KiB of rows of a range.
    row_kib_us,
    /// A coordinator: each row of a range that it answers with.
    answer_row_us,
    /// A coordinator: each KiB of rows of a range that it answers with.
    answer_kib_us,
    /// Each of two nodes: a read that one of them has from the other.
    remote_us,
    /// Each of two nodes: each row of such a read.
    remote_row_us,
    /// Each of two nodes: each KiB of such a read.
    remote_kib_us,
    /// Spread of a read's time at a replica: the standard deviation of its logarithm.
    sigma,
    /// The clients: each request with its answer.
    client_request_us,
    /// The clients: each row.
    client_row_us,
    /// The clients: each KiB of rows.
    client_kib_us,
    /// A proxy: a request of a client that becomes one of a node, with the answers.
    proxy_request_us,
    /// A proxy: each row of an answer.
    proxy_row_us,
    /// A proxy: each KiB of an answer.
    proxy_kib_us,
}

impl Calibration {
    /// The one that belongs to this version.
    ///
    /// # Panics
    /// If its file is broken, which a test would have found.
    pub fn committed() -> Calibration {
        match Calibration::parse(include_str!("../../calibration.toml")) {
            Ok(calibration) => calibration,
            Err(e) => panic!("calibration.toml: {e}"),
        }
    }

    /// Reads `name = value` lines; what is behind a `#` is a comment. All figures must be there.
    pub fn parse(text: &str) -> Result<Calibration, String> {
        let mut read = Calibration::unknown();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| format!("{line}: write it as name = value"))?;
            let value: f64 = value
                .trim()
                .parse()
                .map_err(|_| format!("{line}: not a number"))?;
            if !value.is_finite() || value < 0.0 {
                return Err(format!("{line}: neither negative nor infinite, please"));
            }
            if !read.set(name.trim(), value) {
                return Err(format!("{line}: there is no such figure"));
            }
        }
        match read.figures().iter().find(|(_, _, value)| value.is_nan()) {
            Some((name, ..)) => Err(format!("{name} is missing")),
            None => Ok(read),
        }
    }

    /// As [`Calibration::parse`] reads it.
    pub fn write(&self, head: &str) -> String {
        let mut text: String = head.lines().map(|line| format!("# {line}\n")).collect();
        for (name, meaning, value) in self.figures() {
            text += &format!("\n# {meaning}\n{name} = {value:.3}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_one_can_be_read_and_written() {
        let committed = Calibration::committed();
        let again = Calibration::parse(&committed.write("two\nlines")).unwrap();
        for ((name, _, a), (_, _, b)) in committed.figures().iter().zip(again.figures()) {
            assert!((a - b).abs() < 0.001, "{name}: {a} {b}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let text = Calibration::committed().write("");
        let check = |text: &str, expected: &str| {
            let error = Calibration::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(&text.replace("\nsigma = ", "\n# "), "sigma is missing");
        check(&format!("{text}\nsigma"), "name = value");
        check(&format!("{text}\nsigma = -1"), "negative");
        check(&format!("{text}\nsigma = x"), "not a number");
        check(&format!("{text}\nomega = 1"), "no such figure");
    }
}
