//! Workload files, CSV files, and what is advised for them.

mod arrangements;

use std::path::{Path, PathBuf};

use clap::Parser;
use helenus_layout::{StatementColumn, Value};

use super::advise::{self, AdviseArgs};
use super::report::Report;
use super::{json, schema, show, values, workload};

const TABLE: &str = "CREATE TABLE shop.orders (shop int, custkey int, orderdate date, clerk text, \
     total double, tags frozen<map<text, int>>, PRIMARY KEY ((shop), custkey, orderdate, clerk)) \
     WITH CLUSTERING ORDER BY (custkey ASC, orderdate DESC) AND comment = 'x;y';\n";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: AdviseArgs,
}

fn args(workload: &Path, rows: &Path, more: &[&str]) -> AdviseArgs {
    let mut line = vec!["advise", "--workload"];
    line.extend([
        workload.to_str().expect("UTF-8"),
        "--rows",
        rows.to_str().expect("UTF-8"),
    ]);
    line.extend(more);
    Cli::parse_from(line).args
}

fn advise(args: &AdviseArgs) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(advise::advise(args))
}

/// 20,000 orders of one shop: 2,000 customers, 250 days, 40 clerks.
fn files(folder: &Path, statements: &str) -> (PathBuf, PathBuf) {
    let mut csv = String::from("clerk,shop,total,custkey,orderdate,extra\n");
    for n in 0..20_000u64 {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let (customer, clerk, day) = (mixed % 2_000, mixed / 2_000 % 40, mixed / 80_000 % 250);
        let date = format!("2024-{:02}-{:02}", 1 + day / 25, 1 + day % 25);
        csv += &format!("clerk{clerk},1,{}.5,{customer},{date},-\n", n % 97);
    }
    let (workload, rows) = (folder.join("workload.cql"), folder.join("rows.csv"));
    std::fs::write(&workload, format!("{TABLE}{statements}")).expect("a temporary file");
    std::fs::write(&rows, csv).expect("a temporary file");
    (workload, rows)
}

const PAPER: &str = "\
-- Q1 and Q2
SELECT sum(total) FROM orders WHERE shop = ? AND orderdate = ? AND clerk = ? AND custkey > 0;
3 range=0.1 SELECT sum(total) FROM shop.orders WHERE shop = ? AND custkey = ? AND clerk = ? AND orderdate > ? AND orderdate < ?
";

#[test]
fn a_table_is_read_with_its_key_types_and_directions() {
    let schema = schema::parse(TABLE.trim_end().trim_end_matches(';')).expect("valid");
    assert_eq!(schema.full_name, "shop.orders");
    let names =
        |names: &[helenus_cql::Name]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&schema.partition), ["shop"]);
    assert_eq!(names(&schema.clustering), ["custkey", "orderdate", "clerk"]);
    assert_eq!(names(&schema.descending), ["orderdate"]);
    assert_eq!(schema.type_of("tags"), Some("frozen<map<text, int>>"));
}

#[test]
fn keys_can_be_written_in_all_ways() {
    let key = |text: &str| {
        let schema = schema::parse(text).expect("valid");
        (schema.partition.len(), schema.clustering.len())
    };
    assert_eq!(
        key("create table t (a int primary key, b int static)"),
        (1, 0)
    );
    assert_eq!(
        key("CREATE TABLE IF NOT EXISTS \"T\" (a int, b int, PRIMARY KEY (a, b),)"),
        (1, 1)
    );
    assert_eq!(
        key("CREATE TABLE t (a int, b int, c tuple<int, text>, PRIMARY KEY ((a, b), c))"),
        (2, 1)
    );
    assert!(schema::parse("CREATE TABLE t (a int, b int)").is_err());
    assert!(schema::parse("CREATE TABLE t (a int, PRIMARY KEY (a, b))").is_err());
}

#[test]
fn statements_are_read_with_weights_and_ranges() {
    let workload = workload::parse(&format!("{TABLE}{PAPER}")).expect("valid");
    assert_eq!(workload.statements.len(), 2);
    let second = &workload.statements[1].statement;
    assert_eq!((second.weight, second.range_share), (3.0, Some(0.1)));
    assert!(!second.ordered, "a sum has no order");
    let column = |name| &second.columns[workload.table.column(name).expect("a column")];
    assert!(matches!(column("custkey"), StatementColumn::Equal(_)));
    assert!(matches!(
        column("orderdate"),
        StatementColumn::Range {
            low: Some(_),
            high: Some(_)
        }
    ));
    let first = &workload.statements[0].statement;
    assert!(matches!(
        first.columns[0],
        StatementColumn::Range { high: None, .. }
    ));
    assert_eq!(first.range_share, None);
}

#[test]
fn statements_begin_right_behind_the_semicolon() {
    let table = TABLE.trim_end().trim_end_matches(';');
    let all = "SELECT * FROM orders WHERE shop = ?";
    for (between, numbers) in [
        ("; ", [1, 2]),
        (";\n", [2, 3]),
        ("\n;\n", [3, 4]),
        ("\r\n; -- orders\r\n", [3, 4]),
    ] {
        let text = format!("{table}{between}{all};\n{all}");
        let workload = workload::parse(&text).expect("valid");
        let found: Vec<usize> = workload.statements.iter().map(|line| line.number).collect();
        assert_eq!(found, numbers, "{between:?}");
    }
}

#[test]
fn wrong_input_is_told_with_its_line_and_a_way_out() {
    let error = |text: &str| match workload::parse(text) {
        Ok(_) => panic!("{text} is accepted"),
        Err(e) => format!("{e:#}"),
    };
    let line = |statement: &str| error(&format!("{TABLE}{statement}"));
    for (found, wanted) in [
        (error(""), "the file is empty"),
        (
            error("SELECT * FROM t"),
            "must begin with the table's CREATE TABLE",
        ),
        (error("CREATE TABLE t (a int PRIMARY KEY)"), "semicolon"),
        (
            error("CREATE TABLE t (a int PRIMARY KEY);\nSELECT * FROM t WHERE a = 1"),
            "no clustering columns",
        ),
        (line(""), "no statement"),
        (
            line("DELETE FROM orders WHERE shop = 1"),
            "line 2: only SELECT",
        ),
        (line("SELECT * FROM other"), "\"other\""),
        (
            line("SELECT * FROM orders WHERE shop = ? AND nothing = ?"),
            "no column nothing",
        ),
        (line("0 SELECT * FROM orders"), "above zero"),
        (line("1e308 SELECT * FROM orders"), "to 1e12"),
        (line("1e-310 SELECT * FROM orders"), "above zero"),
        (line("inf SELECT * FROM orders"), "to 1e12"),
        (line("NaN SELECT * FROM orders"), "to 1e12"),
        (line("range=2 SELECT * FROM orders"), "from 0 to 1"),
        (line("dc= SELECT * FROM orders"), "name one data centre"),
        (line("dc=a 2 dc=b SELECT * FROM orders"), "a line for each"),
        (
            line("SELECT * FROM orders WHERE shop = ? AND (custkey, orderdate) > (?, ?)"),
            "several columns at once",
        ),
        (
            line("SELECT * FROM orders WHERE shop = ? AND clerk = 7"),
            "is no text",
        ),
        (line("SELECT * FROM orders LIMIT ?"), "LIMIT"),
        (
            line("SELECT * FROM orders WHERE token(shop) > 5"),
            "token()",
        ),
        (
            line("SELECT * FROM orders WHERE shop = ? AND tags CONTAINS 5"),
            "line 2: CONTAINS",
        ),
        (
            line("SELECT * FROM orders WHERE shop = ? AND tags['a'] = 5"),
            "element of a collection",
        ),
        (
            line("SELECT * FROM orders WHERE shop = ? AND clerk LIKE 'a%'"),
            "LIKE",
        ),
    ] {
        assert!(found.contains(wanted), "{found:?} does not say {wanted:?}");
    }
}

#[test]
fn fields_and_literals_give_the_same_values() {
    let field = |field: &str, ty: &str| values::of_field(field, ty).expect("valid");
    assert_eq!(field("2024-01-02", "date"), Value::Int(19_724 + (1 << 31)));
    assert_eq!(
        field("1970-01-01T00:00:01.000Z", "timestamp"),
        Value::Int(1_000)
    );
    assert_eq!(field("-1000", "timestamp"), Value::Int(-1_000));
    assert!(field("-1000", "timestamp") < field("1970-01-01 00:00:01.000+0000", "timestamp"));
    assert_eq!(field("0x0aff", "blob"), Value::Bytes([10, 255].into()));
    assert_eq!(field("TRUE", "boolean"), Value::Int(1));
    assert_eq!(field("", "int"), Value::Null);
    assert!(field("9", "int") < field("10", "int"));
    assert!(field("9", "text") > field("10", "text"));
    // Later in time, although its first bytes are smaller.
    let early = field("ffffffff-0000-1000-8000-000000000000", "timeuuid");
    assert!(early < field("00000000-0001-1000-8000-000000000000", "timeuuid"));
    assert!(values::of_field("x", "int").is_err());
    assert!(values::of_field("2024-01-02", "timestamp").is_err());
}

#[test]
fn two_queries_get_two_layouts_and_the_third_replica_insures_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (workload, rows) = files(folder.path(), PAPER);
    let report = advise(&args(&workload, &rows, &["--replicas", "3"])).expect("valid");
    for statement in &report.statements {
        assert!(
            statement.rows_then < 5.0 && statement.rows_then < statement.rows_now,
            "{}",
            statement.rows_then
        );
    }
    let json = json::json(&report);
    assert_eq!(json["certificate"]["optimal"], true);
    assert_eq!(json["layouts"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["statements"][1]["share"], 0.75);
    let text = show::text(&report);
    assert!(text.contains("optimal: no other 3 layouts"), "{text}");
    assert!(text.contains("CLUSTERING ORDER BY"), "{text}");
}

#[test]
fn coefficients_of_a_file_change_times_and_not_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (workload, rows) = files(folder.path(), PAPER);
    let costs = folder.path().join("costs.json");
    let text = r#"{"coefficients": {"request_us": 600, "slice_us": 40, "row_us": 2.2, "kept_us": 2,
        "block_us": 30, "compare_us": 0.1, "write_row_us": 10}}"#;
    std::fs::write(&costs, text).expect("a temporary file");
    let typical = advise(&args(&workload, &rows, &[])).expect("valid");
    let option = ["--coefficients", costs.to_str().expect("UTF-8")];
    let twice = advise(&args(&workload, &rows, &option)).expect("valid");
    // Each of them is twice that of a typical node.
    let ratio = twice.design.own_cost_us / typical.design.own_cost_us;
    assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    assert_eq!(twice.design.layouts, typical.design.layouts);
    assert_eq!(json::json(&twice)["coefficients"], "calibrated");
    assert!(show::text(&twice).contains("coefficients of --coefficients"));
    assert!(show::text(&typical).contains("helenus layouts calibrate"));
    std::fs::write(&costs, "[1, 2]").expect("a temporary file");
    let Err(refused) = advise(&args(&workload, &rows, &option)) else {
        panic!("it is accepted")
    };
    assert!(
        refused.to_string().contains("is no file of coefficients"),
        "{refused}"
    );
    // Nobody knows how often the statements of a file are asked.
    for more in [["--state", "x"], ["--horizon-days", "3"]] {
        let line = ["advise", "--workload", "a", "--rows", "b"];
        let parsed = Cli::try_parse_from([&line[..], &more].concat());
        assert!(parsed.is_err_and(|error| error.to_string().contains("cannot be used with")));
    }
}

#[test]
fn a_design_that_gives_up_cost_is_not_called_optimal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (workload, rows) = files(folder.path(), PAPER);
    let options = ["--replicas", "2", "--loss-slack", "100"];
    let report = advise(&args(&workload, &rows, &options)).expect("valid");
    let design = &report.design;
    assert!(
        design.cost_us > design.least_cost_us,
        "two layouts for two queries cost least, but lose most"
    );
    let certificate = &json::json(&report)["certificate"];
    assert_eq!(certificate["optimal"], false);
    assert_eq!(certificate["lower_bound_us"], design.least_cost_us);
    let text = show::text(&report);
    assert!(text.contains("above the cheapest: no other"), "{text}");
    assert!(!text.contains("optimal:"), "{text}");
}

#[test]
fn added_layouts_leave_the_table_to_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = "SELECT * FROM orders WHERE shop = ?;\n";
    let (workload, rows) = files(folder.path(), &format!("{PAPER}{all}"));
    let report = advise(&args(&workload, &rows, &["--replicas", "1"])).expect("valid");
    let whole = &report.statements[2];
    assert!(whole.reads[1] > 0.999, "{:?}", whole.reads);
}

const TWO: &str = "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 2}";
/// Q1 and Q2 of [`PAPER`], each of one data centre.
const APART: &str = "\
dc=dc1 SELECT sum(total) FROM orders WHERE shop = ? AND orderdate = ? AND clerk = ? AND custkey > 0;
3 dc=dc2 range=0.1 SELECT sum(total) FROM orders WHERE shop = ? AND custkey = ? AND clerk = ? AND orderdate > ? AND orderdate < ?
";

#[test]
fn a_wrong_csv_file_is_told_with_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (workload, rows) = files(folder.path(), PAPER);
    let error = |csv: &str, more: &[&str]| {
        std::fs::write(&rows, csv).expect("a temporary file");
        match advise(&args(&workload, &rows, more)) {
            Ok(_) => panic!("{csv} is accepted"),
            Err(e) => format!("{e:#}"),
        }
    };
    let header = "shop,custkey,orderdate,clerk\n";
    for (found, wanted) in [
        (error("a,b\n1,2\n", &[]), "COPY shop.orders TO"),
        (error(header, &[]), "has no rows"),
        (
            error(
                &format!("{header}1,2,2024-01-01,x\n1,two,2024-01-01,x\n"),
                &[],
            ),
            "line 3, column custkey",
        ),
        (
            error(&format!("{header}1,,2024-01-01,x\n"), &[]),
            "custkey of the key is empty",
        ),
        (error(&format!("{header}1,2\n"), &[]), "rows.csv"),
        (
            error(
                &format!("{header}1,2,2024-01-01,x\n1,2,2024-01-02,x\n"),
                &["--rows-total", "1"],
            ),
            "--rows-total",
        ),
    ] {
        assert!(found.contains(wanted), "{found:?} does not say {wanted:?}");
    }
    for bytes in ["inf", "1e300", "NaN", "-5", "0"] {
        let option = format!("--row-bytes={bytes}");
        let found = error(header, &[&option]);
        assert!(found.contains("--row-bytes must be"), "{bytes}: {found}");
    }
}

#[test]
fn a_statement_that_binds_more_columns_than_can_be_counted_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let columns = |form: &str, by: &str| {
        let of: Vec<String> = (0..10).map(|n| form.replace('#', &n.to_string())).collect();
        of.join(by)
    };
    let (workload, rows) = (folder.path().join("w.cql"), folder.path().join("r.csv"));
    let (typed, names) = (columns("c# int", ", "), columns("c#", ", "));
    let bound = columns("c# = ?", " AND ");
    let text = format!(
        "CREATE TABLE ks.t (p int, {typed}, PRIMARY KEY (p, {names}));\n\
         SELECT p FROM t WHERE p = ? AND {bound};\n"
    );
    std::fs::write(&workload, text).expect("a temporary file");
    std::fs::write(&rows, format!("p,{}\n", columns("c#", ","))).expect("a temporary file");
    let found = advise(&args(&workload, &rows, &[])).map(|_| ());
    let found = format!("{:#}", found.expect_err("ten columns"));
    assert!(found.contains("binds more than 8"), "{found}");
}

#[test]
fn where_statements_and_rows_come_from_is_checked_before_anything_is_asked() {
    let parse = |line: &[&str]| {
        let line = std::iter::once(&"advise").chain(line);
        Cli::try_parse_from(line).map(|_| ())
    };
    let url = "http://127.0.0.1:9180";
    for good in [
        &["--workload", "w", "--rows", "r"][..],
        &["--workload", "w"],
        &["shop.orders", "--workload", "w"],
        &[
            "shop.orders",
            "--learned",
            "127.0.0.1:9180,http://10.0.0.1:9180",
        ],
        &[
            "shop.orders",
            "--learned",
            url,
            "--rows",
            "r",
            "--rows-total",
            "9",
        ],
        &[
            "shop.orders",
            "--learned",
            url,
            "--admin-token-file",
            "t",
            "--write-workload",
            "w",
        ],
    ] {
        parse(good).unwrap_or_else(|e| panic!("{good:?}: {e}"));
    }
    for bad in [
        &["shop.orders"][..],
        &["shop.orders", "--rows", "r"],
        &["--learned", url],
        &["orders", "--learned", url],
        &["shop.orders", "--learned", url, "--workload", "w"],
        &["shop.orders", "--learned", "https://127.0.0.1:9180"],
        &["shop.orders", "--workload", "w", "--write-workload", "w2"],
        &["shop.orders", "--workload", "w", "--admin-token-file", "t"],
        &["shop.orders", "--learned", url, "--rows-total", "9"],
    ] {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn values_from_nodes_are_those_of_files_and_statements() {
    let uuid = "5b6962dd-3f90-11e9-b210-d663bd873d93";
    let uuid_bytes = 0x5b69_62dd_3f90_11e9_b210_d663_bd87_3d93_u128.to_be_bytes();
    for (bytes, field, ty) in [
        (&(-7_i32).to_be_bytes()[..], "-7", "int"),
        (&300_i64.to_be_bytes(), "300", "bigint"),
        (&[0xfe, 0x0c], "-500", "varint"),
        (&[0x80], "-128", "tinyint"),
        (&1.5_f32.to_be_bytes(), "1.5", "float"),
        (&(-2.25_f64).to_be_bytes(), "-2.25", "double"),
        (&[0, 0, 0, 2, 0x30, 0x39], "123.45", "decimal"),
        (&[1], "true", "boolean"),
        ("ä".as_bytes(), "ä", "text"),
        (
            &(0x8000_0000_u32 + 19_782).to_be_bytes(),
            "2024-02-29",
            "date",
        ),
        (
            &1_709_164_800_000_i64.to_be_bytes(),
            "2024-02-29T00:00:00.000Z",
            "timestamp",
        ),
        (&5_000_000_000_i64.to_be_bytes(), "00:00:05", "time"),
        (&uuid_bytes, uuid, "uuid"),
        (&uuid_bytes, uuid, "timeuuid"),
        (&[10, 0, 0, 1], "10.0.0.1", "inet"),
        (&[1, 255], "0x01ff", "blob"),
        (&[], "", "int"),
        (&7_i32.to_be_bytes(), "7", "frozen<int>"),
    ] {
        let of_node = values::of_bytes(bytes, ty).unwrap_or_else(|e| panic!("{field} {ty}: {e}"));
        let of_file = values::of_field(field, ty).unwrap_or_else(|e| panic!("{field} {ty}: {e}"));
        assert_eq!(of_node, of_file, "{field} {ty}");
    }
    for (bytes, ty) in [
        (&[1, 2][..], "double"),
        (&[0xff], "text"),
        (&[1], "timeuuid"),
    ] {
        assert!(values::of_bytes(bytes, ty).is_err(), "{ty}");
    }
}
