#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| helenus_fuzz::targets::cql_facts::run(data));
