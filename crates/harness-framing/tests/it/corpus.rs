//! Replays the committed corpus of the fuzz target `framing`.
//!
//! The files are made by hand: `seeds` lists them, and `WRITE_CORPUS=1 cargo test -p
//! harness-framing` writes those that are missing. Inputs a fuzzer finds are added as further
//! files, named after what was wrong; they are replayed with the rest.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use harness_framing::fuzz_framing;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/framing")
}

/// Limit, piece size, stream: see [`fuzz_framing`].
fn seeds() -> BTreeMap<&'static str, Vec<u8>> {
    let seed = |max: u8, piece: u8, stream: &[u8]| [&[max, piece], stream].concat();
    BTreeMap::from([
        ("no-input", Vec::new()),
        ("empty-stream", seed(16, 1, b"")),
        ("empty-body", seed(16, 1, b"\0\0\0\0")),
        ("two-frames", seed(16, 3, b"\x03\0\0\0abc\x02\0\0\0de")),
        ("at-the-limit", seed(3, 255, b"\x03\0\0\0abc")),
        ("over-the-limit", seed(3, 255, b"\x04\0\0\0abcd")),
        (
            "frame-then-huge-length",
            seed(16, 5, b"\x01\0\0\0a\xFF\xFF\xFF\xFFzz"),
        ),
        ("huge-length", seed(255, 1, &[0xFF; 4])),
        ("sign-bit-length", seed(255, 4, b"\0\0\0\x80")),
        ("big-endian-length", seed(255, 2, b"\0\0\0\x03abc")),
        ("torn-header", seed(16, 2, b"\x03\0\0")),
        ("torn-body", seed(16, 2, b"\x03\0\0\0ab")),
        ("torn-before-body", seed(16, 4, b"\x03\0\0\0")),
        ("not-framed-text", seed(255, 7, b"Usage of localharness:\n")),
        ("zero-limit", seed(0, 1, b"\0\0\0\0\x01\0\0\0a")),
    ])
}

#[test]
fn corpus_holds_every_seed() {
    for (name, bytes) in seeds() {
        let path = folder().join(name);
        if std::env::var_os("WRITE_CORPUS").is_some() && !path.exists() {
            fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
    }
}

#[test]
fn corpus_passes() {
    let mut replayed = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        fuzz_framing(&fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed >= seeds().len(), "only {replayed} files");
}
