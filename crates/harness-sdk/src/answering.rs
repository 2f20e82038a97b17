//! Answering what the agent asks, beside whatever reads its turns.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};

use harness_host::{Attachment, Session, Update};
use harness_types::{
    BoxFuture, Command, PolicyOutcome, Question, QuestionAnswer, Request, RequestAnswer, RequestId,
    RequestKind, RequestPayload, ToolCall,
};
use tokio::task::JoinSet;

/// A call that waits for somebody's word.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PendingCall {
    /// The name rules know the tool by.
    pub tool: String,
    /// The call.
    pub call: ToolCall,
    /// The rule that asks; empty when it is the default.
    pub rule: String,
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not, and the model is told why.
    Deny(String),
}

type Approve = dyn Fn(PendingCall) -> BoxFuture<'static, Decision> + Send + Sync;
type Ask = dyn Fn(Vec<Question>) -> BoxFuture<'static, Option<Vec<QuestionAnswer>>> + Send + Sync;

/// Who answers.
#[derive(Clone, Default)]
pub(crate) struct Answering {
    pub(crate) approve: Option<Arc<Approve>>,
    pub(crate) questions: Option<Arc<Ask>>,
}

impl Answering {
    /// The kinds of request somebody can answer.
    pub(crate) fn kinds(&self) -> BTreeSet<RequestKind> {
        let approve = self.approve.as_ref().map(|_| RequestKind::Confirmation);
        let questions = self.questions.as_ref().map(|_| RequestKind::Question);
        approve.into_iter().chain(questions).collect()
    }

    fn answer(&self, payload: RequestPayload) -> BoxFuture<'static, RequestAnswer> {
        match (payload, &self.approve, &self.questions) {
            (RequestPayload::Confirmation { tool, call, rule }, Some(approve), _) => {
                let decision = approve(PendingCall { tool, call, rule });
                Box::pin(async move {
                    RequestAnswer::Policy(match decision.await {
                        Decision::Allow => PolicyOutcome::Allow,
                        Decision::Deny(reason) => PolicyOutcome::Deny {
                            reason: Some(reason),
                        },
                    })
                })
            }
            (RequestPayload::Question { questions }, _, Some(ask)) => {
                let answers = ask(questions);
                Box::pin(async move { RequestAnswer::Question(answers.await) })
            }
            (payload, _, _) => {
                let refusal = refusal(payload.kind(), "nobody can answer");
                Box::pin(async move { refusal })
            }
        }
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Answering").field(&self.kinds()).finish()
    }
}

/// The answer of somebody who cannot give one. It never permits anything.
fn refusal(kind: RequestKind, why: &str) -> RequestAnswer {
    match kind {
        RequestKind::Question => RequestAnswer::Question(None),
        _ => RequestAnswer::Policy(PolicyOutcome::Deny {
            reason: Some(why.to_owned()),
        }),
    }
}

/// Answers requests until the conversation ends. Each answer is a task of its own: they do not
/// wait for each other, and one that panics is a refusal.
pub(crate) async fn answer_requests(
    session: Weak<Session>,
    mut updates: Attachment,
    answering: Answering,
) {
    let mut running = JoinSet::new();
    let mut asked: HashMap<tokio::task::Id, (RequestId, RequestKind)> = HashMap::new();
    let mut stop: HashMap<RequestId, tokio::task::AbortHandle> = HashMap::new();
    loop {
        let (request, answer) = tokio::select! {
            update = updates.next() => {
                match update {
                    None => return,
                    Some(Update::Request(Request { id, payload, .. })) => {
                        let kind = payload.kind();
                        let answering = answering.clone();
                        // Called inside the task: a closure may panic before its future exists.
                        let task = running.spawn(async move { answering.answer(payload).await });
                        asked.insert(task.id(), (id, kind));
                        stop.insert(id, task);
                    }
                    Some(Update::RequestClosed(id)) => {
                        if let Some(task) = stop.remove(&id) {
                            task.abort();
                        }
                    }
                    Some(_) => {}
                }
                continue;
            }
            Some(ended) = running.join_next_with_id() => match ended {
                Ok((task, answer)) => match asked.remove(&task) {
                    Some((id, _)) => (id, answer),
                    None => continue,
                },
                Err(error) => match asked.remove(&error.id()) {
                    Some((id, kind)) if error.is_panic() => {
                        (id, refusal(kind, "whoever was asked failed"))
                    }
                    _ => continue,
                },
            },
        };
        stop.remove(&request);
        let Some(session) = session.upgrade() else {
            return;
        };
        if session
            .send(Command::Answer { request, answer })
            .await
            .is_err()
        {
            return;
        }
    }
}
