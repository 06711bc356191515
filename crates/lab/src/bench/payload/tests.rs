use super::*;
use crate::bench::common::parsed;

fn args(line: &str) -> Result<PayloadArgs> {
    let args: PayloadArgs = parsed(line)?;
    args.check()?;
    Ok(args)
}

fn names(line: &str, contact_points: &[&str]) -> Vec<String> {
    let nodes = Nodes::running(contact_points.iter().map(ToString::to_string).collect());
    let contenders = args(line).unwrap().contenders(&nodes, &[]);
    let names = contenders.into_iter();
    names.map(|contender| contender.arm.endpoint.name).collect()
}

#[test]
fn plain_json_is_first_and_every_codec_has_its_arms() {
    let three = ["a:1", "b:1", "c:1"];
    assert_eq!(
        names(
            "x --codecs shape --client-codecs smile,cbor --arm y=127.0.0.1:1",
            &three
        ),
        [
            TOKEN_AWARE,
            ROUND_ROBIN,
            "direct-smile",
            "direct-cbor",
            "helenus-json",
            "helenus-shape",
            "y"
        ]
    );
    assert!(!names("x", &three[..1]).contains(&ROUND_ROBIN.to_owned()));
    assert_eq!(names("x", &three[..1]).len(), 1 + 5 + 1 + 2);
}

#[test]
fn a_quick_run_has_one_node_and_few_rows() {
    let (quick, full) = (args("x --quick").unwrap(), args("x").unwrap());
    assert_eq!((quick.nodes(), full.nodes()), (1, 3));
    assert!(quick.rows() < full.rows());
    assert_eq!(args("x --quick --nodes 2 --rows 50").unwrap().nodes(), 2);
    let few = args("x --codecs zstd --client-codecs smile").unwrap();
    assert_eq!(few.measured_codecs(), [Codec::Smile, Codec::Zstd]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for line in [
        "x --codecs avro",
        "x --codecs raw",
        "x --codecs shape,shape",
        "x --client-codecs smile,smile",
        "x --rows 0",
        "x --clients 0",
        "x --rounds 0",
        "x --cell-seconds nan",
    ] {
        assert!(args(line).is_err(), "{line}");
    }
    let error = parse_codec("avro").unwrap_err().to_string();
    assert!(error.contains("smile, messagepack"), "{error}");
}

#[test]
fn files_become_collections_named_after_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("iso_3166-2.jsonl");
    let lines: String = (0..100)
        .map(|number| format!("{{\"n\":{number}}}\n"))
        .collect();
    std::fs::write(&path, lines).unwrap();
    let line = format!("x --rows 30 --samples 100 --documents {}", path.display());
    let collections = args(&line).unwrap().collections().unwrap();
    let names: Vec<&str> = collections.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["profiles", "iso_3166_2"]);
    assert_eq!(collections[1].rows.len(), 30);
    assert!(
        args("x --documents /missing")
            .unwrap()
            .collections()
            .is_err()
    );
}
