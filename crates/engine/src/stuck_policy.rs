//! Who decides about what is stuck.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{Decision, StuckCase};

/// A hook of the business. It is asked when an intent has become STUCK, and again after every "wait"; an intent that is stuck is
/// still confirmed if the chain mines it. Whoever is asked takes as long as it likes, and the lane goes on meanwhile; no answer is no
/// decision.
#[async_trait]
pub trait StuckPolicy: Send + Sync + fmt::Debug {
    async fn decide(&self, case: &StuckCase) -> Decision;
}

/// Cancels and replaces nothing by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitForOperator;

#[async_trait]
impl StuckPolicy for WaitForOperator {
    async fn decide(&self, _: &StuckCase) -> Decision {
        Decision::Wait
    }
}
