#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| portolan_core::policy::fuzz::decision(data));
