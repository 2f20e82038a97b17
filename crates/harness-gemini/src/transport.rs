//! Connections: who they are shared with, and what is loaded for them when.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;
use tokio::sync::OnceCell;

use crate::target::Reach;

/// How long a connection may take to be made, name lookup and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// The connections of any number of models, kept open for their next requests.
///
/// Making one loads nothing. Root certificates are read from the system's store, on a thread that
/// may block, when the first `https` request is made, and never for plain `http` to this machine.
/// The environment's proxy settings (`HTTPS_PROXY` and its relatives) are read at that moment too;
/// they are honoured for everything but this machine.
///
/// Connections are tied to the runtime they were made on. A program with several runtimes gives
/// each its own transport.
#[derive(Debug, Clone, Default)]
pub struct Transport {
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    loopback: OnceCell<Client>,
    loopback_tls: OnceCell<Client>,
    network: OnceCell<Client>,
}

impl Transport {
    /// A transport of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// The transport shared by everything in this process that asks for it.
    pub fn shared() -> Self {
        static SHARED: LazyLock<Transport> = LazyLock::new(Transport::new);
        SHARED.clone()
    }

    /// Whether root certificates have been loaded.
    pub fn has_loaded_roots(&self) -> bool {
        self.clients.loopback_tls.initialized() || self.clients.network.initialized()
    }

    /// The client for an address. The error says in words what could not be loaded.
    pub(crate) async fn client(&self, reach: Reach) -> Result<Client, String> {
        let client = match reach {
            Reach::Loopback => {
                let make = async || without_roots(builder().no_proxy());
                self.clients.loopback.get_or_try_init(make).await
            }
            Reach::LoopbackTls => {
                let make = || with_roots(builder().no_proxy());
                self.clients.loopback_tls.get_or_try_init(make).await
            }
            Reach::Network => {
                let make = || with_roots(builder());
                self.clients.network.get_or_try_init(make).await
            }
        };
        client.cloned()
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        // A redirect would carry the key to another host.
        .redirect(Policy::none())
}

/// A client that can speak TLS to nobody: it trusts no root, so none has to be loaded.
fn without_roots(builder: ClientBuilder) -> Result<Client, String> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    builder
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| deepest(&error))
}

async fn with_roots(builder: ClientBuilder) -> Result<Client, String> {
    let build = move || {
        // The process may have chosen a provider; then that one is used, and this one refused.
        let _ = ring::default_provider().install_default();
        builder.build().map_err(|error| deepest(&error))
    };
    match tokio::task::spawn_blocking(build).await {
        Ok(client) => client,
        Err(error) => Err(error.to_string()),
    }
}

/// The cause at the bottom of an error. The layers above it repeat each other, and one of them
/// shows the whole address.
pub(crate) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
