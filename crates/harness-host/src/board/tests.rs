use harness_types::{
    AnswerDelta, AnswerEnd, ConversationId, FinishReason, Input, InputId, InputPart, ModelCallId,
    ModelPart, Record, RecordBody, Timestamp, TurnId, TurnStage,
};
use proptest::prelude::*;

use super::*;
use crate::{Attachment, Update};

/// A conversation whose changes go to a board, record by record.
struct Written {
    conversation: Conversation,
    board: Arc<Board>,
    writer: BoardWriter,
    trajectory: TrajectoryId,
}

impl Written {
    fn new() -> Self {
        let id = ConversationId::from_random([7; 16]);
        let conversation = Conversation::new(id.clone());
        let board = Arc::new(Board::default());
        let trajectory = TrajectoryId::root(&id);
        let writer = BoardWriter {
            board: Arc::clone(&board),
            _place: None,
        };
        let mut written = Self {
            conversation,
            board,
            writer,
            trajectory,
        };
        let trajectory = written.trajectory.clone();
        written.write(RecordBody::TurnStarted {
            trajectory: trajectory.clone(),
            turn: TurnId::new(0),
        });
        written.ask();
        written
    }

    fn write(&mut self, body: RecordBody) {
        let record = Record {
            at: Timestamp::from_micros(0),
            body,
        };
        let touch = self.conversation.apply(&record);
        self.writer.changed(&self.conversation, touch.as_slice());
    }

    fn ask(&mut self) {
        let (trajectory, call) = (self.trajectory.clone(), self.conversation.next_call());
        let stage = TurnStage::Running;
        self.write(RecordBody::TurnStageChanged {
            trajectory: trajectory.clone(),
            stage,
        });
        self.write(RecordBody::ModelCallStarted {
            trajectory,
            call,
            attempt: 0,
        });
    }

    fn last_call(&self) -> ModelCallId {
        ModelCallId::new(self.conversation.next_call().get() - 1)
    }

    fn say(&mut self, part: ModelPart) {
        let call = self.last_call();
        let root = self.conversation.root();
        let step = root.turn.as_ref().and_then(|turn| match &turn.waiting {
            harness_types::Waiting::Answer(call) => call.answer.step,
            _ => None,
        });
        let step = Some(step.unwrap_or_else(|| root.next_step()));
        let trajectory = self.trajectory.clone();
        self.write(RecordBody::AnswerDelta(AnswerDelta {
            trajectory,
            call,
            step,
            part,
        }));
    }

    fn end_answer(&mut self) {
        let (trajectory, call) = (self.trajectory.clone(), self.last_call());
        let end = AnswerEnd::Complete {
            finish: FinishReason::Stop,
        };
        self.write(RecordBody::AnswerEnded {
            trajectory,
            call,
            end,
        });
        self.ask();
    }

    fn take_input(&mut self, input: InputId) {
        let body = Input::user([InputPart::text("input")]);
        self.write(RecordBody::InputQueued { input, body });
        let (trajectory, step) = (
            self.trajectory.clone(),
            self.conversation.root().next_step(),
        );
        self.write(RecordBody::InputTaken {
            trajectory,
            input,
            step,
        });
    }
}

/// A reader that keeps what it was told.
struct Reader {
    attachment: Attachment,
    /// The texts put together from what was new, and the step as it was last shown.
    shown: BTreeMap<StepIndex, (String, String, Step)>,
}

impl Reader {
    fn attach(written: &Written) -> Self {
        let (history, attachment) = Attachment::with_history(Arc::clone(&written.board));
        let known = history.steps.into_iter().map(|(_, step)| {
            let (text, thinking) = (step.text.clone(), step.thinking.clone());
            (step.index, (text, thinking, step))
        });
        Self {
            attachment,
            shown: known.collect(),
        }
    }

    fn read(&mut self, most: usize) {
        for _ in 0..most {
            let Some(update) = self.attachment.take() else {
                return;
            };
            if let Update::Step(change) = update {
                let (mut text, mut thinking) = match self.shown.remove(&change.step.index) {
                    Some((text, thinking, _)) => (text, thinking),
                    None => (String::new(), String::new()),
                };
                text.push_str(change.text_delta());
                thinking.push_str(change.thinking_delta());
                self.shown
                    .insert(change.step.index, (text, thinking, change.step));
            }
        }
    }

    /// Reads all there is and compares it with the truth.
    fn check(mut self, conversation: &Conversation) {
        self.read(usize::MAX);
        let steps = &conversation.root().steps;
        for (n, step) in steps.iter().enumerate() {
            assert!(
                self.shown.contains_key(&step.index),
                "step {n} was never told"
            );
        }
        for (index, (text, thinking, shown)) in &self.shown {
            let step = &steps[index.get() as usize];
            assert_eq!(
                shown, step,
                "the last that was told is not the latest state"
            );
            assert_eq!(
                (text, thinking),
                (&step.text, &step.thinking),
                "deltas do not join"
            );
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Say(u8),
    EndAnswer,
    Input,
    Read(u8, u8),
    Attach,
    Detach(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => any::<u8>().prop_map(Op::Say),
        2 => Just(Op::EndAnswer),
        1 => Just(Op::Input),
        6 => (any::<u8>(), 1u8..5).prop_map(|(who, most)| Op::Read(who, most)),
        1 => Just(Op::Attach),
        1 => any::<u8>().prop_map(Op::Detach),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However fast or slow: each piece of text once, each step in its latest state, and never
    /// more than one announcement of a step.
    #[test]
    fn every_reader_is_told_everything_once(ops in prop::collection::vec(op(), 1..120)) {
        let mut written = Written::new();
        let mut readers = vec![Reader::attach(&written)];
        for op in ops {
            match op {
                Op::Say(n) => {
                    let text = ["a", "é", "", "long text "][usize::from(n) % 4].to_owned();
                    let signature = (n > 200).then(|| "c2ln".to_owned());
                    written.say(match n % 3 {
                        0 => ModelPart::Thought { text, signature },
                        _ => ModelPart::Text { text, signature },
                    });
                }
                Op::EndAnswer => written.end_answer(),
                Op::Input => written.take_input(written.conversation.next_input()),
                Op::Read(who, most) => {
                    let count = readers.len();
                    if let Some(reader) = readers.get_mut(usize::from(who) % count.max(1)) {
                        reader.read(usize::from(most));
                    }
                }
                Op::Attach => readers.push(Reader::attach(&written)),
                Op::Detach(who) if !readers.is_empty() => {
                    let gone = readers.swap_remove(usize::from(who) % readers.len());
                    drop(gone);
                }
                Op::Detach(_) => {}
            }
            let content = written.board.lock();
            let steps = written.conversation.root().steps.len();
            for unread in content.readers.values() {
                let told = unread.entries.iter().filter(|it| matches!(it, Entry::Step(..)));
                prop_assert!(told.count() <= steps, "a step is announced twice");
            }
            prop_assert_eq!(content.readers.len(), readers.len());
        }
        for reader in readers {
            reader.check(&written.conversation);
        }
    }
}

#[test]
fn a_reader_that_is_gone_costs_nothing() {
    let mut written = Written::new();
    let reader = Reader::attach(&written);
    written.take_input(InputId::new(0));
    drop(reader);
    assert_eq!(written.board.lock().readers.len(), 0);
}
