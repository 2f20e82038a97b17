//! Reading and writing one small and one large message.
//!
//! `cargo bench -p harness-proto`

use divan::{Bencher, black_box};
use harness_proto::json::{Encoding, EnumForm, from_json, from_json_lossy, to_json_into};
use harness_proto::localharness::{OutputEvent, StepUpdate, output_event, step_update};
use harness_proto::{SdkVersion, prost::Message as _};

fn main() {
    divan::main();
}

fn event(bytes: usize) -> OutputEvent {
    OutputEvent {
        seq_num: Some(4711),
        timestamp_micros: Some(1_764_000_000_000_000),
        event: Some(output_event::Event::StepUpdate(StepUpdate {
            cascade_id: Some("0123456789abcdef0123456789abcdef".into()),
            trajectory_id: Some("0123456789abcdef0123456789abcdef".into()),
            step_index: Some(3),
            state: Some(step_update::State::Active.into()),
            source: Some(step_update::Source::Model.into()),
            target: Some(step_update::Target::User.into()),
            text_delta: Some("A line of text.\n".repeat(bytes / 16)),
            ..Default::default()
        })),
        ..Default::default()
    }
}

const SIZES: [usize; 2] = [96, 1 << 20];

#[divan::bench(args = SIZES)]
fn write(bencher: Bencher<'_, '_>, bytes: usize) {
    let event = event(bytes);
    let mut buffer = Vec::new();
    bencher.bench_local(|| {
        buffer.clear();
        to_json_into(black_box(&event), &mut buffer).is_ok()
    });
}

#[divan::bench(args = SIZES)]
fn write_for_an_old_version(bencher: Bencher<'_, '_>, bytes: usize) {
    let event = event(bytes);
    let encoding = Encoding::new(SdkVersion::new(0, 1, 5)).with_enums(EnumForm::Numbers);
    let mut buffer = Vec::new();
    bencher.bench_local(|| {
        buffer.clear();
        encoding
            .to_json_into(black_box(&event), &mut buffer)
            .is_ok()
    });
}

#[divan::bench(args = SIZES)]
fn read(bencher: Bencher<'_, '_>, bytes: usize) {
    let json = serde_json::to_string(&event(bytes)).unwrap_or_default();
    bencher.bench_local(|| from_json::<OutputEvent>(black_box(&json)).is_ok());
}

#[divan::bench(args = SIZES)]
fn read_lossy(bencher: Bencher<'_, '_>, bytes: usize) {
    let json = serde_json::to_string(&event(bytes)).unwrap_or_default();
    bencher.bench_local(|| from_json_lossy::<OutputEvent>(black_box(&json)).is_ok());
}

#[divan::bench(args = SIZES)]
fn read_binary(bencher: Bencher<'_, '_>, bytes: usize) {
    let binary = event(bytes).encode_to_vec();
    bencher.bench_local(|| OutputEvent::decode(black_box(binary.as_slice())).is_ok());
}
