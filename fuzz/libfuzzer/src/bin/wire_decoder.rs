#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| helenus_fuzz::targets::wire_decoder::run(data));
