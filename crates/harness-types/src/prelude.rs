//! Aliases that would otherwise be spelled out in every trait.

use std::future::Future;
use std::pin::Pin;

/// A boxed future that can move between threads; what the object-safe traits return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
