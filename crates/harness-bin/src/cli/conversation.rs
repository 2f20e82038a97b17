//! A conversation with the person or the script at the other end of the streams.

use std::sync::Arc;

use harness_host::{Attachment, Host, Limits, Session, Update};
use harness_types::{Command, Input, InputPart, Request};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::approvals::{Approvals, Reply};
use super::exit::{Exit, Failure};
use super::interrupts::{Interrupt, Interrupts};
use super::output::Output;
use super::report::Report;
use super::setup::Setup;
use super::spinner;
use super::view::{Decision, View};
use crate::assemble::Assembler;
use crate::environment::Environment;

/// An open conversation and everything it is shown with.
pub(crate) struct Conversation {
    session: Session,
    updates: Attachment,
    pub(crate) output: Output,
    pub(crate) view: View,
    pub(crate) approvals: Approvals,
    pub(crate) interrupts: Interrupts,
}

/// How a turn came to its end for whoever watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// It ended.
    ToTheEnd,
    /// It was halted by Ctrl-C, and ended.
    Halted,
    /// The program is to end now.
    Left,
}

impl Conversation {
    /// Opens a conversation.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the user or the world is at fault.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) async fn open(
        setup: Setup,
        environment: Environment,
        output: Output,
        view: View,
        approvals: Approvals,
    ) -> Result<Self, Failure> {
        let interrupts = Interrupts::take().map_err(anyhow::Error::from)?;
        let host = Host::new(Arc::new(Assembler::new(environment)), Limits::default());
        let session = host.open(setup.blueprint).await?;
        let mut conversation = Self {
            updates: session.attach(),
            session,
            output,
            view,
            approvals,
            interrupts,
        };
        let id = conversation.session.id().to_string();
        conversation
            .view
            .opened(&mut conversation.output, &id, &setup.model);
        Ok(conversation)
    }

    /// Says something to the agent and shows what it does about it.
    ///
    /// # Errors
    ///
    /// [`Failure::Broken`] when the conversation ends by a fault.
    pub(crate) async fn turn(&mut self, prompt: String) -> Result<(Report, Watched), Failure> {
        if let Some(person) = self.approvals.person() {
            person.hide_typing();
        }
        let turn = self.watch(prompt).await;
        if let Some(person) = self.approvals.person() {
            person.show_typing();
        }
        turn
    }

    async fn watch(&mut self, prompt: String) -> Result<(Report, Watched), Failure> {
        let mut report = Report::new(self.session.id());
        let input = Input::user([InputPart::text(prompt)]);
        self.session.send(Command::Input(input)).await?;
        let mut watched = Watched::ToTheEnd;
        let mut ticks = interval_at(Instant::now() + spinner::PATIENCE, spinner::PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while report.end.is_none() {
            tokio::select! {
                update = self.updates.next() => {
                    let Some(update) = update else {
                        return Err(Failure::Broken(anyhow::anyhow!(
                            "the conversation ended by a fault of the harness itself"
                        )));
                    };
                    report.see(&update);
                    self.view.show(&mut self.output, &report, &update);
                    if let Update::Request(request) = update {
                        watched = self.asked(&mut report, request, watched).await?;
                    }
                    if self.output.is_closed() {
                        watched = Watched::Left;
                    }
                }
                interrupt = self.interrupts.next() => {
                    watched = self.interrupted(interrupt, watched).await?;
                }
                _ = ticks.tick(), if self.output.can_spin() => {
                    self.output.spin(report.elapsed(), &self.view.doing());
                }
            }
            if watched == Watched::Left {
                break;
            }
        }
        self.view.ended(&mut self.output, &report);
        if self.output.is_closed() {
            watched = Watched::Left;
        }
        Ok((report, watched))
    }

    /// Ends the conversation and what it has running. A second interrupt does not wait for that.
    pub(crate) async fn close(self) {
        let Self {
            session,
            mut interrupts,
            ..
        } = self;
        tokio::select! {
            () = session.close() => {}
            _ = interrupts.next() => {}
        }
    }

    /// Answers a request. Nothing is read meanwhile, and nothing of it is lost: an attachment
    /// waits.
    async fn asked(
        &mut self,
        report: &mut Report,
        request: Request,
        watched: Watched,
    ) -> Result<Watched, Failure> {
        let reply = tokio::select! {
            reply = self.approvals.answer(&mut self.output, &request.payload) => reply,
            interrupt = self.interrupts.next() => {
                return self.interrupted(interrupt, watched).await;
            }
        };
        let (answer, decision) = match reply {
            Reply::Answer(answer, decision) => (answer, decision),
            Reply::Stop => return self.interrupted(Interrupt::Stop, watched).await,
        };
        match decision {
            Some(Decision::Unanswered) => report.unanswered += 1,
            Some(Decision::Refused) => report.refused += 1,
            _ => {}
        }
        if let (Some(decision), harness_types::RequestPayload::Confirmation { tool, call, .. }) =
            (decision, &request.payload)
        {
            self.view.decided(&mut self.output, tool, call, decision);
        }
        let answer = Command::Answer {
            request: request.id,
            answer,
        };
        self.session.send(answer).await?;
        Ok(watched)
    }

    async fn interrupted(
        &mut self,
        interrupt: Interrupt,
        watched: Watched,
    ) -> Result<Watched, Failure> {
        match (interrupt, watched) {
            (Interrupt::Stop, Watched::ToTheEnd) => {
                self.session.send(Command::Halt).await?;
                Ok(Watched::Halted)
            }
            _ => Ok(Watched::Left),
        }
    }
}

/// How the program ends after a turn.
pub(crate) fn exit_of(output: &Output, report: &Report, watched: Watched) -> Exit {
    match (&report.end, watched) {
        _ if output.is_closed() => Exit::Closed,
        (_, Watched::Left | Watched::Halted) | (None, _) => Exit::Interrupted,
        (Some(end), Watched::ToTheEnd) => Exit::of_turn(end, report.unanswered),
    }
}
