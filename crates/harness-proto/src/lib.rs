//! Wire types of the agent harness protocol, with their protobuf-JSON form.
//!
//! For programs that speak with a `localharness` process or are one: the messages of
//! google-antigravity 0.1.0 to 0.1.22 as one set of types. Transport, framing and behaviour are
//! other crates' business; this one depends on no other of the workspace.
//!
//! * [`localharness`] and [`genai`]: the messages. Binary by [`prost::Message`]; `InputConfig` and
//!   `OutputConfig` travel so.
//! * [`json`]: reading and writing the JSON form, which everything else travels in.
//! * [`gates`] and [`SdkVersion`]: which output field exists in which SDK version.
//! * [`convert`]: between `genai.Struct` and plain JSON.
//! * [`schema`] and [`FILE_DESCRIPTOR_SET`]: names and numbers at run time.
//!
//! # Example
//!
//! ```
//! use harness_proto::json::{from_json, to_json};
//! use harness_proto::localharness::{
//!     InputEvent, OutputEvent, StepUpdate, input_event, output_event, step_update,
//! };
//!
//! let parsed = from_json::<InputEvent>(r#"{"userInput": {"parts": [{"text": "Hello"}]}}"#)?;
//! let Some(input_event::Event::UserInput(input)) = parsed.message.event else {
//!     panic!("not user input");
//! };
//! assert_eq!(input, "Hello".into());
//!
//! let event = OutputEvent {
//!     seq_num: Some(1),
//!     event: Some(output_event::Event::StepUpdate(StepUpdate {
//!         step_index: Some(0),
//!         state: Some(step_update::State::Active.into()),
//!         text_delta: Some("Hi".into()),
//!         ..Default::default()
//!     })),
//!     ..Default::default()
//! };
//! assert_eq!(
//!     to_json(&event)?,
//!     r#"{"seqNum":"1","stepUpdate":{"stepIndex":0,"state":"STATE_ACTIVE","textDelta":"Hi"}}"#
//! );
//! # Ok::<(), harness_proto::Error>(())
//! ```
//!
//! # How messages look in Rust
//!
//! * Every singular field is an `Option`, since the wire tells unset from zero; `step.text()`
//!   gives the value or its default.
//! * Enums are `Option<i32>`, so that values of later versions survive; `step.state()` gives the
//!   enum, with `Unspecified` for numbers without a name, and `Some(State::Done.into())` sets it.
//! * Oneofs are an `Option` of an enum in a module named after the message:
//!   `output_event::Event::ToolCall(…)`.
//! * Type names are re-cased: `ModelAPIRetryConfig` is [`localharness::ModelApiRetryConfig`],
//!   `GeminiAPIEndpoint` is [`localharness::GeminiApiEndpoint`].
//! * Bytes are [`bytes::Bytes`], maps are `BTreeMap`.
//! * `Debug` shows credentials as `[redacted]`.
//!
//! # Where the JSON differs from Python's `json_format`
//!
//! Measured with `ignore_unknown_fields` over the corpus in `tests/corpus`; its test keeps this
//! list complete.
//!
//! * Read here, because other SDK versions write it: `userInput` as a string, the names
//!   `complexUserInput`, `templateName`, `STATE_IDLE` and `STATE_TERMINAL_ERROR`.
//! * Accepted here, rejected there: an unknown key given twice.
//! * Rejected here, accepted there: one field under both of its names; a string or a list for a
//!   message (an empty message there); a fraction, `true` or a number beyond 32 bits for an enum;
//!   `"1_000"` and `"1e999"` for numbers; characters outside base64 in bytes; nesting beyond 128
//!   arrays and objects (100 messages there).
//!
//! # Features
//!
//! None. The crate turns on `float_roundtrip` of serde_json, without which doubles come back
//! one unit off.
//!
//! # Limits
//!
//! JSON nests up to 128 deep, binary messages up to 100. Sizes are the caller's to bound. Unknown
//! fields are dropped, not passed through.

pub mod convert;
mod error;
pub mod gates;
mod generated;
pub mod json;
mod manual;
pub mod schema;
mod version;
mod wire;
pub mod wkt;

pub use bytes;
pub use prost;

pub use error::{Error, JsonError, JsonErrorKind};
pub use generated::{antigravity::localharness, genai};
pub use schema::WireMessage;
pub use version::SdkVersion;

/// All `.proto` files of this crate and what they import, as an encoded
/// `google.protobuf.FileDescriptorSet`. Without comments.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptor.bin");
