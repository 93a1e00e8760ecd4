#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| portolan_agents::acp::fuzz::lines(data));
