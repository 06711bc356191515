#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| helenus_fuzz::targets::request_views::run(data));
