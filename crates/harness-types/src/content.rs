//! What goes into a model and what comes out of it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{CallId, ResultContent, ToolCall};

/// Bytes of an image, a document, audio or video, with their type.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// The MIME type, for example `image/png`.
    pub mime_type: String,
    /// What it shows, when somebody said so. Not sent to the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The bytes; base64 in a record.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub data: Arc<[u8]>,
}

impl std::fmt::Debug for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Megabytes of numbers help nobody in a log.
        f.debug_struct("Media")
            .field("mime_type", &self.mime_type)
            .field("description", &self.description)
            .field("bytes", &self.data.len())
            .finish()
    }
}

fn to_base64<S: Serializer>(data: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(data))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD
        .decode(text)
        .map(Arc::from)
        .map_err(serde::de::Error::custom)
}

/// One piece of what a user, or an automation, says. Order is kept all the way to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputPart {
    /// Text.
    Text(String),
    /// An attachment.
    Media(Media),
    /// A slash command by name, without the slash. The loop gives none a meaning of its own; it
    /// reaches the model as the text `/name`.
    SlashCommand(String),
}

impl InputPart {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

/// Who speaks in an [`Input`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputKind {
    /// A person, or a program in a person's name.
    User,
    /// An automated trigger: nobody typed it, and the model is told so.
    Trigger,
}

/// Something said to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Who speaks.
    pub kind: InputKind,
    /// What is said, in order.
    pub parts: Vec<InputPart>,
}

impl Input {
    /// Something a user says.
    pub fn user(parts: impl IntoIterator<Item = InputPart>) -> Self {
        Self {
            kind: InputKind::User,
            parts: parts.into_iter().collect(),
        }
    }

    /// Something an automation says.
    pub fn trigger(text: impl Into<String>) -> Self {
        Self {
            kind: InputKind::Trigger,
            parts: vec![InputPart::Text(text.into())],
        }
    }

    /// The text a transcript shows: the text parts joined, slash commands as `/name `.
    pub fn display_text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                InputPart::Text(piece) => text.push_str(piece),
                InputPart::SlashCommand(name) => {
                    text.push('/');
                    text.push_str(name);
                    text.push(' ');
                }
                InputPart::Media(_) => {}
            }
        }
        text
    }
}

/// One piece of a model's answer, in the order it came.
///
/// A signature is opaque and is sent back byte for byte on the part it came with, in the base64
/// form it came in. Parts with a signature are never merged with their neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelPart {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
        /// The provider's signature, as it came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A thought, or its summary.
    Thought {
        /// The text.
        text: String,
        /// The provider's signature, as it came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A tool call.
    Call {
        /// The call.
        call: ToolCall,
        /// The provider's signature, as it came.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

impl ModelPart {
    /// The length of its text, in bytes; 0 for a call.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text { text, .. } | Self::Thought { text, .. } => text.len(),
            Self::Call { .. } => 0,
        }
    }

    /// Appends `next` to this part when both are unsigned and of one kind, and says whether it
    /// did.
    pub fn merge(&mut self, next: &Self) -> bool {
        match (self, next) {
            (
                Self::Text {
                    text,
                    signature: None,
                },
                Self::Text {
                    text: more,
                    signature: None,
                },
            )
            | (
                Self::Thought {
                    text,
                    signature: None,
                },
                Self::Thought {
                    text: more,
                    signature: None,
                },
            ) => {
                text.push_str(more);
                true
            }
            _ => false,
        }
    }
}

/// How a call ended, as far as the model has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolResultStatus {
    /// It did what it was asked to.
    Succeeded,
    /// It ran and failed, or could not run.
    Failed,
    /// A policy, a hook or a person refused it; it never ran.
    Denied,
    /// It was cut short by a halt; what it did so far stays done.
    Cancelled,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub call: CallId,
    /// The name the call used.
    pub name: String,
    /// How it ended.
    pub status: ToolResultStatus,
    /// What it says.
    pub content: ResultContent,
    /// Attachments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
}

/// One entry of the history a model is asked with.
///
/// A history is valid when every [`Message::Model`] with calls is followed by one
/// [`Message::ToolResults`] that answers each of them once, in call order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// Somebody spoke.
    Input(Input),
    /// The loop tells the model something that no person said: a hint after a malformed answer, a
    /// reminder, the reason to go on.
    Notice(String),
    /// The model answered.
    Model(Vec<ModelPart>),
    /// The tools answered.
    ToolResults(Vec<ToolResult>),
}
