use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::BoxFuture;

/// How a scripted model waits: a program with a runtime hands over the runtime's own sleep.
pub type Sleeper = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// A sleeper that needs no runtime: each sleep is a short-lived thread that wakes its task.
///
/// The thread ends early when the future is dropped. Where no thread can be started the sleep is
/// over at once.
pub fn thread_sleeper() -> Sleeper {
    Arc::new(|duration| Box::pin(ThreadSleep::Idle(duration)))
}

enum ThreadSleep {
    Idle(Duration),
    Running(Arc<Shared>),
    Over,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    dropped: Condvar,
}

#[derive(Default)]
struct State {
    waker: Option<Waker>,
    over: bool,
    dropped: bool,
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &*self {
            Self::Over => Poll::Ready(()),
            Self::Idle(duration) => {
                let shared = Arc::new(Shared::default());
                shared.lock().waker = Some(context.waker().clone());
                let duration = *duration;
                let theirs = Arc::clone(&shared);
                let thread = std::thread::Builder::new()
                    .name("script-sleep".into())
                    .spawn(move || theirs.sleep(duration));
                if thread.is_err() {
                    *self = Self::Over;
                    return Poll::Ready(());
                }
                *self = Self::Running(shared);
                Poll::Pending
            }
            Self::Running(shared) => {
                let mut state = shared.lock();
                if !state.over {
                    state.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
                drop(state);
                *self = Self::Over;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        if let Self::Running(shared) = self {
            shared.lock().dropped = true;
            shared.dropped.notify_all();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, duration: Duration) {
        let start = Instant::now();
        let mut state = self.lock();
        while !state.dropped {
            let Some(left) = duration
                .checked_sub(start.elapsed())
                .filter(|d| !d.is_zero())
            else {
                break;
            };
            state = self
                .dropped
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.over = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeps_at_least_as_long_as_asked() {
        let start = Instant::now();
        thread_sleeper()(Duration::from_millis(5)).await;
        assert!(start.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn a_dropped_sleep_ends_its_thread() {
        let mut sleep = Box::pin(ThreadSleep::Idle(Duration::from_secs(86_400)));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Pending);
        let ThreadSleep::Running(shared) = &*sleep else {
            panic!("the sleep has not started");
        };
        let thread = Arc::downgrade(shared);
        drop(sleep);
        // The thread holds the last reference; it goes when the thread has ended.
        while thread.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}
