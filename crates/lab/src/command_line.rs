//! The command line of this process, for reports.

/// The command line as it was typed, as far as it is text.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os();
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}
