//! Gemini models over REST and server-sent events.
//!
//! [`GeminiModel`] is a [`Model`](harness_types::Model): it turns a
//! [`ModelRequest`](harness_types::ModelRequest) into one `streamGenerateContent` request to the
//! Gemini API or to Vertex AI and the answer into
//! [`ModelEvent`](harness_types::ModelEvent)s. It neither retries nor waits for a quota: the loop
//! decides that from the [`ModelError`](harness_types::ModelError), which says what failed, how
//! long the provider asked to wait, and whether a daily quota is used up.
//!
//! Who should depend on it: programs that embed an agent and talk to Gemini without the stock
//! binary. It sits beside the loop and knows `harness-types` alone.
//!
//! # Example
//!
//! A server that plays one canned answer stands in for Google here.
//!
//! ```
//! use futures_util::StreamExt as _;
//! use harness_gemini::{Credential, GeminiConfig, GeminiModel};
//! use harness_types::{
//!     FinishReason, GenerationOptions, Input, InputPart, Message, Model as _, ModelEvent,
//!     ModelPart, ModelRequest, Secret,
//! };
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let address = server.local_addr()?;
//! let serve = async {
//!     let (mut socket, _) = server.accept().await?;
//!     let _ = socket.read(&mut [0; 8192]).await?;
//!     let frame = r#"{"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}]}"#;
//!     let head = "HTTP/1.1 200 OK\r\nconnection: close";
//!     socket.write_all(format!("{head}\r\n\r\ndata: {frame}\n\n").as_bytes()).await
//! };
//!
//! let model = GeminiModel::new(
//!     &GeminiConfig::new("gemini-2.5-flash")
//!         .base_url(format!("http://{address}"))
//!         .credential(Credential::ApiKey(Secret::new("not a real key"))),
//! )?;
//! let request = ModelRequest {
//!     conversation: "0123456789abcdef0123456789abcdef".parse()?,
//!     system: "Be brief.".into(),
//!     tools: [].into(),
//!     messages: vec![Message::Input(Input::user([InputPart::text("hi")]))],
//!     options: GenerationOptions::default(),
//! };
//! let (events, served) = tokio::join!(model.stream(request).collect::<Vec<_>>(), serve);
//! served?;
//! assert_eq!(
//!     events,
//!     [
//!         Ok(ModelEvent::Part(ModelPart::Text { text: "hello".into(), signature: None })),
//!         Ok(ModelEvent::Finish { reason: FinishReason::Stop, message: None }),
//!     ]
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # How requests are mapped
//!
//! * Inputs and notices are contents of role `user`, answers of role `model`; neighbours of one
//!   role share a content. The results of tools have a content of their own, of role `user`, with
//!   one `functionResponse` for each call, in call order: the provider counts them (F001).
//! * Parts keep their order. Signatures go back on the part they came with, byte for byte.
//! * A result is `{"output": text}` or the JSON object itself when the call succeeded, otherwise
//!   `{"error": …}`. Its attachments are `inlineData` parts of the response.
//! * `sessionId` is the 64-bit FNV-1a hash of the conversation's id, as a signed decimal number
//!   (Gemini API only).
//! * The body depends on the request alone, so that equal prefixes stay equal (F057).
//! * A thinking level is sent in upper case, `extra_high` as `HIGH`, and not at all to
//!   `gemini-1…` and `gemini-2…`, which refuse it; a warning says so once.
//!
//! # How answers are mapped
//!
//! * The finish comes last, whatever frame named it. An answer that ends without one was cut.
//! * A call whose arguments are no object does not fail the request: the answer then ends with
//!   [`FinishReason::MalformedCall`](harness_types::FinishReason::MalformedCall), so that the
//!   model can be told.
//! * A call without an id is named `local-call-N`, `N` being unused in the request's history.
//!
//! # Credentials
//!
//! They travel in headers only and are masked by value in every error, because servers repeat
//! what they were sent. Addresses are never part of a message; hosts are.
//!
//! # Features
//!
//! None.
//!
//! # Limits
//!
//! | what | bound | at the bound |
//! |---|---|---|
//! | one event of an answer | [`SseDecoder::DEFAULT_MAX_EVENT_BYTES`], 64 MiB | [`Malformed`](harness_types::ModelErrorKind::Malformed) |
//! | the body of an error answer | 64 KiB are read | the rest is dropped |
//! | an error message | 4 KiB | cut at a character border |
//! | making a connection | 20 s | [`Connect`](harness_types::ModelErrorKind::Connect) |
//! | an answer that has named its finish, silent on an open connection | 5 s | it ends |
//!
//! An answer as a whole has neither a time limit nor a size limit; silence is the loop's to
//! notice. Redirects are not followed. Connections need a tokio runtime with I/O and time
//! enabled. Media in answers is ignored.

mod answer;
mod config;
mod error;
mod failure;
mod http_date;
mod model;
mod request;
mod response;
mod sse;
mod target;
mod transport;

pub use config::{Credential, Endpoint, GeminiConfig};
pub use error::Error;
pub use model::GeminiModel;
pub use sse::{EventTooLong, SseDecoder};
pub use transport::Transport;
