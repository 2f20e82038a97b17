//! The exchange over standard input and output: one message each way, little-endian length first.

use bytes::BytesMut;
use harness_framing::FrameCodec;
use harness_proto::localharness::{InputConfig, OutputConfig};
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::error::HandshakeError;
use crate::{Limits, Secret};

/// Where the harness listens and the key it wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) port: u16,
    pub(crate) key: Secret,
}

/// Tells the harness who we are and reads where it listens.
///
/// Reads not more than the answer; a harness writes nothing after it.
pub(crate) async fn exchange(
    stdin: &mut (impl AsyncWrite + Unpin),
    stdout: &mut (impl AsyncRead + Unpin),
    input: &InputConfig,
    limits: &Limits,
) -> Result<Address, HandshakeError> {
    timeout(limits.handshake, async {
        let mut frame = BytesMut::new();
        FrameCodec::default()
            .encode(&input.encode_to_vec(), &mut frame)
            .map_err(HandshakeError::Frame)?;
        // A harness that has ended already said why on its standard error and is better
        // described by its missing answer than by a broken pipe.
        if stdin.write_all(&frame).await.is_ok() {
            let _ = stdin.flush().await;
        }
        read_answer(stdout, limits.max_handshake_bytes).await
    })
    .await
    .unwrap_or(Err(HandshakeError::Timeout(limits.handshake)))
}

async fn read_answer(
    stdout: &mut (impl AsyncRead + Unpin),
    max_bytes: usize,
) -> Result<Address, HandshakeError> {
    let codec = FrameCodec::default().with_max_body_bytes(max_bytes);
    let mut buffer = BytesMut::new();
    let body = loop {
        if let Some(body) = codec.decode(&mut buffer).map_err(HandshakeError::Frame)? {
            break body;
        }
        let read = stdout.read_buf(&mut buffer).await;
        match read.map_err(|error| HandshakeError::Frame(error.into()))? {
            0 if buffer.is_empty() => return Err(HandshakeError::Ended),
            0 => {
                let torn = codec.check_end(&buffer).map_err(HandshakeError::Frame);
                return torn.and(Err(HandshakeError::Ended));
            }
            _ => {}
        }
    };
    let answer = OutputConfig::decode(body).map_err(HandshakeError::Message)?;
    let port = u16::try_from(answer.port()).ok().filter(|port| *port != 0);
    let key = answer.api_key();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(HandshakeError::Key);
    }
    Ok(Address {
        port: port.ok_or(HandshakeError::Port)?,
        key: Secret::new(key),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::duplex;

    use super::*;

    fn answer(port: i32, key: &str) -> Vec<u8> {
        let message = OutputConfig {
            port: Some(port),
            api_key: Some(key.into()),
        };
        let mut frame = BytesMut::new();
        FrameCodec::default()
            .encode(&message.encode_to_vec(), &mut frame)
            .unwrap();
        frame.to_vec()
    }

    /// The outcome when the harness writes `bytes` and closes its output.
    async fn with_answer(bytes: &[u8]) -> Result<Address, HandshakeError> {
        let (mut stdin, _theirs) = duplex(1024);
        exchange(
            &mut stdin,
            &mut &*bytes,
            &InputConfig::default(),
            &Limits::default(),
        )
        .await
    }

    #[tokio::test]
    async fn the_answer_may_come_in_pieces() {
        let (mut stdin, mut their_stdin) = duplex(1024);
        let (mut stdout, mut their_stdout) = duplex(1);
        let harness = tokio::spawn(async move {
            let mut length = [0; 4];
            their_stdin.read_exact(&mut length).await.unwrap();
            let mut body = vec![0; u32::from_le_bytes(length) as usize];
            their_stdin.read_exact(&mut body).await.unwrap();
            their_stdout.write_all(&answer(4711, "k")).await.unwrap();
            InputConfig::decode(&*body).unwrap()
        });
        let input = InputConfig {
            storage_directory: Some("/somewhere".into()),
            ..InputConfig::default()
        };
        let address = exchange(&mut stdin, &mut stdout, &input, &Limits::default()).await;
        let expected = Address {
            port: 4711,
            key: Secret::new("k"),
        };
        assert_eq!(address.unwrap(), expected);
        assert_eq!(harness.await.unwrap(), input);
    }

    #[tokio::test]
    async fn bad_answers_are_told_apart() {
        type Check = fn(&HandshakeError) -> bool;
        #[rustfmt::skip]
        let table: &[(&[u8], Check)] = &[
            (b"", |error| matches!(error, HandshakeError::Ended)),
            (b"\x05\0", |error| matches!(error, HandshakeError::Frame(inner) if inner.is_torn())),
            (b"\x05\0\0\0ab", |error| matches!(error, HandshakeError::Frame(inner) if inner.is_torn())),
            (b"Usage of localharness:\n", |error| matches!(error, HandshakeError::Frame(inner) if inner.is_too_large())),
            (b"\xff\xff\xff\xff", |error| matches!(error, HandshakeError::Frame(inner) if inner.is_too_large())),
            (b"\x02\0\0\0\xff\xff", |error| matches!(error, HandshakeError::Message(_))),
            (b"\0\0\0\0", |error| matches!(error, HandshakeError::Key)),
            (&answer(0, "k"), |error| matches!(error, HandshakeError::Port)),
            (&answer(-1, "k"), |error| matches!(error, HandshakeError::Port)),
            (&answer(65_536, "k"), |error| matches!(error, HandshakeError::Port)),
            (&answer(80, "k\r\nx: y"), |error| matches!(error, HandshakeError::Key)),
        ];
        for (bytes, expected) in table {
            let error = with_answer(bytes).await.unwrap_err();
            assert!(expected(&error), "{bytes:?}: {error:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_bounded() {
        let (mut stdin, _their_stdin) = duplex(1024);
        let (mut stdout, _their_stdout) = duplex(1024);
        let limits = Limits {
            handshake: Duration::from_secs(7),
            ..Limits::default()
        };
        let input = InputConfig::default();
        let error = exchange(&mut stdin, &mut stdout, &input, &limits).await;
        assert!(
            matches!(error, Err(HandshakeError::Timeout(after)) if after.as_secs() == 7),
            "{error:?}"
        );
    }
}
