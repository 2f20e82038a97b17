//! Where a model is, and how it is reached.

use std::fmt;

use harness_types::Secret;

/// Which of Google's addresses answers, and how its paths are built.
///
/// Source of the paths: requests of the published harness 0.1.22 and the public Vertex AI
/// documentation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Endpoint {
    /// The Gemini API: `/v1beta/models/{model}`.
    #[default]
    GeminiApi,
    /// Vertex AI: `/v1beta1/projects/{project}/locations/{location}/publishers/google/models/{model}`.
    Vertex {
        /// The cloud project.
        project: String,
        /// The region, `global`, `us` or `eu`; the empty string counts as `global`.
        location: String,
    },
    /// Vertex AI with an API key and no project: `/v1beta1/publishers/google/models/{model}`.
    VertexExpress,
}

/// What a request shows to be let in. An empty secret counts as none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Credential {
    /// Nothing, for gateways and test servers that ask for nothing.
    #[default]
    None,
    /// An API key, sent as `x-goog-api-key` and never as part of an address.
    ApiKey(Secret),
    /// An access token, sent as `authorization: Bearer …`.
    Bearer(Secret),
}

/// How to reach one model. [`GeminiModel::new`](crate::GeminiModel::new) checks it.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct GeminiConfig {
    pub(crate) model: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) base_url: String,
    pub(crate) credential: Credential,
    pub(crate) user_agent: String,
    pub(crate) headers: Vec<(String, Secret)>,
}

impl GeminiConfig {
    /// The model of this name at the Gemini API, without a credential.
    ///
    /// The name may be bare (`gemini-2.5-pro`) or a resource name (`models/…`, `tunedModels/…`,
    /// for Vertex also `publishers/…` and `projects/…`).
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            endpoint: Endpoint::default(),
            base_url: String::new(),
            credential: Credential::default(),
            user_agent: String::new(),
            headers: Vec::new(),
        }
    }

    /// Which service answers.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// An `http` or `https` address in place of Google's, with or without a path and a trailing
    /// slash. The API version is appended unless the path already ends in it. The empty string
    /// stands for Google's address.
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// What lets requests in.
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = credential;
        self
    }

    /// The `user-agent`. The empty string stands for this crate's name and version.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// One more header. It replaces a header of the same name, ours included. Its value counts as
    /// a credential: it is never shown.
    pub fn header(mut self, name: impl Into<String>, value: Secret) -> Self {
        self.headers.push((name.into(), value));
        self
    }
}

impl fmt::Debug for GeminiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        // The base address is left out: it is unchecked and may hold a password or a key.
        f.debug_struct("GeminiConfig")
            .field("model", &self.model)
            .field("endpoint", &self.endpoint)
            .field("credential", &self.credential)
            .field("user_agent", &self.user_agent)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
