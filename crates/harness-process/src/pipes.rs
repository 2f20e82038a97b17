use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::Sleep;

use crate::os::Exit;

/// The most one call of [`OutputReader::next_chunk`] returns.
const CHUNK_BYTES: usize = 16 * 1024;

/// The most a pipe holds for an unprivileged user: Linux' default of `fs.pipe-max-size`, and more
/// than any pipe of other systems. What a process wrote before it ended is among the first so many
/// bytes that are read after its end.
const MOST_PIPE_BYTES: usize = 1024 * 1024;

/// The standard input of a command.
///
/// Dropping it, or shutting it down, closes the pipe: the command sees the end of its input.
/// Writes fail with [`io::ErrorKind::BrokenPipe`] once no process holds the other end.
#[derive(Debug)]
pub struct StdinWriter {
    /// `None` once shut down.
    pipe: Option<pipe::Sender>,
}

impl StdinWriter {
    pub(crate) fn new(pipe: pipe::Sender) -> Self {
        Self { pipe: Some(pipe) }
    }
}

impl AsyncWrite for StdinWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.pipe {
            Some(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // A pipe has no buffer on this side.
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe = None;
        Poll::Ready(Ok(()))
    }
}

/// Why an [`OutputReader`] came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputEnd {
    /// Every process that could write has closed the pipe: this is all there will ever be.
    Closed,
    /// The command has ended and the drain time has passed, but another process still holds the
    /// pipe. What the command itself wrote has been read whole.
    Abandoned,
}

/// Reads what a command prints.
///
/// The end comes when all writers have closed the pipe, or some time after the command itself has
/// ended even though another process still holds it (F002); [`end`](Self::end) tells which.
/// Dropping the reader closes the pipe: a command that goes on writing gets SIGPIPE.
///
/// Somebody must keep reading: a command blocks when its pipe is full (64 KiB on Linux).
pub struct OutputReader {
    /// `None` once the end was reached.
    pipe: Option<pipe::Receiver>,
    leader: Leader,
    drain: Duration,
    /// Bytes read since the leader was seen to have ended.
    drained_bytes: usize,
    end: Option<OutputEnd>,
}

/// What the reader knows of the process whose end counts.
enum Leader {
    Running(Pin<Box<dyn Future<Output = ()> + Send + Sync>>),
    Draining(Pin<Box<Sleep>>),
    /// Ended, and the drain time has passed.
    Gone,
}

impl OutputReader {
    pub(crate) fn new(
        pipe: pipe::Receiver,
        mut exit: watch::Receiver<Exit>,
        drain: Duration,
    ) -> Self {
        let ended = async move {
            // A closed channel means that nobody watches any more: that is an end as well.
            let _ = exit.wait_for(|exit| !matches!(exit, Exit::Running)).await;
        };
        Self {
            pipe: Some(pipe),
            leader: Leader::Running(Box::pin(ended)),
            drain,
            drained_bytes: 0,
            end: None,
        }
    }

    /// Returns the next bytes, at most 16 KiB, `None` at the end.
    ///
    /// # Errors
    ///
    /// The pipe's error, which is not expected to happen.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        let read = self.read_buf(&mut chunk).await?;
        Ok((read > 0).then(|| chunk.freeze()))
    }

    /// Returns why there is no more output, `None` before the end.
    pub fn end(&self) -> Option<OutputEnd> {
        self.end
    }

    /// Moves on from `Running` over `Draining` to `Gone` as far as possible.
    fn poll_leader(&mut self, cx: &mut Context<'_>) {
        if let Leader::Running(ended) = &mut self.leader
            && ended.as_mut().poll(cx).is_ready()
        {
            self.leader = Leader::Draining(Box::pin(tokio::time::sleep(self.drain)));
        }
        if let Leader::Draining(sleep) = &mut self.leader
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.leader = Leader::Gone;
        }
    }

    fn finish(&mut self, end: OutputEnd) {
        self.pipe = None;
        self.end = Some(end);
    }
}

impl AsyncRead for OutputReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pipe.is_none() || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        this.poll_leader(cx);
        let gone = matches!(this.leader, Leader::Gone);
        if gone && this.drained_bytes >= MOST_PIPE_BYTES {
            this.finish(OutputEnd::Abandoned);
            return Poll::Ready(Ok(()));
        }
        let Some(pipe) = &mut this.pipe else {
            return Poll::Ready(Ok(()));
        };

        let before = buffer.filled().len();
        let read = Pin::new(pipe).poll_read(cx, buffer);
        if gone && read.is_pending() {
            this.finish(OutputEnd::Abandoned);
            return Poll::Ready(Ok(()));
        }
        ready!(read)?;
        match buffer.filled().len() - before {
            0 => this.finish(OutputEnd::Closed),
            read if !matches!(this.leader, Leader::Running(_)) => this.drained_bytes += read,
            _ => {}
        }
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputReader")
            .field("drain", &self.drain)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
