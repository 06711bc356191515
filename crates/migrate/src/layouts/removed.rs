//! An option that earlier versions had.

use std::convert::Infallible;

use clap::Args;

/// Taken, so that whoever still passes it learns what has become of it.
#[derive(Args, Clone, Debug)]
pub struct Removed {
    #[arg(long = "mode", hide = true, value_name = "MODE", value_parser = refuse)]
    _mode: Option<Infallible>,
}

fn refuse(mode: &str) -> Result<Infallible, String> {
    Err(match mode {
        "add" => "there is one kind of layouts, further copies of their table: leave --mode out".to_owned(),
        _ => "copies in place of a table's replicas were removed: leave --mode out for layouts, which are further \
              copies of their table"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        _removed: Removed,
    }

    #[test]
    fn whoever_passes_a_mode_is_told_what_to_do() {
        assert!(Cli::try_parse_from(["create"]).is_ok());
        for (mode, told) in [("replace", "were removed"), ("add", "one kind of layouts")] {
            let refused = Cli::try_parse_from(["create", "--mode", mode]).expect_err(mode);
            let refused = refused.to_string();
            assert!(
                refused.contains(told) && refused.contains("leave --mode out"),
                "{refused}"
            );
        }
    }
}
