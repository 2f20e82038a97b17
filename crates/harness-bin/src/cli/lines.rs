//! Lines from a person, or from a pipe.

use std::fs::File;
use std::io::BufRead as _;
use std::sync::mpsc;

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr,
};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Behavior, Config, Editor};
use tokio::sync::oneshot;

/// What came of asking for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its end.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, the end of the pipe, or a terminal that went away.
    End,
}

/// Whether a line is kept for the arrow keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is, until the program ends. Nothing is written to disk.
    InMemory,
    /// It is an answer to a question.
    Nothing,
}

struct Ask {
    prompt: String,
    keep: Keep,
    answer: oneshot::Sender<Line>,
}

/// Reads lines on a thread of its own.
///
/// Dropping it gives the terminal back as it was, also while a line is being read.
pub(crate) struct Lines {
    asks: mpsc::Sender<Ask>,
    terminal: Option<(File, Termios)>,
}

impl Lines {
    /// From the terminal of this process, with line editing.
    ///
    /// # Errors
    ///
    /// When there is no terminal, or no thread can be started.
    pub(crate) fn from_terminal() -> std::io::Result<Self> {
        // What is restored at the end, should a thread in the middle of a line keep the editor
        // from doing so.
        let terminal = File::options().read(true).write(true).open("/dev/tty")?;
        let modes = tcgetattr(&terminal)?;
        let config = Config::builder()
            // Standard output may be a pipe.
            .behavior(Behavior::PreferTerm)
            .build();
        let mut editor = Editor::<(), MemHistory>::with_history(config, MemHistory::new())
            .map_err(std::io::Error::other)?;
        let asks = serve(move |prompt, keep| match editor.readline(prompt) {
            Ok(line) => {
                if keep == Keep::InMemory && !line.trim().is_empty() {
                    // Only a full history refuses.
                    let _ = editor.add_history_entry(line.as_str());
                }
                Line::Text(line)
            }
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(_) => Line::End,
        })?;
        Ok(Self {
            asks,
            terminal: Some((terminal, modes)),
        })
    }

    /// From standard input as it is, without prompts.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub(crate) fn from_pipe() -> std::io::Result<Self> {
        let asks = serve(|_, _| {
            let mut line = String::new();
            match std::io::stdin().lock().read_line(&mut line) {
                Ok(1..) => Line::Text(line.trim_end_matches(['\n', '\r']).to_owned()),
                _ => Line::End,
            }
        })?;
        Ok(Self {
            asks,
            terminal: None,
        })
    }

    /// Keeps what is typed from being shown, until a line is asked for or [`Lines::show_typing`]:
    /// it would end up in the middle of the output. It is not lost.
    pub(crate) fn hide_typing(&self) {
        if let Some((terminal, modes)) = &self.terminal {
            let mut hidden = modes.clone();
            hidden.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
            let _ = tcsetattr(terminal, OptionalActions::Now, &hidden);
        }
    }

    /// Gives the terminal back as it was.
    pub(crate) fn show_typing(&self) {
        if let Some((terminal, modes)) = &self.terminal {
            let _ = tcsetattr(terminal, OptionalActions::Now, modes);
        }
    }

    /// Asks for a line. What was typed before an answer was asked for does not answer it.
    ///
    /// # Cancel safety
    ///
    /// The line goes on being read when the future is dropped, and is then thrown away: the next
    /// call waits for it.
    pub(crate) async fn read(&self, prompt: &str, keep: Keep) -> Line {
        if let (Some((terminal, _)), Keep::Nothing) = (&self.terminal, keep) {
            let _ = tcflush(terminal, QueueSelector::IFlush);
        }
        let (answer, line) = oneshot::channel();
        let ask = Ask {
            prompt: prompt.to_owned(),
            keep,
            answer,
        };
        if self.asks.send(ask).is_err() {
            return Line::End;
        }
        line.await.unwrap_or(Line::End)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.show_typing();
    }
}

fn serve(
    mut read: impl FnMut(&str, Keep) -> Line + Send + 'static,
) -> std::io::Result<mpsc::Sender<Ask>> {
    let (asks, queue) = mpsc::channel::<Ask>();
    std::thread::Builder::new()
        .name("lines".to_owned())
        .spawn(move || {
            while let Ok(ask) = queue.recv() {
                let line = read(&ask.prompt, ask.keep);
                let _ = ask.answer.send(line);
            }
        })?;
    Ok(asks)
}
