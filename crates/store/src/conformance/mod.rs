//! One suite for every store. An implementation calls [`conformance_suite!`](crate::conformance_suite) in its tests.

mod harness;

pub use harness::Harness;
