//! Embed an agent: one crate that brings the harness libraries together
