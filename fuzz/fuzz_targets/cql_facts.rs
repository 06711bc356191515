//! Any text is understood or opaque.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = helenus_cql::facts(text);
});
