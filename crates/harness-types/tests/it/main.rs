//! Tests of the public interface.

mod folding;
mod records;
