//! Runs commands and ends them with everything they started.
//!
//! A command that an agent runs is seldom one process: a shell starts children, children go to the
//! background, some leave their process group. Killing the shell alone leaves the rest running and
//! holding the output pipe, so that whoever reads it waits for ever. This crate starts each
//! command in a session of its own, reads its output without waiting for strangers, and ends the
//! whole tree.
//!
//! It knows nothing of agents: the tool runtime, the MCP client and the harness client are built
//! on it. It is the only crate of the workspace that may contain `unsafe`.
//!
//! | to … | use |
//! |---|---|
//! | describe a command | [`CommandSpec`], [`Environment`] |
//! | run it, wait for it, end it | [`ProcessTree`] |
//! | read what it prints | [`OutputReader`] |
//! | turn its bytes into text as they come | [`Utf8Stream`] |
//! | keep the ends of long text in bounded memory | [`BoundedOutput`] |
//!
//! # Example
//!
//! ```
//! use harness_process::{BoundedOutput, CommandSpec, ExitStatus, ProcessTree, Utf8Stream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The background job keeps the pipe open; nobody waits for it.
//! let spec = CommandSpec::shell("sleep 600 & echo begun; exit 3");
//! let mut tree = ProcessTree::spawn(&spec)?;
//! let mut output = tree.take_output().ok_or("taken before")?;
//!
//! let (mut text, mut decoder) = (String::new(), Utf8Stream::new());
//! let mut kept = BoundedOutput::new(4096, 4096);
//! while let Some(bytes) = output.next_chunk().await? {
//!     text.clear();
//!     decoder.decode(&bytes, &mut text);
//!     kept.push(&text);
//! }
//! text.clear();
//! decoder.finish(&mut text);
//! kept.push(&text);
//!
//! assert_eq!(tree.wait().await?, ExitStatus::Code(3));
//! assert_eq!(kept.finish().to_string(), "begun\n");
//! drop(tree); // ends the background job too
//! # Ok(())
//! # }
//! ```
//!
//! # Which processes belong to a tree
//!
//! The command itself (the leader), and on Linux every process that
//!
//! * is in the leader's process group or session, or
//! * has a member as its parent, or had one when it was seen before, or
//! * carries the tree's mark in the environment it was started with, which finds a process that
//!   called `setsid` and lost its parent. The mark is the variable [`TREE_VARIABLE`], an id no
//!   other tree shares; nested harnesses append theirs.
//!
//! Not found is a process that left the session, lost its parent before anyone looked *and* threw
//! its environment away, or one that this user may not look into. A program that wants to outlive
//! its tree can do so: this is housekeeping, not a sandbox. The alternative, making the program a
//! child subreaper, changes how the whole host process must reap children, which is not a
//! library's to decide.
//!
//! On other Unix systems the tree is the leader's process group.
//!
//! # When the program itself is killed
//!
//! A program ended with SIGKILL cannot clean up. The first tree therefore starts one small
//! `/bin/sh` for the whole program, which waits on a pipe from it and, when that closes, kills the
//! trees that are still open, marks included. It uses no processor time until then, and ends
//! with the program; where there is no `/bin/sh` there is no such guard. [`ParentExit::Leave`]
//! keeps a tree out of it. Linux' parent-death signal is not used: it reaches the leader alone and
//! fires when the *thread* that spawned it ends.
//!
//! # Limits
//!
//! * After the leader has ended, output is read for [`DEFAULT_DRAIN`] more
//!   ([`CommandSpec::drain`]), then until what the leader can have left in the pipe has been read.
//! * [`ProcessTree::terminate`] waits 5 s for killed processes to go, then reports what is left.
//! * Dropping a tree scans the process table in at most 8 passes, without waiting.
//! * The leader's exit status stays with the kernel, so that its id cannot be given to another
//!   process, until the tree is dropped or terminated: until then it is listed as a zombie.
//!
//! Tested on Linux. The code for other Unix systems is compiled and tested on Linux only.

mod bounded;
mod command;
mod environment;
mod error;
mod exit;
mod guard;
mod os;
mod pipes;
mod tree;
mod utf8;

pub use bounded::{BoundedOutput, BoundedText, Dropped};
pub use command::{CommandSpec, DEFAULT_DRAIN, OutputMode, ParentExit, StdinMode};
pub use environment::{Environment, TREE_VARIABLE};
pub use error::Error;
pub use exit::{ExitStatus, Signal};
pub use pipes::{OutputEnd, OutputReader, StdinWriter};
pub use tree::ProcessTree;
pub use utf8::Utf8Stream;
