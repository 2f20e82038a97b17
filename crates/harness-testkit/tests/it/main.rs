//! The fixtures, tried on each other.

mod http;
mod server;
mod wire;
