use bytes::Bytes;
use harness_proto::localharness::{InputEvent, UserInput, input_event, user_input};

/// What is said to the agent: by the user, or by a trigger that no user pulled.
#[derive(Debug, Clone, PartialEq)]
pub struct Input(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    User(UserInput),
    Trigger(String),
}

impl Input {
    /// A text of the user. The same as `Input::from(text)`.
    pub fn text(text: impl Into<String>) -> Self {
        Self(Kind::User(UserInput::from(text.into())))
    }

    /// A slash command, without the slash; text may follow with [`Input::and_text`].
    pub fn slash_command(name: impl Into<String>) -> Self {
        let command = user_input::SlashCommand {
            name: Some(name.into()),
        };
        Self(Kind::User(UserInput::default())).and(user_input::part::Part::SlashCommand(command))
    }

    /// A prompt that no user typed, such as the message of a timer.
    pub fn trigger(text: impl Into<String>) -> Self {
        Self(Kind::Trigger(text.into()))
    }

    /// Appends text. A trigger's text is continued.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        if let Kind::Trigger(trigger) = &mut self.0 {
            trigger.push_str(&text.into());
            return self;
        }
        self.and(user_input::part::Part::Text(text.into()))
    }

    /// Appends a file. A trigger cannot carry one and stays as it is.
    #[must_use]
    pub fn and_media(self, mime_type: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.and(user_input::part::Part::Media(user_input::Media {
            mime_type: Some(mime_type.into()),
            description: None,
            data: Some(data.into()),
        }))
    }

    fn and(mut self, part: user_input::part::Part) -> Self {
        if let Kind::User(input) = &mut self.0 {
            input.parts.push(user_input::Part { part: Some(part) });
        }
        self
    }

    pub(crate) fn is_user(&self) -> bool {
        matches!(self.0, Kind::User(_))
    }

    pub(crate) fn into_event(self) -> InputEvent {
        let event = match self.0 {
            Kind::User(input) => input_event::Event::UserInput(input),
            Kind::Trigger(text) => input_event::Event::AutomatedTrigger(text),
        };
        InputEvent { event: Some(event) }
    }
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<UserInput> for Input {
    fn from(input: UserInput) -> Self {
        Self(Kind::User(input))
    }
}
