use harness_toolkit::RegistryError;
use harness_types::TurnEnd;

/// What can go wrong with an embedded agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tool cannot be registered.
    #[error(transparent)]
    Tool(#[from] RegistryError),
    /// A rule speaks of a tool that the agent does not have.
    #[error("a rule speaks of {tool:?}, and the agent has no tool of that name")]
    UnknownTool {
        /// The name in the rule.
        tool: String,
    },
    /// Nothing says who decides about a tool that changes something.
    #[error(
        "nothing says whether {tool:?} may run: give the agent somebody to ask (approve), or rules \
         (allow, deny, policy)"
    )]
    Undecided {
        /// The first such tool.
        tool: String,
    },
    /// The conversation cannot be opened, or has ended.
    #[error(transparent)]
    Conversation(#[from] harness_host::Error),
    /// The turn did not come to its end.
    #[error("{}", describe(end))]
    Turn {
        /// How it ended instead.
        end: Box<TurnEnd>,
        /// What the agent had said by then.
        text: String,
    },
}

impl Error {
    /// Whether what the agent was made of is at fault, rather than the world.
    pub fn is_config(&self) -> bool {
        match self {
            Self::Tool(_) | Self::UnknownTool { .. } | Self::Undecided { .. } => true,
            Self::Conversation(error) => error.is_config(),
            Self::Turn { .. } => false,
        }
    }
}

fn describe(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Halted => "the turn was halted".to_owned(),
        TurnEnd::Denied { reason } => format!("the turn was refused: {reason}"),
        TurnEnd::Stopped { reason } => format!("a limit ended the turn: {reason:?}"),
        TurnEnd::Failed { error } => format!("the turn failed: {}", error.message),
        _ => "the turn did not come to its end".to_owned(),
    }
}
