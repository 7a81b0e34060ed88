//! Reconciling the ledger with the chain.
//!
//! - `scan`: which blocks to read, and what they hold
//! - `plan`: what a scan means for the ledger
//! - `apply`: the changes that follow, by command or by policy

mod apply;
pub(super) mod plan;
pub(super) mod scan;
