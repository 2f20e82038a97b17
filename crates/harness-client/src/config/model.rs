use harness_proto::localharness::{
    GeminiApiEndpoint, ModelConfig, ModelType, VertexEndpoint, model_config::Endpoint,
};

use crate::Secret;

/// A model and where it is served.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Model {
    wire: ModelConfig,
}

impl Model {
    /// Returns a text model behind the Gemini API or a server that speaks like it.
    ///
    /// Without [`api_key`](Self::api_key) the harness takes `GEMINI_API_KEY` from its
    /// environment, without [`base_url`](Self::base_url) `GOOGLE_GEMINI_BASE_URL` or the public
    /// address.
    pub fn gemini(name: impl Into<String>) -> Self {
        Self::new(
            name.into(),
            Endpoint::GeminiApiEndpoint(GeminiApiEndpoint::default()),
        )
    }

    /// Returns a text model behind Vertex AI.
    pub fn vertex(
        name: impl Into<String>,
        project: impl Into<String>,
        location: impl Into<String>,
    ) -> Self {
        let endpoint = VertexEndpoint {
            project: Some(project.into()),
            location: Some(location.into()),
            ..VertexEndpoint::default()
        };
        Self::new(name.into(), Endpoint::VertexEndpoint(endpoint))
    }

    fn new(name: String, endpoint: Endpoint) -> Self {
        Self {
            wire: ModelConfig {
                name: Some(name),
                types: vec![ModelType::Text.into()],
                endpoint: Some(endpoint),
            },
        }
    }

    /// Makes it the model for images instead of the one for text.
    pub fn for_images(mut self) -> Self {
        self.wire.types = vec![ModelType::Image.into()];
        self
    }

    /// Sets the address requests go to.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        match &mut self.wire.endpoint {
            Some(Endpoint::GeminiApiEndpoint(it)) => it.base_url = Some(url.into()),
            Some(Endpoint::VertexEndpoint(it)) => it.base_url = Some(url.into()),
            _ => {}
        }
        self
    }

    /// Sets the key.
    pub fn api_key(mut self, key: impl Into<Secret>) -> Self {
        let key = Some(key.into().expose().to_owned());
        match &mut self.wire.endpoint {
            Some(Endpoint::GeminiApiEndpoint(it)) => it.api_key = key,
            Some(Endpoint::VertexEndpoint(it)) => it.api_key = key,
            _ => {}
        }
        self
    }

    /// Adds a header to every request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        let headers = match &mut self.wire.endpoint {
            Some(Endpoint::GeminiApiEndpoint(it)) => &mut it.http_headers,
            Some(Endpoint::VertexEndpoint(it)) => &mut it.http_headers,
            _ => return self,
        };
        headers.insert(name.into(), value.into().expose().to_owned());
        self
    }

    /// Sets how much the model thinks, in the words of the provider.
    pub fn thinking_level(mut self, level: impl Into<String>) -> Self {
        let options = match &mut self.wire.endpoint {
            Some(Endpoint::GeminiApiEndpoint(it)) => &mut it.options,
            Some(Endpoint::VertexEndpoint(it)) => &mut it.options,
            _ => return self,
        };
        options.get_or_insert_default().thinking_level = Some(level.into());
        self
    }

    pub(crate) fn into_wire(self) -> ModelConfig {
        self.wire
    }
}
