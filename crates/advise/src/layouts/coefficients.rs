//! Files with coefficients of the cost model, as `helenus layouts calibrate` writes them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use helenus_layout::Coefficients;
use serde::{Deserialize, Serialize};

/// Nothing that a node does for a row or a request takes longer: a minute.
const US_MAX: f64 = 6e7;
/// On a typical node.
const WRITE_ROW_US: f64 = 50.0;

/// Costs of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    pub coefficients: Coefficients,
    /// To write a row, in a batch with others of its partition.
    pub write_row_us: f64,
    pub source: Source,
}

/// Where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Typical,
    Calibrated,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            coefficients: Coefficients::default(),
            write_row_us: WRITE_ROW_US,
            source: Source::Typical,
        }
    }
}

/// As in the file, in microseconds. It has further fields, for people.
#[derive(Deserialize)]
struct File {
    coefficients: Named,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    request_us: f64,
    slice_us: f64,
    row_us: f64,
    kept_us: f64,
    block_us: f64,
    compare_us: f64,
    write_row_us: f64,
}

impl Named {
    pub(super) fn new(coefficients: &Coefficients, write_row_us: f64) -> Named {
        let [request_us, slice_us, row_us, kept_us, block_us, compare_us] = coefficients.values();
        Named {
            request_us,
            slice_us,
            row_us,
            kept_us,
            block_us,
            compare_us,
            write_row_us,
        }
    }

    fn checked(&self) -> Result<Costs> {
        let values = [
            self.request_us,
            self.slice_us,
            self.row_us,
            self.kept_us,
            self.block_us,
            self.compare_us,
        ];
        let names = Coefficients::NAMES.into_iter().chain(["write_row_us"]);
        for (name, value) in names.zip(values.into_iter().chain([self.write_row_us])) {
            if !(0.0..=US_MAX).contains(&value) {
                bail!("{name} is {value}, and must be a number from 0 to {US_MAX:.0}");
            }
        }
        if self.request_us + self.row_us <= 0.0 {
            bail!("neither a request nor a row costs anything, so all layouts would be as good");
        }
        Ok(Costs {
            coefficients: Coefficients::of_values(values),
            write_row_us: self.write_row_us,
            source: Source::Calibrated,
        })
    }
}

/// Reads a file; without one, those of a typical node.
pub fn load(path: Option<&Path>) -> Result<Costs> {
    let Some(path) = path else {
        return Ok(Costs::default());
    };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    parse(&text).with_context(|| {
        format!(
            "{shown} is no file of coefficients: make one with helenus layouts calibrate --out FILE"
        )
    })
}

fn parse(text: &str) -> Result<Costs> {
    let file: File = serde_json::from_str(text)?;
    file.coefficients.checked()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(coefficients: &str) -> String {
        format!("{{\"cassandra\": \"5.0.6\", \"coefficients\": {{{coefficients}}}}}")
    }

    const GOOD: &str = "\"request_us\": 400, \"slice_us\": 10.5, \"row_us\": 2, \"kept_us\": 3, \"block_us\": 0, \
                        \"compare_us\": 0.02, \"write_row_us\": 30";

    #[test]
    fn what_is_written_is_read() {
        let costs = parse(&file(GOOD)).expect("valid");
        let expected = Coefficients::of_values([400.0, 10.5, 2.0, 3.0, 0.0, 0.02]);
        assert_eq!(costs.coefficients, expected);
        assert_eq!(
            (costs.write_row_us, costs.source),
            (30.0, Source::Calibrated)
        );
        let named = Named::new(&costs.coefficients, costs.write_row_us);
        let again = serde_json::json!({ "coefficients": named }).to_string();
        assert_eq!(parse(&again).expect("valid"), costs);
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        for (text, why) in [
            (String::new(), "EOF"),
            ("CREATE TABLE t (".to_owned(), "expected value"),
            ("{}".to_owned(), "missing field `coefficients`"),
            (file("\"request_us\": 1"), "missing field"),
            (
                file(&GOOD.replace("\"row_us\": 2", "\"row_us\": -2")),
                "row_us is -2",
            ),
            (
                file(&GOOD.replace("400", "1e9")),
                "request_us is 1000000000",
            ),
            (file(&GOOD.replace("400", "\"fast\"")), "invalid type"),
            (file(&GOOD.replace("400", "null")), "invalid type"),
            (
                file(&GOOD.replace("slice_us", "slices_us")),
                "unknown field",
            ),
            (
                file(
                    &GOOD
                        .replace("400", "0")
                        .replace("\"row_us\": 2", "\"row_us\": 0"),
                ),
                "neither a request nor a row",
            ),
        ] {
            let error = parse(&text).map(|costs| format!("{costs:?}"));
            let error = format!("{:#}", error.expect_err(&text));
            assert!(error.contains(why), "{error:?} does not say {why:?}");
        }
        let missing = load(Some(Path::new("/nowhere/costs.json"))).expect_err("there is none");
        assert!(
            missing
                .to_string()
                .contains("cannot read /nowhere/costs.json"),
            "{missing}"
        );
        assert_eq!(load(None).expect("typical"), Costs::default());
    }
}
