use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Holds a scripted answer at a point until a test lets it go on, without any clock.
///
/// Clones are handles of the same gate. A gate is shut at first.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use harness_types::Gate;
///
/// let gate = Gate::new();
/// let passing = tokio::spawn(gate.pass());
/// gate.reached(1).await; // the task stands at the gate …
/// assert!(!passing.is_finished());
/// gate.open();
/// passing.await.unwrap(); // … and is through
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    arrivals: u64,
    permits: usize,
    open: bool,
    /// Who stands at the gate, by number of arrival, in order.
    queue: VecDeque<(u64, Waker)>,
    /// Who waits for arrivals.
    watchers: Vec<Waker>,
}

impl Gate {
    /// A shut gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        let mut state = self.lock();
        state.open = true;
        wake_queue(state);
    }

    /// Lets one more arrival pass: the one that waits longest, or else the next.
    pub fn let_one_pass(&self) {
        let mut state = self.lock();
        state.permits += 1;
        wake_queue(state);
    }

    /// How often the gate has been arrived at, passed or not.
    pub fn arrivals(&self) -> u64 {
        self.lock().arrivals
    }

    /// Waits until the gate has been arrived at `times` times in all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub fn reached(&self, times: u64) -> impl Future<Output = ()> + Send + use<> {
        let gate = self.clone();
        std::future::poll_fn(move |context| {
            let mut state = gate.lock();
            if state.arrivals >= times {
                return Poll::Ready(());
            }
            let waker = context.waker();
            if !state.watchers.iter().any(|known| known.will_wake(waker)) {
                state.watchers.push(waker.clone());
            }
            Poll::Pending
        })
    }

    /// Arrives at the gate, when first polled, and waits to be let through.
    ///
    /// # Cancel safety
    ///
    /// An arrival stays counted; no permit is used up by a future that is dropped while it waits.
    pub fn pass(&self) -> GatePass {
        GatePass {
            gate: self.clone(),
            arrival: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets everybody who waits look again; most find that nothing has changed.
fn wake_queue(state: MutexGuard<'_, State>) {
    let wakers: Vec<_> = state.queue.iter().map(|(_, waker)| waker.clone()).collect();
    // A waker may run code that looks at the gate.
    drop(state);
    wakers.iter().for_each(Waker::wake_by_ref);
}

impl PartialEq for Gate {
    /// Whether both are handles of one gate.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Gate")
            .field("arrivals", &state.arrivals)
            .field("permits", &state.permits)
            .field("open", &state.open)
            .finish_non_exhaustive()
    }
}

/// A passage through a [`Gate`]: see [`Gate::pass`].
#[derive(Debug)]
#[must_use = "a future does nothing unless polled"]
pub struct GatePass {
    gate: Gate,
    arrival: Option<u64>,
}

impl Future for GatePass {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate.clone();
        let mut state = gate.lock();
        let mut watchers = Vec::new();
        let arrival = *self.arrival.get_or_insert_with(|| {
            state.arrivals += 1;
            let arrival = state.arrivals;
            state.queue.push_back((arrival, context.waker().clone()));
            watchers = std::mem::take(&mut state.watchers);
            arrival
        });
        let place = state
            .queue
            .iter()
            .position(|(number, _)| *number == arrival);
        let polled = match place {
            // It passed when it was polled before.
            None => Poll::Ready(()),
            Some(place) if state.open || place < state.permits => {
                if !state.open {
                    state.permits -= 1;
                }
                state.queue.remove(place);
                Poll::Ready(())
            }
            Some(place) => {
                state.queue[place].1.clone_from(context.waker());
                Poll::Pending
            }
        };
        drop(state);
        watchers.into_iter().for_each(Waker::wake);
        polled
    }
}

impl Drop for GatePass {
    fn drop(&mut self) {
        let Some(arrival) = self.arrival else { return };
        let mut state = self.gate.lock();
        let waiting = state.queue.len();
        state.queue.retain(|(number, _)| *number != arrival);
        if state.queue.len() < waiting {
            // Those behind have moved up, perhaps to a permit.
            wake_queue(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_permit_lets_one_through_and_an_open_gate_everybody() {
        let gate = Gate::new();
        let first = tokio::spawn(gate.pass());
        let second = tokio::spawn(gate.pass());
        gate.reached(2).await;
        assert!(!first.is_finished() && !second.is_finished());
        gate.let_one_pass();
        first.await.unwrap();
        assert!(!second.is_finished());
        gate.open();
        second.await.unwrap();
        gate.pass().await;
        assert_eq!(gate.arrivals(), 3);
    }

    #[tokio::test]
    async fn a_dropped_arrival_leaves_its_permit_to_the_next() {
        let gate = Gate::new();
        let first = tokio::spawn(gate.pass());
        gate.reached(1).await;
        let second = tokio::spawn(gate.pass());
        gate.reached(2).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        gate.let_one_pass();
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_permit_given_early_is_kept() {
        let gate = Gate::new();
        gate.let_one_pass();
        gate.pass().await;
        let mut second = std::pin::pin!(gate.pass());
        let polled = std::future::poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx))).await;
        assert_eq!(polled, Poll::Pending);
    }
}
