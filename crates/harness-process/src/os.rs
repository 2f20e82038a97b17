//! What differs between operating systems: learning that a process has ended, and finding the
//! processes of a tree.
//!
//! `portable` works on any Unix; `linux` builds on it.

use std::io;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::ExitStatus;

mod portable;

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub(crate) use linux::{Members, watch_exit};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{Members, watch_exit};

pub(crate) use portable::new_session;

/// What is known of a leader's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Running,
    Ended(ExitStatus),
    /// It has ended, but somebody else collected its status.
    Lost,
}

/// Looks whether a child has ended, without collecting its status: its id stays taken.
pub(crate) fn peek_exit(pid: Pid) -> io::Result<Option<ExitStatus>> {
    wait(pid, WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG)
}

/// Waits for a child to end and collects its status: its id is free afterwards.
pub(crate) fn reap(pid: Pid) -> io::Result<Option<ExitStatus>> {
    wait(pid, WaitIdOptions::empty())
}

/// Like [`reap`], but returns `None` while the child runs.
pub(crate) fn try_reap(pid: Pid) -> io::Result<Option<ExitStatus>> {
    wait(pid, WaitIdOptions::NOHANG)
}

fn wait(pid: Pid, options: WaitIdOptions) -> io::Result<Option<ExitStatus>> {
    wait_for(|| WaitId::Pid(pid), options)
}

fn wait_for<'a>(
    id: impl Fn() -> WaitId<'a>,
    options: WaitIdOptions,
) -> io::Result<Option<ExitStatus>> {
    let options = WaitIdOptions::EXITED | options;
    let status = rustix::io::retry_on_intr(|| waitid(id(), options))?;
    Ok(status.as_ref().and_then(ExitStatus::from_wait))
}
