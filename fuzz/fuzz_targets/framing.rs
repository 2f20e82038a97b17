//! `cargo +nightly fuzz run framing`: the codec against hostile bytes.
//!
//! The same function replays `corpus/framing` in the ordinary tests of `harness-framing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| harness_framing::fuzz_framing(input));
