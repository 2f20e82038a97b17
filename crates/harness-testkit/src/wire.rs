mod client;
mod spawn;

pub use client::{WireClient, is_idle};
pub use spawn::{Spawn, WireProcess};
