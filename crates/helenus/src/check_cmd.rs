//! `helenus check`.

use std::net::IpAddr;
use std::process::ExitCode;

use clap::Args;
use helenus_console::cells::{json_lines, print_error, printable, printable_lines};
use helenus_console::settings::Settings;
use helenus_proxy::{CheckReport, CheckedReport, Explanation, Question};

/// Exit codes: 0 no problems, 1 problems found, 2 the settings cannot be read or the statement cannot be explained.
#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print the settings in force as TOML, and do nothing else.
    #[arg(long)]
    print_config: bool,
    /// Explain what a statement would meet: what it is to Helenus, how it is carried out, and which rules it
    /// matches. It is not carried out.
    #[arg(long, value_name = "CQL")]
    explain: Option<String>,
    #[command(flatten)]
    asker: Asker,
}

/// Who would ask. Of what is left out, rules that name it are shown with for whom they are.
#[derive(Args)]
struct Asker {
    /// The role that would ask.
    #[arg(long, requires = "explain")]
    role: Option<String>,
    /// Where it would ask from.
    #[arg(long, requires = "explain", value_name = "ADDRESS")]
    client: Option<IpAddr>,
    /// The application that it would say it is.
    #[arg(long, requires = "explain", value_name = "NAME")]
    application: Option<String>,
    /// The driver that it would say it is.
    #[arg(long, requires = "explain", value_name = "NAME")]
    driver: Option<String>,
    /// The keyspace in force.
    #[arg(long, requires = "explain")]
    keyspace: Option<String>,
    /// The consistency level [default: ONE].
    #[arg(long, requires = "explain", value_name = "LEVEL")]
    consistency: Option<String>,
}

impl Asker {
    fn asks(self, text: String) -> Question {
        Question {
            text,
            keyspace: self.keyspace,
            role: self.role,
            client: self.client,
            application: self.application,
            driver: self.driver,
            consistency: self.consistency,
        }
    }
}

pub(crate) fn run(args: CheckArgs) -> ExitCode {
    let question = args.explain.map(|text| args.asker.asks(text));
    let report = args.settings.load().and_then(|config| {
        if args.print_config {
            print!("{}", helenus_console::settings::to_toml(&config)?);
            return Ok(None);
        }
        helenus_proxy::check(&config, question.as_ref()).map(Some)
    });
    let report = match report {
        Ok(Some(report)) => report,
        Ok(None) => return ExitCode::SUCCESS,
        Err(e) => {
            print_error(&e);
            return ExitCode::from(2);
        }
    };
    if args.json {
        match json_lines(&report) {
            Ok(text) => println!("{text}"),
            Err(e) => print_error(&e),
        }
    } else {
        let about = match &report.explanation {
            Some(explanation) => explained(explanation),
            None => about_cluster(&report),
        };
        print!(
            "{}{}",
            printable_lines(&about),
            printable_lines(&findings(&report))
        );
    }
    if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The cluster and its nodes, for people. A node's own findings are on its line and nowhere else.
fn about_cluster(report: &CheckReport) -> String {
    let mut lines = Vec::new();
    if let Some(name) = &report.cluster_name {
        let protocol = report.protocol.unwrap_or(0);
        lines.push(format!("cluster {name:?}, protocol v{protocol}"));
    }
    for node in &report.nodes {
        let state = if node.reachable {
            "reachable"
        } else {
            "NOT REACHABLE"
        };
        let processors = match node.processors {
            Some(number) => format!("{number} processors, "),
            None => String::new(),
        };
        let said = [&node.address, &node.release_version, &node.dc, &node.rack];
        let [address, release_version, dc, rack] = said.map(|text| printable(text));
        lines.push(format!(
            "  {address}  {release_version}  {dc}/{rack}  {processors}{state}"
        ));
        lines.extend(
            node.report
                .as_ref()
                .map(|report| format!("    {}", resources(report))),
        );
    }
    if let Some(layouts) = &report.layouts {
        lines.push(format!(
            "  layouts: {} ready, {} only written",
            layouts.ready, layouts.writing
        ));
    }
    if let Some(columns) = &report.encoded_columns {
        let counts = columns
            .iter()
            .map(|(state, count)| format!("{count} {state}"));
        lines.push(format!(
            "  columns in the catalogue of encoded ones, by state: {}",
            counts.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn findings(report: &CheckReport) -> String {
    let problems = report
        .problems
        .iter()
        .map(|problem| format!("problem: {problem}\n"));
    let advice = report
        .advice
        .iter()
        .map(|advice| format!("advice: {advice}\n"));
    let mut text: String = problems.chain(advice).collect();
    if report.problems.is_empty() {
        text.push_str("nothing wrong\n");
    }
    text
}

/// The rules and limits that a statement would meet, for people.
fn explained(explanation: &Explanation) -> String {
    let Explanation {
        kind,
        tables,
        class,
        rule_classes,
        route,
        is_idempotent,
        execution,
        notes,
        rules,
        outcome,
    } = explanation;
    let again = match is_idempotent {
        true => "idempotent: sent again, or to a second node, where that helps",
        false => "not idempotent: never sent again once a node may have carried it out",
    };
    let mut lines = vec![
        ("statement", format!("{kind}, {again}")),
        ("tables", or_none(tables)),
        (
            "class",
            format!("{class}; to rules: {}", or_none(rule_classes)),
        ),
        ("goes", route.clone()),
        ("carried out", execution.clone()),
    ];
    lines.extend(notes.iter().map(|note| ("note", note.clone())));
    for rule in rules {
        let mut does = rule.does.join("; ");
        if rule.is_tried_out {
            does = format!("{does} (tried out: it only counts)");
        }
        let only_for = match rule.only_for.is_empty() {
            true => String::new(),
            false => format!(" (for {})", rule.only_for.join(", ")),
        };
        lines.push(("rule", format!("{:?}{only_for}: {does}", rule.name)));
    }
    lines.push(("outcome", outcome.clone()));
    let line = |(what, text): &(&str, String)| format!("{what:<12} {text}\n");
    lines.iter().map(line).collect()
}

fn or_none(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

/// The report of a node's agent, on one line.
fn resources(report: &CheckedReport) -> String {
    let share = |share: Option<f32>| match share {
        Some(share) => format!("{:.0} %", 100.0 * share),
        None => "unknown".to_owned(),
    };
    let of = &report.resources;
    format!(
        "reports {} ms ago: CPU {} of {} cores, heap {}, disk {}, {} reads waiting, {} compactions",
        report.age_ms,
        share(of.cpu),
        of.cores,
        share(report.memory),
        share(of.disk),
        of.read_pending,
        of.compactions_pending,
    )
}

#[cfg(test)]
mod tests {
    use helenus_proxy::CheckedNode;

    use super::*;

    #[test]
    fn no_terminal_obeys_what_nodes_say() {
        let said = "\u{1b}[31mdc\u{9b}2J\nproblem: none";
        let report = CheckReport {
            advice: vec![format!("a node says {said}")],
            cluster_name: Some(said.to_owned()),
            nodes: vec![CheckedNode {
                address: "10.0.0.1:9042".to_owned(),
                dc: said.to_owned(),
                rack: "r".to_owned(),
                release_version: "5.0.6".to_owned(),
                processors: None,
                reachable: true,
                report: None,
            }],
            ..CheckReport::default()
        };
        let text = printable_lines(&about_cluster(&report)) + &printable_lines(&findings(&report));
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(about_cluster(&report).lines().count() == 2, "{text}");
        let json = json_lines(&report).expect("JSON");
        assert!(
            json.chars().all(|c| c == '\n' || !c.is_control()),
            "{json:?}"
        );
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["nodes"][0]["dc"], said);
    }
}
