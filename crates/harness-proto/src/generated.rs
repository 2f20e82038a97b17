//! The generated types, in the module tree that their paths to each other expect.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::use_self,
    clippy::unwrap_used,
    clippy::uninlined_format_args,
    clippy::manual_let_else,
    reason = "generated code"
)]

pub mod antigravity {
    /// The harness protocol: package `antigravity.localharness`.
    ///
    /// Start at [`InputConfig`] and [`OutputConfig`] (binary, on stdin and stdout),
    /// [`InitializeConversationEvent`], [`InputEvent`] and [`OutputEvent`] (JSON, on the
    /// WebSocket).
    ///
    /// [`InputConfig`]: localharness::InputConfig
    /// [`OutputConfig`]: localharness::OutputConfig
    /// [`InitializeConversationEvent`]: localharness::InitializeConversationEvent
    /// [`InputEvent`]: localharness::InputEvent
    /// [`OutputEvent`]: localharness::OutputEvent
    pub mod localharness {
        include!("gen/antigravity.localharness.rs");
        include!("gen/antigravity.localharness.serde.rs");
    }
}

/// Values and content that the harness protocol refers to: package `genai`.
pub mod genai {
    include!("gen/genai.rs");
    include!("gen/genai.serde.rs");

    /// Skills given inline: package `genai.skills`.
    pub mod skills {
        include!("gen/genai.skills.rs");
        include!("gen/genai.skills.serde.rs");
    }
}
