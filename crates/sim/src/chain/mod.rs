//! The chain.
