//! What the programs `harness` and `localharness` are made of.
//!
//! Not a library for others: it has no stable interface. Programs that want an agent take
//! `harness-sdk`, those that drive a harness process take `harness-client`.

pub mod assemble;
pub mod cli;
pub mod environment;
pub mod log;
pub mod scripted;
pub mod serve;
