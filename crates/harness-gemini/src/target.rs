//! A checked configuration: the address and the headers of every request to one model.

use std::net::IpAddr;

use harness_types::{ModelError, ModelErrorKind, Secret};
use reqwest::Url;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};

use crate::config::{Credential, Endpoint, GeminiConfig};
use crate::error::Error;
use crate::request::Service;

/// No error message is longer, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Headers that describe the connection or the body. A wrong one would make the request
/// unreadable, so nobody may set them.
const RESERVED: [&str; 9] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Everything about a request but its body.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) reach: Reach,
    pub(crate) service: Service,
    pub(crate) peer: Peer,
}

/// What the transport has to know about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// This machine, in the clear.
    Loopback,
    /// This machine, over TLS.
    LoopbackTls,
    /// Anything else.
    Network,
}

/// The other end, as error messages name it.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Host and, where it is not the scheme's own, port.
    pub(crate) host: String,
    /// What no message may hold.
    secrets: Vec<Secret>,
}

impl Peer {
    pub(crate) fn new(host: impl Into<String>, secrets: Vec<Secret>) -> Self {
        Self {
            host: host.into(),
            secrets,
        }
    }

    /// An error whose message is masked and cut to its bound.
    ///
    /// Masking is by value, because a server may repeat in an error what it was sent.
    pub(crate) fn error(&self, kind: ModelErrorKind, message: &str) -> ModelError {
        let mut masked = message.to_owned();
        for secret in &self.secrets {
            masked = secret.mask(&masked);
        }
        // Cut last: a credential cut in two would not be found.
        ModelError::new(kind, cut(&masked, MAX_MESSAGE_BYTES))
    }
}

/// `text`, or as much of it as fits `max` bytes and ends at a character border.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mark = "…";
    let end = text.floor_char_boundary(max.saturating_sub(mark.len()));
    format!("{}{mark}", &text[..end])
}

impl Target {
    pub(crate) fn new(config: &GeminiConfig) -> Result<Self, Error> {
        let url = address(config)?;
        let reach = reach(&url);
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => String::new(),
        };
        let (headers, secrets) = headers(config)?;
        if url.scheme() == "http" && reach == Reach::Network && !secrets.is_empty() {
            tracing::warn!(host, "credentials will be sent unencrypted");
        }
        Ok(Self {
            url,
            headers,
            reach,
            service: match config.endpoint {
                Endpoint::GeminiApi => Service::GeminiApi,
                Endpoint::Vertex { .. } | Endpoint::VertexExpress => Service::Vertex,
            },
            peer: Peer::new(host, secrets),
        })
    }
}

fn reach(url: &Url) -> Reach {
    let host = url.host_str().unwrap_or_default();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let here = match literal.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    match (here, url.scheme()) {
        (true, "http") => Reach::Loopback,
        (true, _) => Reach::LoopbackTls,
        (false, _) => Reach::Network,
    }
}

fn address(config: &GeminiConfig) -> Result<Url, Error> {
    let (version, default_base, path) = match &config.endpoint {
        Endpoint::GeminiApi => (
            "v1beta",
            "https://generativelanguage.googleapis.com".to_owned(),
            String::new(),
        ),
        Endpoint::VertexExpress => (
            "v1beta1",
            "https://aiplatform.googleapis.com".to_owned(),
            String::new(),
        ),
        Endpoint::Vertex { project, location } => {
            let location = if location.is_empty() {
                "global"
            } else {
                location
            };
            place("project", project)?;
            place("location", location)?;
            (
                "v1beta1",
                vertex_base(location),
                format!("projects/{project}/locations/{location}/"),
            )
        }
    };
    let base = if config.base_url.is_empty() {
        &default_base
    } else {
        &config.base_url
    };
    let mut url = base_url(base)?;
    let model = model_path(&config.endpoint, &path, &config.model)?;
    let versioned = url
        .path_segments()
        .and_then(Iterator::last)
        .is_some_and(|last| last == version);
    {
        let mut segments = url.path_segments_mut().map_err(|()| Error::BaseUrl {
            reason: "must have a host",
        })?;
        segments.pop_if_empty();
        if !versioned {
            segments.push(version);
        }
        segments.extend(model.split('/'));
    }
    url.set_query(Some("alt=sse"));
    Ok(url)
}

fn base_url(text: &str) -> Result<Url, Error> {
    let reject = |reason| Err(Error::BaseUrl { reason });
    let Ok(url) = Url::parse(text.trim_end_matches('/')) else {
        return reject("is not a valid address");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return reject("must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return reject("must not hold a user name or a password; use a header");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return reject("must not hold a query or a fragment");
    }
    Ok(url)
}

fn vertex_base(location: &str) -> String {
    match location {
        "global" => "https://aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        region => format!("https://{region}-aiplatform.googleapis.com"),
    }
}

/// Both become part of an address, and the location part of a host name.
fn place(field: &'static str, text: &str) -> Result<(), Error> {
    // Project ids may be domain-scoped: `example.com:name`.
    let allowed = |c: char| {
        c.is_ascii_alphanumeric()
            || c == '-'
            || (field == "project" && matches!(c, ':' | '.' | '_'))
    };
    let dots_only = text.chars().all(|c| c == '.');
    if text.is_empty() || text.len() > 64 || dots_only || !text.chars().all(allowed) {
        return Err(Error::Place { field });
    }
    Ok(())
}

fn model_path(endpoint: &Endpoint, prefix: &str, name: &str) -> Result<String, Error> {
    let reject = |reason| Err(Error::ModelName { reason });
    if name.is_empty() {
        return reject("must not be empty");
    }
    if name.len() > 512 {
        return reject("must be at most 512 bytes long");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return reject("must not hold white space or control characters");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return reject("must not hold an empty, `.` or `..` path segment");
    }
    let path = match endpoint {
        Endpoint::GeminiApi if name.starts_with("models/") || name.starts_with("tunedModels/") => {
            name.to_owned()
        }
        Endpoint::GeminiApi => format!("models/{name}"),
        Endpoint::Vertex { .. } | Endpoint::VertexExpress if name.starts_with("projects/") => {
            name.to_owned()
        }
        Endpoint::Vertex { .. } | Endpoint::VertexExpress if name.starts_with("publishers/") => {
            format!("{prefix}{name}")
        }
        Endpoint::Vertex { .. } | Endpoint::VertexExpress => {
            let bare = name.strip_prefix("models/").unwrap_or(name);
            format!("{prefix}publishers/google/models/{bare}")
        }
    };
    Ok(format!("{path}:streamGenerateContent"))
}

fn headers(config: &GeminiConfig) -> Result<(HeaderMap, Vec<Secret>), Error> {
    let mut map = HeaderMap::new();
    let mut secrets = Vec::new();
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // A compressed stream would be held back by the compressor at the other end.
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let agent = if config.user_agent.is_empty() {
        concat!("harness-gemini/", env!("CARGO_PKG_VERSION"))
    } else {
        &config.user_agent
    };
    map.insert(USER_AGENT, value(USER_AGENT.as_str(), agent)?);
    let (name, secret, text) = match &config.credential {
        Credential::ApiKey(key) if !key.is_empty() => (API_KEY, key, key.expose().to_owned()),
        Credential::Bearer(token) if !token.is_empty() => {
            (AUTHORIZATION, token, format!("Bearer {}", token.expose()))
        }
        Credential::None | Credential::ApiKey(_) | Credential::Bearer(_) => {
            (API_KEY, &Secret::new(""), String::new())
        }
    };
    if !secret.is_empty() {
        map.insert(name.clone(), sensitive(name.as_str(), &text)?);
        secrets.push(secret.clone());
    }
    for (name, secret) in &config.headers {
        let parsed: HeaderName = name.parse().map_err(|_| Error::Header {
            name: name.clone(),
            reason: "is not a valid header name",
        })?;
        if RESERVED.contains(&parsed.as_str()) {
            return Err(Error::Header {
                name: name.clone(),
                reason: "is set by the transport and cannot be replaced",
            });
        }
        map.insert(parsed, sensitive(name, secret.expose())?);
        secrets.push(secret.clone());
        // `Bearer …` and its like: the credential is the last word.
        if let Some((_, last)) = secret.expose().rsplit_once(' ') {
            secrets.push(Secret::new(last));
        }
    }
    Ok((map, secrets))
}

fn value(name: &str, text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| Error::Header {
        name: name.to_owned(),
        reason: "has a value with characters that no header can carry",
    })
}

fn sensitive(name: &str, text: &str) -> Result<HeaderValue, Error> {
    let mut value = value(name, text)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(config: GeminiConfig) -> String {
        Target::new(&config).unwrap().url.to_string()
    }

    #[test]
    fn the_gemini_api_by_default_and_behind_any_prefix() {
        let at = |base: &str| url(GeminiConfig::new("gemini-x").base_url(base));
        let path = "v1beta/models/gemini-x:streamGenerateContent?alt=sse";
        assert_eq!(
            at(""),
            format!("https://generativelanguage.googleapis.com/{path}")
        );
        for base in [
            "http://127.0.0.1:8/gw",
            "http://127.0.0.1:8/gw/",
            "http://127.0.0.1:8/gw//",
            "http://127.0.0.1:8/gw/v1beta",
            "http://127.0.0.1:8/gw/v1beta/",
        ] {
            assert_eq!(at(base), format!("http://127.0.0.1:8/gw/{path}"), "{base}");
        }
    }

    #[test]
    fn resource_names_are_taken_as_they_are_and_odd_ones_are_escaped() {
        let name = |model: &str| {
            url(GeminiConfig::new(model).base_url("http://h"))
                .strip_prefix("http://h/v1beta/")
                .and_then(|rest| rest.strip_suffix(":streamGenerateContent?alt=sse"))
                .unwrap()
                .to_owned()
        };
        assert_eq!(name("models/a"), "models/a");
        assert_eq!(name("tunedModels/a-1"), "tunedModels/a-1");
        assert_eq!(name("google/a"), "models/google/a");
        assert_eq!(name("a?key=b#c%2F"), "models/a%3Fkey=b%23c%252F");
    }

    #[test]
    fn vertex_hosts_and_paths() {
        let at = |location: &str| {
            url(GeminiConfig::new("m").endpoint(Endpoint::Vertex {
                project: "p".into(),
                location: location.into(),
            }))
        };
        let tail = |location: &str| {
            format!(
                "/v1beta1/projects/p/locations/{location}/publishers/google/models/m:streamGenerateContent?alt=sse"
            )
        };
        assert_eq!(
            at("europe-west4"),
            format!(
                "https://europe-west4-aiplatform.googleapis.com{}",
                tail("europe-west4")
            )
        );
        assert_eq!(
            at(""),
            format!("https://aiplatform.googleapis.com{}", tail("global"))
        );
        assert_eq!(
            at("eu"),
            format!("https://aiplatform.eu.rep.googleapis.com{}", tail("eu"))
        );
        assert_eq!(
            url(GeminiConfig::new("models/m").endpoint(Endpoint::VertexExpress)),
            "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/m:streamGenerateContent?alt=sse"
        );
        assert_eq!(
            url(GeminiConfig::new("publishers/x/models/m")
                .base_url("http://h/v1beta1")
                .endpoint(Endpoint::Vertex {
                    project: "example.com:p".into(),
                    location: "us".into()
                })),
            "http://h/v1beta1/projects/example.com:p/locations/us/publishers/x/models/m:streamGenerateContent?alt=sse"
        );
    }

    #[test]
    fn wrong_settings_are_named_and_not_repeated() {
        let error = |config: GeminiConfig| {
            let error = Target::new(&config).err().unwrap();
            assert!(!error.to_string().contains("hunter2"), "{error}");
            (error.setting(), error.to_string())
        };
        let at = |base: &str| error(GeminiConfig::new("m").base_url(base)).1;
        assert_eq!(
            at("localhost:1"),
            "base_url must begin with http:// or https://"
        );
        assert_eq!(at("hunter2"), "base_url is not a valid address");
        assert_eq!(
            at("http://me:hunter2@h"),
            "base_url must not hold a user name or a password; use a header"
        );
        assert_eq!(
            at("http://h/?key=hunter2"),
            "base_url must not hold a query or a fragment"
        );
        for name in ["", "a b", "../x", "a//b"] {
            assert_eq!(error(GeminiConfig::new(name)).0, "model", "{name:?}");
        }
        for (project, location) in [
            ("", "us"),
            ("p", "evil.example/"),
            ("..", "us"),
            ("p", "a.b"),
        ] {
            let config = GeminiConfig::new("m").endpoint(Endpoint::Vertex {
                project: project.into(),
                location: location.into(),
            });
            assert_eq!(error(config).0, "endpoint", "{project} {location}");
        }
        let header = |name: &str, value: &str| {
            error(GeminiConfig::new("m").header(name, Secret::new(value))).1
        };
        assert_eq!(
            header("x bad", "hunter2"),
            "header \"x bad\" is not a valid header name"
        );
        assert_eq!(
            header("x-good", "hunter2\r\nx: y"),
            "header \"x-good\" has a value with characters that no header can carry"
        );
        assert_eq!(
            header("Content-Length", "1"),
            "header \"Content-Length\" is set by the transport and cannot be replaced"
        );
        let key = Credential::ApiKey(Secret::new("hunter2\n"));
        assert_eq!(
            error(GeminiConfig::new("m").credential(key)).1,
            "header \"x-goog-api-key\" has a value with characters that no header can carry"
        );
    }

    #[test]
    fn only_this_machine_counts_as_loopback() {
        let of = |base: &str| {
            Target::new(&GeminiConfig::new("m").base_url(base))
                .unwrap()
                .reach
        };
        for base in [
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
            "http://a.localhost",
        ] {
            assert_eq!(of(base), Reach::Loopback, "{base}");
        }
        assert_eq!(of("https://localhost"), Reach::LoopbackTls);
        for base in [
            "http://10.0.0.1",
            "http://notlocalhost",
            "https://h",
            "http://localhost.h",
        ] {
            assert_eq!(of(base), Reach::Network, "{base}");
        }
    }

    #[test]
    fn f038_debug_output_and_errors_hold_no_credential() {
        let config = GeminiConfig::new("m")
            .base_url("http://u:base-secret@h")
            .credential(Credential::ApiKey(Secret::new("key-secret")))
            .header("authorization", Secret::new("Bearer header-secret"));
        assert!(!format!("{config:?}").contains("-secret"), "{config:?}");
        let target = Target::new(&config.base_url("http://127.0.0.1:7")).unwrap();
        assert!(!format!("{:?}", target.headers).contains("-secret"));
        let error = target.peer.error(
            ModelErrorKind::Connect,
            "got key-secret and Bearer header-secret, that is header-secret",
        );
        assert_eq!(error.message, "got [secret] and [secret], that is [secret]");
        assert_eq!(target.peer.host, "127.0.0.1:7");
    }

    proptest! {
        #[test]
        fn a_cut_text_is_a_prefix_within_the_bound(text in "\\PC{0,80}", max in 3usize..100) {
            let short = cut(&text, max);
            prop_assert!(short.len() <= max);
            prop_assert!(short == text || text.starts_with(short.trim_end_matches('…')));
        }

        #[test]
        fn no_model_name_leaves_its_place_in_the_path(name in ".{0,40}") {
            let config = GeminiConfig::new(name).base_url("http://h/base");
            if let Ok(target) = Target::new(&config) {
                prop_assert_eq!(target.url.host_str(), Some("h"));
                prop_assert_eq!(target.url.query(), Some("alt=sse"));
                prop_assert!(target.url.path().starts_with("/base/v1beta/"));
                prop_assert!(target.url.path().ends_with(":streamGenerateContent"));
            }
        }
    }
}
