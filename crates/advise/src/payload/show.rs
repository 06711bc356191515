//! A report as text and as JSON.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table as TextTable, presets};
use helenus_console::figures::number;
use helenus_payload::{Estimate, NotEncoded};
use serde_json::{Value, json};

use super::report::{Advice, CodecReport, Report, SAVING_MIN};

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = write_text(&mut out, report);
    out
}

/// A whole number.
fn count(of: usize) -> String {
    match of {
        0..1_000 => of.to_string(),
        _ => number(of as f64),
    }
}

fn write_text(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "{}: learned from {} documents, measured on {} others{}; {} % of them are JSON",
        report.name,
        count(report.learned_from),
        count(report.measured),
        if report.is_cut { " (a sample)" } else { "" },
        percent(report.json as f64 / report.measured.max(1) as f64)
    )?;
    writeln!(out, "\n{}\n", table(report))?;
    writeln!(
        out,
        "On disk: in chunks of 16 KiB compressed with LZ4, with what a row has beside its value. Encoding \
         includes decoding each value to verify it; in brackets without. CPU times are of this machine. \
         What was learned takes {} KiB.",
        number(report.learned_bytes as f64 / 1024.0)
    )?;
    for codec in &report.codecs {
        if let Some(reason) = codec.reason {
            writeln!(
                out,
                "{}: {} of {} values are stored as they are, most of them because {}.",
                codec.codec,
                count(codec.raw as usize),
                count(report.measured),
                why(reason)
            )?;
        }
    }
    writeln!(out, "\nRecommendation: {}", advice(report))
}

fn table(report: &Report) -> TextTable {
    let mut table = TextTable::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "codec",
        "bytes per value",
        "on disk",
        "of JSON on disk",
        "encode µs/KiB",
        "decode µs/KiB",
        "stored raw",
    ]);
    let plain = mean(report.plain.value_bytes, report.plain);
    let plain_disk = mean(report.plain.disk_bytes, report.plain);
    table.add_row(["json", &plain, &plain_disk, "1.00", "", "", ""]);
    for codec in &report.codecs {
        let estimate = codec.estimate;
        table.add_row([
            codec.codec.to_string(),
            mean(estimate.value_bytes, estimate),
            mean(estimate.disk_bytes, estimate),
            format!("{:.2}", report.ratio(codec)),
            format!(
                "{} ({})",
                number(codec.encode_us),
                number(codec.encode_unverified_us)
            ),
            number(codec.decode_us),
            format!("{} %", percent(raw_share(codec))),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn mean(bytes: u64, of: Estimate) -> String {
    format!("{:.1}", bytes as f64 / of.values.max(1) as f64)
}

fn raw_share(codec: &CodecReport) -> f64 {
    codec.raw as f64 / codec.estimate.values.max(1) as f64
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "0".to_owned(),
        1.0 => "100".to_owned(),
        share => format!("{:.1}", share * 100.0),
    }
}

fn why(reason: NotEncoded) -> &'static str {
    match reason {
        NotEncoded::NotJson => "they are not JSON",
        NotEncoded::TooDeep => "they are nested too deeply",
        NotEncoded::TooLong => "they are too long",
        NotEncoded::Spelling => {
            "it would not keep their spelling (white space, escapes or numbers)"
        }
        NotEncoded::NotShorter => "they would not be shorter",
        NotEncoded::NotLearned => "nothing was learned",
        _ => "the codec does not take them",
    }
}

fn advice(report: &Report) -> String {
    match report.advice() {
        Some(Advice::NotJson) => "leave it: most of the values are not JSON.".to_owned(),
        Some(Advice::Leave(codec, saving)) if saving <= 0.0 => {
            format!("leave it: even {codec}, the smallest, saves no disk space.")
        }
        Some(Advice::Leave(codec, saving)) => format!(
            "leave it: {codec}, the smallest, saves {} % of the disk space, less than {} %.",
            percent(saving),
            percent(SAVING_MIN)
        ),
        Some(Advice::Use(codec, saving)) => format!(
            "use {codec}: it saves {} % of the disk space that JSON takes.{}",
            percent(saving),
            match &report.column {
                Some(column) =>
                    format!(" To do so: helenus payload enable {column} --codec {codec}"),
                None => String::new(),
            }
        ),
        None => "leave it: nothing could be learned.".to_owned(),
    }
}

pub(super) fn json(report: &Report) -> Value {
    let per_value = |bytes: u64| bytes as f64 / report.plain.values.max(1) as f64;
    let codecs = report.codecs.iter().map(|codec| {
        json!({
            "codec": codec.codec.name(),
            "bytes_per_value": per_value(codec.estimate.value_bytes),
            "disk_bytes_per_value": per_value(codec.estimate.disk_bytes),
            "disk_ratio": report.ratio(codec),
            "encode_us_per_kib": codec.encode_us,
            "encode_unverified_us_per_kib": codec.encode_unverified_us,
            "decode_us_per_kib": codec.decode_us,
            "raw_share": raw_share(codec),
            "raw_because": codec.reason.map(why),
        })
    });
    let (action, codec, saving) = match report.advice() {
        Some(Advice::Use(codec, saving)) => ("use", Some(codec), Some(saving)),
        Some(Advice::Leave(codec, saving)) => ("leave", Some(codec), Some(saving)),
        Some(Advice::NotJson) | None => ("leave", None, None),
    };
    json!({
        "source": report.name,
        "learned_from": report.learned_from,
        "measured": report.measured,
        "is_sample": report.is_cut,
        "json_share": report.json as f64 / report.measured.max(1) as f64,
        "learned_bytes": report.learned_bytes,
        "json": {
            "bytes_per_value": per_value(report.plain.value_bytes),
            "disk_bytes_per_value": per_value(report.plain.disk_bytes),
        },
        "codecs": codecs.collect::<Vec<_>>(),
        "advice": {
            "action": action,
            "codec": codec.map(helenus_payload::Codec::name),
            "saving": saving,
            "text": advice(report),
        },
    })
}
