//! Signals that ask for the end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C: the user wants the turn to stop.
    Stop,
    /// The system, or the terminal that went away, wants the program to end.
    End,
}

/// The signals, from now on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Starts to take them.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn take() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one.
    ///
    /// # Cancel safety
    ///
    /// None is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupt::Stop,
            _ = self.terminate.recv() => Interrupt::End,
            _ = self.hangup.recv() => Interrupt::End,
        }
    }
}
