//! The hook that decides about stuck intents.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{Decision, StuckCase};

/// A hook for the user's business rules. The engine asks it when an intent becomes STUCK, and again after every "wait".
/// A stuck intent is still confirmed if the chain mines it. The lane continues while the hook thinks; without an answer
/// there is no decision.
#[async_trait]
pub trait StuckPolicy: Send + Sync + fmt::Debug {
    async fn decide(&self, case: &StuckCase) -> Decision;
}

/// The default policy: always waits, and leaves the decision to an operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitForOperator;

#[async_trait]
impl StuckPolicy for WaitForOperator {
    async fn decide(&self, _: &StuckCase) -> Decision {
        Decision::Wait
    }
}
