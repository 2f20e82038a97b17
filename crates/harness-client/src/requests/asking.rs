//! Steps that wait for the user.

use harness_proto::localharness::{
    self as wire, MultipleChoice, StepUpdate, ToolConfirmation, UserQuestionAnswer,
    UserQuestionsResponse, input_event, user_question, user_question_answer,
    user_questions_response,
};

use super::{Job, RequestKey, event};
use crate::StepId;
use crate::handlers::{Answer, Confirmation, ConfirmationVerdict, Handlers, Question, Selection};

/// Questions to the user; `None` when the step asks none.
pub(crate) fn questions(handlers: &Handlers, step: &StepUpdate) -> Option<Job> {
    let asked = step.questions_request.clone()?.questions;
    let handler = handlers.questions.clone();
    let respond = {
        let (trajectory_id, step_index) = (step.trajectory_id.clone(), step.step_index);
        move |result| {
            event(input_event::Event::QuestionResponse(
                UserQuestionsResponse {
                    trajectory_id,
                    step_index,
                    result: Some(result),
                },
            ))
        }
    };
    let answer = respond.clone();
    let run = async move {
        let Some(handler) = handler else {
            return Err("nobody here answers questions".into());
        };
        // Kinds of question that are not known yet count as skipped.
        let known: Vec<Option<Question>> = asked.into_iter().map(question).collect();
        let questions: Vec<Question> = known.iter().flatten().cloned().collect();
        let mut answers = handler(questions).await?.into_iter();
        let answers = known.iter().map(|question| match question {
            None => user_answer(Answer::Skipped, 0),
            Some(question) => {
                let answer = answers.next().unwrap_or(Answer::Skipped);
                user_answer(answer, question.choices.len())
            }
        });
        Ok(answer(user_questions_response::Result::Response(
            user_questions_response::QuestionsResponse {
                answers: answers.collect(),
            },
        )))
    };
    let key = RequestKey::Question(StepId::of(step));
    Some(Job::new(key, run, move |_| {
        respond(user_questions_response::Result::Cancelled(true))
    }))
}

fn question(asked: wire::UserQuestion) -> Option<Question> {
    let user_question::QuestionType::MultipleChoice(MultipleChoice {
        question,
        choices,
        is_multi_select,
    }) = asked.question_type?;
    Some(Question {
        text: question.unwrap_or_default(),
        choices,
        selection: match is_multi_select {
            Some(true) => Selection::Many,
            _ => Selection::One,
        },
    })
}

fn user_answer(answer: Answer, choices: usize) -> UserQuestionAnswer {
    use user_question_answer::Answer as Wire;
    let choice = match answer {
        Answer::Skipped => {
            return UserQuestionAnswer {
                answer: Some(Wire::Unanswered(true)),
            };
        }
        Answer::Choices(picked) => wire::MultipleChoiceAnswer {
            selected_choice_indices: picked
                .into_iter()
                .filter(|position| *position < choices)
                .filter_map(|position| position.try_into().ok())
                .collect(),
            freeform_response: None,
        },
        Answer::Text(text) => wire::MultipleChoiceAnswer {
            selected_choice_indices: Vec::new(),
            freeform_response: Some(text),
        },
    };
    UserQuestionAnswer {
        answer: Some(Wire::MultipleChoiceAnswer(choice)),
    }
}

/// A call that waits for a yes or no; `None` when the step does not.
pub(crate) fn confirmation(handlers: &Handlers, step: &StepUpdate) -> Option<Job> {
    step.tool_confirmation_request.as_ref()?;
    let handler = handlers.confirm.clone();
    let respond = {
        let (trajectory_id, step_index) = (step.trajectory_id.clone(), step.step_index);
        move |verdict| {
            event(input_event::Event::ToolConfirmation(ToolConfirmation {
                trajectory_id,
                step_index,
                accepted: Some(verdict == ConfirmationVerdict::Accept),
            }))
        }
    };
    let answer = respond.clone();
    let asked = Confirmation {
        step: Box::new(step.clone()),
    };
    let run = async move {
        let Some(handler) = handler else {
            return Err("nobody here confirms tool calls".into());
        };
        Ok(answer(handler(asked).await?))
    };
    let key = RequestKey::Confirmation(StepId::of(step));
    Some(Job::new(key, run, move |_| {
        respond(ConfirmationVerdict::Reject)
    }))
}
