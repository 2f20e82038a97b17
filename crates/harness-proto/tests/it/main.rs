//! Integration tests of the wire types.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod corpus;
mod descriptors;
mod round_trip;
