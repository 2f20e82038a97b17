//! Accepting connections, and ending well.

use std::sync::Arc;
use std::time::Duration;

use harness_host::Host;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::settled::Settled;
use crate::{Bound, Error, connection, limits, upgrade};

/// Why a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It was told to.
    Asked,
    /// Nobody connected, or came back, within the limit.
    Abandoned,
}

/// Serves the connections of one process.
#[derive(Debug)]
pub struct Server {
    bound: Bound,
    host: Host,
}

impl Server {
    /// A server on the sockets of a handshake.
    pub fn new(bound: Bound, host: Host) -> Self {
        Self { bound, host }
    }

    /// Serves until `stop` is ready, then closes every connection and every conversation.
    ///
    /// It also ends when nobody connects, or comes back, within the limits of
    /// [`limits`](crate::limits).
    ///
    /// # Errors
    ///
    /// [`Error::Serve`] when the runtime refuses the sockets.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends connections without a close frame.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Ending, Error> {
        let Self { mut bound, host } = self;
        let (stopping, receiver) = watch::channel(false);
        let sockets = std::mem::take(&mut bound.listeners);
        let settled = Arc::new(Settled::new(bound, receiver));
        let mut listeners = Vec::new();
        for listener in sockets {
            listener.set_nonblocking(true).map_err(Error::Serve)?;
            listeners.push(TcpListener::from_std(listener).map_err(Error::Serve)?);
        }
        let places = Arc::new(Semaphore::new(limits::CONNECTIONS));
        let mut connections = JoinSet::new();
        let mut deadline = Instant::now() + limits::FIRST_CONNECTION_TIME;
        tokio::pin!(stop);
        let ending = loop {
            tokio::select! {
                () = &mut stop => break Ending::Asked,
                (stream, place) = accept(&listeners, &places) => {
                    let (host, settled) = (host.clone(), Arc::clone(&settled));
                    connections.spawn(async move {
                        let _place = place;
                        serve(stream, host, settled).await;
                    });
                }
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!("a connection ended by a fault of the harness: {error}");
                    }
                    deadline = Instant::now() + limits::ABANDONED_TIME;
                }
                () = tokio::time::sleep_until(deadline), if connections.is_empty() => {
                    tracing::warn!("nobody is connected; the process ends");
                    break Ending::Abandoned;
                }
            }
        };
        let _ = stopping.send(true);
        drop(listeners);
        host.shutdown().await;
        while connections.join_next().await.is_some() {}
        Ok(ending)
    }
}

/// The next connection on any socket, once there is room for it.
async fn accept(
    listeners: &[TcpListener],
    places: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        let accepted = std::future::poll_fn(|context| {
            for listener in listeners {
                if let std::task::Poll::Ready(accepted) = listener.poll_accept(context) {
                    return std::task::Poll::Ready(accepted);
                }
            }
            std::task::Poll::Pending
        })
        .await;
        match accepted {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                // Out of file descriptors, most likely: others keep theirs, newcomers wait.
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, host: Host, settled: Arc<Settled>) {
    // Small messages go out at once; where the option is missing they only go out later.
    let _ = stream.set_nodelay(true);
    let upgraded = tokio::select! {
        upgraded = upgrade::upgrade(stream, &settled.key) => upgraded,
        () = settled.stopping() => return,
    };
    match upgraded {
        Ok(socket) => connection::serve(socket, host, settled).await,
        Err(refused) => tracing::warn!("a connection was refused: {refused}"),
    }
}

#[cfg(test)]
mod tests {
    use harness_host::{Assemble, Assembly, Blueprint};

    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Assemble for Nothing {
        fn assemble(&self, _: &mut Blueprint) -> Result<Assembly, harness_host::Error> {
            Err(harness_host::Error::config("there is nothing here"))
        }
    }

    fn server() -> Server {
        let bound = crate::handshake(&[0; 4][..], std::io::sink()).unwrap();
        let host = Host::new(Arc::new(Nothing), harness_host::Limits::default());
        Server::new(bound, host)
    }

    #[tokio::test(start_paused = true)]
    async fn f014_a_server_nobody_connects_to_ends() {
        let start = Instant::now();
        let ending = server().run(std::future::pending()).await.unwrap();
        assert_eq!(ending, Ending::Abandoned);
        assert_eq!(
            start.elapsed().as_secs(),
            limits::FIRST_CONNECTION_TIME.as_secs()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn f014_a_server_nobody_comes_back_to_ends() {
        let server = server();
        // Accepted by the system at once; it never says anything.
        let mute = std::net::TcpStream::connect(("127.0.0.1", server.bound.port())).unwrap();
        let start = Instant::now();
        let ending = server.run(std::future::pending()).await.unwrap();
        assert_eq!(ending, Ending::Abandoned);
        let expected = limits::REQUEST_HEAD_TIME + limits::ABANDONED_TIME;
        assert_eq!(start.elapsed().as_secs(), expected.as_secs());
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut { mute }, &mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
            "{answer}"
        );
    }
}
