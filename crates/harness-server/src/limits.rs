//! The bounds of the wire. `docs/limits.md` tells what happens at each.

use std::time::Duration;

/// The longest `InputConfig`, in bytes.
pub const HANDSHAKE_BYTES: usize = 16 * 1024 * 1024;

/// The longest HTTP request head of a client that wants a WebSocket, in bytes.
pub const REQUEST_HEAD_BYTES: usize = 16 * 1024;

/// How long a client may take to send that head.
pub const REQUEST_HEAD_TIME: Duration = Duration::from_secs(10);

/// The longest message a client may send, in bytes. One more byte closes the connection.
pub const MESSAGE_BYTES: usize = 256 * 1024 * 1024;

/// How long a connection may take to send its first message.
pub const FIRST_MESSAGE_TIME: Duration = Duration::from_secs(60);

/// Connections at once, with a conversation or without; one more waits until another has ended.
pub const CONNECTIONS: usize = 2048;

/// How long a process waits for its first connection before it ends by itself.
pub const FIRST_CONNECTION_TIME: Duration = Duration::from_secs(120);

/// How long a process whose last connection is gone waits for another one.
pub const ABANDONED_TIME: Duration = Duration::from_secs(900);

/// How long closing a connection may take: what is queued is sent, the close frame is answered.
pub const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The shortest time between two updates of the same growing step.
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(16);

/// How many bytes of repeated text a second the updates of a growing step may cost: every update
/// carries the whole text so far, so long texts are updated less often.
pub const UPDATE_BYTES_PER_SECOND: u64 = 4 * 1024 * 1024;

/// The longest reason in a close frame, in bytes: RFC 6455, section 5.5.
pub const CLOSE_REASON_BYTES: usize = 123;
