//! The checks: rules that must hold whatever happens, one file for each promise.
//!
//! A check sees every moment, and the end of the world. A [`WorldView`] keeps the ledger as the commits wrote it and
//! the chain as the blocks made it, once for all checks.
//!
//! Architecture invariant: a check knows nothing of how the engine works. It uses only what was written and what was
//! mined.

use std::fmt;
use std::time::Duration;

use gapless_domain::SubmitterId;

use crate::history::Moment;
use crate::world_spec::WorldSpec;

mod acceptance_order;
mod blocks;
mod end_state;
mod false_alarms;
#[cfg(test)]
mod fixture;
mod late_sends;
mod ledger;
mod liveness;
mod notices;
mod p1_exactly_once;
mod p2_no_gap;
mod p3_write_before_send;
mod p4_sticky_nonce;
mod p5_fenced;
mod p6_durable;
mod p7_no_silent_jump;
mod p8_events;
mod p9_chain_decides;
mod simulation_reverts;
mod spending;
#[cfg(test)]
mod tests;
mod windows;
mod world_view;

pub use blocks::{AccountUse, Blocks, TxLocation};
pub use end_state::{EndState, EndTx, Scan, check_end_state, read_end_state};
pub use ledger::{AttemptEntry, IntentEntry, LaneLedger, Ledger, LedgerBefore};
pub use world_view::WorldView;

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// `P1`, `N12`, `liveness`.
    pub promise: &'static str,
    pub lane: Option<SubmitterId>,
    pub what: String,
    /// The simulated time of the violation.
    pub at: Duration,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)?;
        match &self.lane {
            Some(lane) => write!(f, " (lane {lane})"),
            None => Ok(()),
        }
    }
}

/// The reason why a check failed, as text, and the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    pub lane: Option<SubmitterId>,
    pub what: String,
}

impl CheckFailure {
    pub fn new(what: impl Into<String>) -> Self {
        CheckFailure { lane: None, what: what.into() }
    }

    pub fn of(lane: &SubmitterId, what: impl Into<String>) -> Self {
        CheckFailure { lane: Some(lane.clone()), what: what.into() }
    }
}

/// The check of one promise.
pub trait Check: fmt::Debug {
    fn promise(&self) -> &'static str;

    /// Called for every moment, in order. The view has the moment already.
    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure>;

    /// Called once, at the end of the world, long after the last fault.
    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        let _ = view;
        Ok(())
    }
}

/// One check of each kind.
pub fn all(_plan: &WorldSpec) -> Vec<Box<dyn Check>> {
    vec![
        Box::new(p1_exactly_once::ExactlyOnce),
        Box::new(p2_no_gap::NoGap),
        Box::new(p3_write_before_send::WriteBeforeSend),
        Box::new(p4_sticky_nonce::StickyNonce),
        Box::new(p5_fenced::Fenced),
        Box::new(p6_durable::AcceptedIsDurable),
        Box::new(p7_no_silent_jump::NoSilentJump::default()),
        Box::new(p8_events::Events),
        Box::new(p9_chain_decides::ChainDecides),
        Box::new(notices::ConfirmationNotices::default()),
        Box::new(windows::Windows),
        Box::new(acceptance_order::AcceptanceOrder::default()),
        Box::new(simulation_reverts::SimulationReverts),
        Box::new(false_alarms::FalseAlarms::default()),
        Box::new(late_sends::LateSends::default()),
        Box::new(spending::Spending::default()),
        Box::new(liveness::Liveness::default()),
    ]
}
