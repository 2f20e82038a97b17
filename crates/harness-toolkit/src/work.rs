//! Work that blocks: file tools run it on the runtime's blocking threads.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

use harness_types::ToolError;

/// Tells work on another thread that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Memory::Relaxed)
    }

    pub(crate) fn cancel(&self) {
        self.0.store(true, Memory::Relaxed);
    }

    /// Fails once nobody waits any more.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.get() {
            return Err(io::Error::other("the call was cancelled"));
        }
        Ok(())
    }

    /// A reader that fails once nobody waits any more.
    pub(crate) fn guard<R: Read>(&self, inner: R) -> impl Read {
        Guarded {
            inner,
            cancelled: self.clone(),
        }
    }
}

struct Guarded<R> {
    inner: R,
    cancelled: Cancelled,
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.cancelled.check()?;
        self.inner.read(buffer)
    }
}

struct CancelOnDrop(Cancelled);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs `work` on a thread that may block. Dropping the future tells the work to stop; it ends
/// soon, without having left anything half-done.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Cancelled) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancelled = Cancelled::default();
    let guard = CancelOnDrop(cancelled.clone());
    let result = tokio::task::spawn_blocking(move || work(&cancelled)).await;
    drop(guard);
    result.unwrap_or_else(|_| Err(ToolError::failed("the tool broke off on an internal error")))
}

/// The first few of many items in their order, and how many there are in all.
#[derive(Debug)]
pub(crate) struct FirstFew<T> {
    kept: BinaryHeap<T>,
    limit: usize,
    total: u64,
}

impl<T: Ord> FirstFew<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            kept: BinaryHeap::new(),
            limit,
            total: 0,
        }
    }

    pub(crate) fn push(&mut self, item: T) {
        self.total += 1;
        self.keep(item);
    }

    /// Counts items that are known not to be among the first.
    #[cfg_attr(
        not(feature = "search"),
        expect(dead_code, reason = "only searching needs it")
    )]
    pub(crate) fn count(&mut self, more: u64) {
        self.total += more;
    }

    fn keep(&mut self, item: T) {
        if self.kept.len() < self.limit {
            self.kept.push(item);
        } else if let Some(mut last) = self.kept.peek_mut()
            && item.cmp(&last) == Ordering::Less
        {
            *last = item;
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn into_sorted(self) -> Vec<T> {
        self.kept.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_few_are_those_of_the_sorted_list(
            items in prop::collection::vec(any::<u8>(), 0..50), limit in 0usize..10,
        ) {
            let mut few = FirstFew::new(limit);
            items.iter().for_each(|item| few.push(*item));
            prop_assert_eq!(few.total(), items.len() as u64);
            let mut sorted = items;
            sorted.sort_unstable();
            sorted.truncate(limit);
            prop_assert_eq!(few.into_sorted(), sorted);
        }
    }
}
