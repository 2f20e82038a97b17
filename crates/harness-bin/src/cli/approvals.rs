//! Answering what the agent asks.

use std::collections::BTreeSet;

use harness_types::{
    Choice, PolicyOutcome, Question, QuestionAnswer, RequestAnswer, RequestPayload, ToolCall,
};

use super::action::{short_subject, subject};
use super::lines::{Keep, Line, Lines};
use super::output::{Output, Style};
use super::view::Decision;

/// Who answers.
pub(crate) struct Approvals {
    person: Option<Lines>,
    /// Tools that the person has allowed for the rest of the session, by policy name.
    always: BTreeSet<String>,
}

/// An answer, or the wish to stop.
pub(crate) enum Reply {
    /// The answer, and the decision about a call that it is.
    Answer(RequestAnswer, Option<Decision>),
    /// Ctrl-C.
    Stop,
}

impl Approvals {
    /// The person whose lines these are; nobody without.
    pub(crate) fn new(person: Option<Lines>) -> Self {
        Self {
            person,
            always: BTreeSet::new(),
        }
    }

    /// The person who answers, if there is one.
    pub(crate) fn person(&self) -> Option<&Lines> {
        self.person.as_ref()
    }

    /// Answers a request.
    ///
    /// # Cancel safety
    ///
    /// As [`Lines::read`].
    pub(crate) async fn answer(&mut self, output: &mut Output, payload: &RequestPayload) -> Reply {
        match payload {
            RequestPayload::Confirmation { tool, call, .. } => {
                self.confirm(output, tool, call).await
            }
            RequestPayload::Question { questions } => match &self.person {
                Some(lines) => ask(output, lines, questions).await,
                None => Reply::Answer(RequestAnswer::Question(None), None),
            },
            // Nothing else is asked of us; whatever it is, it is not permitted.
            _ => Reply::Answer(
                RequestAnswer::Policy(PolicyOutcome::Deny { reason: None }),
                None,
            ),
        }
    }

    async fn confirm(&mut self, output: &mut Output, tool: &str, call: &ToolCall) -> Reply {
        if self.always.contains(tool) {
            return allowed();
        }
        let Some(lines) = &self.person else {
            let reason = format!(
                "{tool} needs approval and nobody can be asked; to allow it, start with --allow \
                 {tool} or --yes"
            );
            return refused(Some(reason), Decision::Unanswered);
        };
        let about = short_subject(call);
        output.note(&[
            (Style::Ask, "? "),
            (Style::Bold, tool),
            (Style::Plain, " "),
            (Style::Plain, &about),
        ]);
        // Nobody approves what they have not been shown.
        if about != subject(call) {
            details(output, call);
        }
        loop {
            let prompt = format!("  [y]es, [n]o, [a]lways {tool}, [d]etails › ");
            match lines.read(&prompt, Keep::Nothing).await {
                Line::Text(line) => match line.trim().to_lowercase().as_str() {
                    "y" | "yes" => return allowed(),
                    "n" | "no" => return refused(None, Decision::Refused),
                    "a" | "always" => {
                        self.always.insert(tool.to_owned());
                        return allowed();
                    }
                    "d" | "details" => details(output, call),
                    "" => {}
                    _ => output.note(&[(
                        Style::Dim,
                        "  y, n, a or d; Ctrl-C refuses and stops the turn",
                    )]),
                },
                Line::Interrupted => return Reply::Stop,
                Line::End => return refused(None, Decision::Refused),
            }
        }
    }
}

fn allowed() -> Reply {
    Reply::Answer(
        RequestAnswer::Policy(PolicyOutcome::Allow),
        Some(Decision::Allowed),
    )
}

fn refused(reason: Option<String>, decision: Decision) -> Reply {
    Reply::Answer(
        RequestAnswer::Policy(PolicyOutcome::Deny { reason }),
        Some(decision),
    )
}

fn details(output: &mut Output, call: &ToolCall) {
    for (name, value) in &call.args {
        let text = match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        if text.contains('\n') {
            output.note(&[(Style::Dim, "  "), (Style::Dim, name), (Style::Dim, ":")]);
            for line in text.lines() {
                output.note(&[(Style::Dim, "  │ "), (Style::Plain, line)]);
            }
        } else {
            output.note(&[
                (Style::Dim, "  "),
                (Style::Dim, name),
                (Style::Dim, ": "),
                (Style::Plain, &text),
            ]);
        }
    }
}

async fn ask(output: &mut Output, lines: &Lines, questions: &[Question]) -> Reply {
    let mut answers = Vec::new();
    for question in questions {
        output.note(&[(Style::Ask, "? "), (Style::Bold, &question.question)]);
        for (n, option) in (1..).zip(&question.options) {
            output.note(&[(Style::Plain, &format!("  {n} {option}"))]);
        }
        let prompt = match question.choice {
            Choice::One => "  number or own words, empty to skip › ",
            Choice::Many => "  numbers such as 1,3 or own words, empty to skip › ",
        };
        match lines.read(prompt, Keep::Nothing).await {
            Line::Text(line) => answers.push(read_answer(question, &line)),
            Line::Interrupted => return Reply::Stop,
            Line::End => return Reply::Answer(RequestAnswer::Question(None), None),
        }
    }
    Reply::Answer(RequestAnswer::Question(Some(answers)), None)
}

/// Numbers of options, or else words.
fn read_answer(question: &Question, line: &str) -> QuestionAnswer {
    let line = line.trim();
    if line.is_empty() {
        return QuestionAnswer::Skipped;
    }
    let count = question.options.len();
    let numbers: Option<Vec<u32>> = line
        .split([',', ' '])
        .filter(|piece| !piece.is_empty())
        .map(|piece| {
            let number: u32 = piece.parse().ok()?;
            let index = number.checked_sub(1)?;
            (usize::try_from(index).ok()? < count).then_some(index)
        })
        .collect();
    match numbers {
        Some(options) if question.choice == Choice::Many || options.len() == 1 => {
            QuestionAnswer::Chosen {
                options,
                text: String::new(),
            }
        }
        _ => QuestionAnswer::Chosen {
            options: Vec::new(),
            text: line.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_numbers_or_words() {
        let question = |choice| Question {
            question: "Which?".into(),
            options: vec!["a".into(), "b".into()],
            choice,
        };
        let chosen = |options: &[u32], text: &str| QuestionAnswer::Chosen {
            options: options.to_vec(),
            text: text.to_owned(),
        };
        let one = question(Choice::One);
        assert_eq!(read_answer(&one, " 2 "), chosen(&[1], ""));
        assert_eq!(read_answer(&one, "1 2"), chosen(&[], "1 2"));
        assert_eq!(read_answer(&one, "3"), chosen(&[], "3"));
        assert_eq!(read_answer(&one, "0"), chosen(&[], "0"));
        assert_eq!(read_answer(&one, "the first"), chosen(&[], "the first"));
        assert_eq!(read_answer(&one, "  "), QuestionAnswer::Skipped);
        let many = question(Choice::Many);
        assert_eq!(read_answer(&many, "1, 2"), chosen(&[0, 1], ""));
    }
}
