//! The handshake: configuration in on stdin, port and key out on stdout.
//!
//! It is synchronous and reads nothing but stdin, so that a client has its answer before anything
//! slow has begun.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;

use harness_framing::FrameCodec;
use harness_proto::localharness::{ClientInfo, InputConfig, OutputConfig};
use harness_types::Secret;
use prost::Message as _;

use crate::{Error, limits};

/// What the handshake settled. The sockets are listening.
#[derive(Debug)]
pub struct Bound {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) key: Secret,
    pub(crate) client: ClientInfo,
    pub(crate) storage: Option<PathBuf>,
    pub(crate) env: BTreeMap<String, Secret>,
    port: u16,
}

impl Bound {
    /// The port that is listened on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Reads the configuration, starts listening, and writes the answer.
///
/// The sockets listen before the answer is written: a client may connect as soon as it has read
/// it.
///
/// # Errors
///
/// Any [`Error`]; nothing has been written to `output` then, except for [`Error::Output`].
pub fn handshake(input: impl Read, mut output: impl Write) -> Result<Bound, Error> {
    let frame = FrameCodec::default()
        .with_max_body_bytes(limits::HANDSHAKE_BYTES)
        .read_frame(input)?
        .ok_or(Error::NoInput)?;
    let config = InputConfig::decode(frame)?;
    if config.use_interactions_api() {
        return Err(Error::Config {
            field: "use_interactions_api",
            message: "the Interactions protocol is not built yet; use the default protocol".into(),
        });
    }
    let listeners = listen(&config)?;
    let port = listeners
        .first()
        .and_then(|listener| listener.local_addr().ok())
        .map_or(0, |address| address.port());
    let key = new_key()?;
    let answer = OutputConfig {
        port: Some(i32::from(port)),
        api_key: Some(key.expose().to_owned()),
    };
    FrameCodec::default()
        .write_frame(&mut output, &answer.encode_to_vec())
        .map_err(|error| Error::Output(std::io::Error::other(error)))?;
    output.flush().map_err(Error::Output)?;
    Ok(Bound {
        listeners,
        key,
        storage: config
            .storage_directory
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
        client: config.client_info.unwrap_or_default(),
        env: config
            .env
            .into_iter()
            .map(|(name, value)| (name, Secret::new(value)))
            .collect(),
        port,
    })
}

fn new_key() -> Result<Secret, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    let mut text = String::with_capacity(32);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(Secret::new(text))
}

/// Listens on the loopback addresses, or on the one address that was asked for.
fn listen(config: &InputConfig) -> Result<Vec<TcpListener>, Error> {
    let port = u16::try_from(config.port()).map_err(|_| Error::Config {
        field: "port",
        message: format!("{} is no port number (0 to 65535)", config.port()),
    })?;
    match config.bind_address() {
        "" | "localhost" | "127.0.0.1" => {
            let first = bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))?;
            let port = first
                .local_addr()
                .map(|address| address.port())
                .unwrap_or(port);
            // `localhost` may mean ::1 to a client. Where the machine has no IPv6, or the port is
            // taken there, the IPv4 address serves alone.
            let second = TcpListener::bind(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)).ok();
            Ok(std::iter::once(first).chain(second).collect())
        }
        name => {
            let host = name.trim_start_matches('[').trim_end_matches(']');
            let address = match host.parse::<IpAddr>() {
                Ok(address) => SocketAddr::new(address, port),
                Err(_) => (host, port)
                    .to_socket_addrs()
                    .ok()
                    .and_then(|mut addresses| addresses.next())
                    .ok_or_else(|| Error::Config {
                        field: "bind_address",
                        message: format!("{name:?} is no address of this machine"),
                    })?,
            };
            Ok(vec![bind(address)?])
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).map_err(|source| Error::Listen {
        address: address.to_string(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: &InputConfig) -> (Result<Bound, Error>, Vec<u8>) {
        let mut stdin = Vec::new();
        FrameCodec::default()
            .write_frame(&mut stdin, &config.encode_to_vec())
            .unwrap();
        let mut stdout = Vec::new();
        let bound = handshake(stdin.as_slice(), &mut stdout);
        (bound, stdout)
    }

    #[test]
    fn an_empty_config_gets_loopback_and_a_fresh_key() {
        let (first, _) = run(&InputConfig::default());
        let (second, _) = run(&InputConfig::default());
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(
            first
                .listeners
                .iter()
                .all(|l| l.local_addr().unwrap().ip().is_loopback())
        );
        assert_ne!(first.key, second.key);
        assert_eq!(first.storage, None);
    }

    #[test]
    fn f065_bad_input_is_an_error_and_stdout_stays_empty() {
        let mut stdout = Vec::new();
        let error = |bytes: &[u8], out: &mut Vec<u8>| handshake(bytes, out).unwrap_err();
        assert!(matches!(error(b"", &mut stdout), Error::NoInput));
        assert!(matches!(
            error(b"\x05\x00\x00\x00abc", &mut stdout),
            Error::Frame(_)
        ));
        assert!(matches!(error(&[0xff; 8], &mut stdout), Error::Frame(_)));
        assert!(matches!(
            error(b"\x02\x00\x00\x00\xff\xff", &mut stdout),
            Error::Decode(_)
        ));
        assert_eq!(stdout, b"");
        let config = InputConfig {
            port: Some(70_000),
            ..InputConfig::default()
        };
        let (bound, stdout) = run(&config);
        assert_eq!(
            bound.unwrap_err().to_string(),
            "InputConfig.port: 70000 is no port number (0 to 65535)"
        );
        assert_eq!(stdout, b"");
    }

    #[test]
    fn a_busy_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let (bound, _) = run(&InputConfig {
            port: Some(port.into()),
            ..InputConfig::default()
        });
        assert_eq!(
            bound.unwrap_err().to_string(),
            format!("cannot listen on 127.0.0.1:{port}")
        );
    }
}
