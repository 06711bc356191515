//! Reads documents from a file, one per line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::sample::{SAMPLE_BYTES_MAX, Sample, chance};

/// At most `count` of the lines, which chance chooses.
pub fn read(path: &Path, count: usize, seed: u64) -> Result<Sample> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    let mut file = BufReader::new(file);
    let mut sample = Sample {
        name: shown.to_string(),
        column: None,
        documents: Vec::new(),
        is_cut: false,
    };
    let (mut line, mut lines, mut documents, mut bytes) = (Vec::new(), 0u64, 0u64, 0);
    loop {
        line.clear();
        let read = file.read_until(b'\n', &mut line);
        if read.with_context(|| format!("cannot read {shown}"))? == 0 {
            break;
        }
        lines += 1;
        let Ok(text) = std::str::from_utf8(&line) else {
            bail!(
                "{shown}, line {lines}, is not UTF-8: Cassandra's text is; convert the file, for example with \
                 `iconv -f latin1 -t utf8`"
            );
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            continue;
        }
        documents += 1;
        // Each line so far is in the sample with the same chance (Vitter's algorithm R).
        if sample.documents.len() < count && bytes < SAMPLE_BYTES_MAX {
            bytes += text.len();
            sample.documents.push(text.to_owned());
            continue;
        }
        let place = chance(seed.rotate_left(32) ^ documents) % documents;
        if let Some(document) = sample.documents.get_mut(place as usize) {
            *document = text.to_owned();
        }
    }
    if documents == 0 {
        bail!("{shown} is empty: it needs one document per line");
    }
    if documents == 1 && sample.documents.iter().all(|text| text.starts_with('[')) {
        bail!(
            "{shown} is one array: each document needs a line of its own, for example with `jq -c '.[]' {shown}`"
        );
    }
    sample.is_cut = documents > sample.documents.len() as u64;
    // Tables are in the order of hashes: neighbours in a sorted file would compress too well together.
    let mut order: Vec<(u64, String)> = (0..).map(chance).zip(sample.documents).collect();
    order.sort();
    sample.documents = order.into_iter().map(|(_, document)| document).collect();
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    #[test]
    fn documents_are_lines_without_their_ends() {
        let file = file(b"{\"a\": 1 }\r\n\n[2]");
        let mut sample = read(file.path(), 100, 1).expect("a sample");
        sample.documents.sort();
        assert_eq!(sample.documents, ["[2]", "{\"a\": 1 }"]);
        assert!(!sample.is_cut);
    }

    #[test]
    fn chance_chooses_from_all_of_a_long_file() {
        let lines: String = (0..10_000).map(|number| format!("{number}\n")).collect();
        let file = file(lines.as_bytes());
        let sample = read(file.path(), 100, 1).expect("a sample");
        assert_eq!(sample.documents.len(), 100);
        assert!(sample.is_cut);
        let numbers = sample
            .documents
            .iter()
            .map(|text| text.parse::<u32>().expect("a number"));
        let late = numbers.filter(|number| *number >= 5_000).count();
        assert!((25..75).contains(&late), "{late}");
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = |bytes: &[u8]| {
            let read = read(file(bytes).path(), 100, 1);
            read.err()
                .map(|error| format!("{error:#}"))
                .expect("an error")
        };
        assert!(error(b"{}\n\xe9\n").contains("line 2, is not UTF-8"));
        assert!(error(b"\n").contains("is empty"));
        assert!(error(b"[{},{}]").contains("jq -c"));
        let missing = read(Path::new("/nowhere"), 100, 1).err();
        assert!(
            missing
                .expect("an error")
                .to_string()
                .contains("cannot read /nowhere")
        );
    }
}
