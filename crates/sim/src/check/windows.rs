//! N12, N13: the number of nonces that are bound and not consumed is at most the window; one for a strict lane.

use gapless_domain::{ReleaseRule, SlotKind, SubmitterId};

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct Windows;

impl Check for Windows {
    fn promise(&self) -> &'static str {
        "N12"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        let lane = commit.lease().submitter();
        let consumed = |nonce: u64, kind: SlotKind| kind == SlotKind::Foreign || is_consumed(lane, nonce, view);
        // Nonces that the chain has used already were found, not bound.
        let binds = commit.slots().iter().any(|slot| !consumed(slot.nonce.get(), slot.kind));
        let Some(lane_ledger) = view.ledger.lane(lane).filter(|_| binds) else { return Ok(()) };
        let closed_below = lane_ledger.cursor.as_ref().map_or(0, |cursor| cursor.open_nonce.get());
        let open = lane_ledger.slots.range(closed_below..).filter(|(nonce, kind)| !consumed(**nonce, **kind));
        let open: Vec<u64> = open.map(|(nonce, _)| *nonce).collect();
        let window = usize::from(view.plan.window);
        if open.len() > window {
            return Err(CheckFailure::of(
                lane,
                format!("nonces {open:?} are bound and not consumed, but the window is {window}"),
            ));
        }
        Ok(())
    }
}

/// True if any node could know the nonce as consumed: by any block that ever was, an orphaned one too, or by a private
/// block that a node has written as mined.
fn is_consumed(lane: &SubmitterId, nonce: u64, view: &WorldView) -> bool {
    match view.plan.release {
        ReleaseRule::Mined => view.blocks.was_used(lane, nonce) || view.is_seen_mined(lane, nonce),
        ReleaseRule::Final => view.blocks.final_uses(lane, nonce).next().is_some(),
    }
}
