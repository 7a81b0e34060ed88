//! S19: a revert in simulation fails a queued intent only when no slot of the lane before it is unmined, since an
//! unmined transaction may be the one that the intent depends on.

use gapless_domain::{FailReason, FinalFailure, SlotKind, TxState};

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct SimulationReverts;

impl Check for SimulationReverts {
    fn promise(&self) -> &'static str {
        "S19"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        let is_revert = |state: &TxState| {
            matches!(state, TxState::FailedFinal(FinalFailure::Unbound(FailReason::SimulationReverted, _)))
        };
        let Some(change) = commit.changes().iter().find(|change| is_revert(change.to())) else { return Ok(()) };
        let lane = commit.lease().submitter();
        let (Some(book), Some(last)) = (view.ledger.lane(lane), view.before.last_slot) else { return Ok(()) };
        let closed_below = book.cursor.as_ref().map_or(0, |cursor| cursor.open_nonce.get());
        let is_mined = |nonce: u64| view.blocks.was_used(lane, nonce) || view.is_seen_mined(lane, nonce);
        let mut open = book.slots.range(closed_below..).filter(|(nonce, _)| **nonce <= last);
        match open.find(|(nonce, kind)| **kind != SlotKind::Foreign && !is_mined(**nonce)) {
            Some((nonce, _)) => {
                let what = format!("{} fails by a simulation, and nonce {nonce} is not mined", change.tx_id());
                Err(CheckFailure::of(lane, what))
            }
            None => Ok(()),
        }
    }
}
