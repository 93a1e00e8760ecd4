#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| portolan_holder::fuzz::frames(data));
