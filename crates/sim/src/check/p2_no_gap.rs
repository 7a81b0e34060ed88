//! P2: the nonces of a lane are bound without a gap, each has one holder, and each is consumed.

use gapless_domain::LaneCommit;

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct NoGap;

impl Check for NoGap {
    fn promise(&self) -> &'static str {
        "P2"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        bound_in_order(commit, view).map_err(|what| CheckFailure::of(commit.lease().submitter(), what))
    }

    fn end(&mut self, view: &WorldView) -> Result<(), CheckFailure> {
        for (lane, lane_ledger) in view.ledger.lanes.iter().filter(|(lane, _)| !view.is_excused(lane)) {
            let mut unused = lane_ledger.slots.iter().filter(|(nonce, _)| !view.blocks.is_used(lane, **nonce));
            if let Some((nonce, kind)) = unused.next() {
                return Err(CheckFailure::of(
                    lane,
                    format!("nonce {nonce} was bound ({kind:?}), but no transaction has used it"),
                ));
            }
        }
        view.finding("P2")
    }
}

fn bound_in_order(commit: &LaneCommit, view: &WorldView) -> Result<(), String> {
    let before = &view.before;
    if let Some(nonce) = before.taken.first() {
        return Err(format!("nonce {nonce} is bound a second time"));
    }
    if let Some((nonce, one, other)) = before.clashes.first() {
        return Err(format!("nonce {nonce} was held by {one}, and is held by {other} now"));
    }
    let mut last = before.last_slot;
    for slot in commit.slots() {
        let nonce = slot.nonce.get();
        if let Some(last) = last.filter(|last| last.saturating_add(1) != nonce) {
            return Err(format!("nonce {nonce} is bound after {last}"));
        }
        last = Some(nonce);
    }
    let lane_ledger = view.ledger.lane(commit.lease().submitter());
    let is_bound = |nonce: u64| lane_ledger.is_some_and(|lane_ledger| lane_ledger.slots.contains_key(&nonce));
    match commit.attempts().iter().find(|attempt| !is_bound(attempt.nonce.get())) {
        Some(attempt) => Err(format!("{} is for nonce {}, which is not bound", attempt.hash, attempt.nonce)),
        None => Ok(()),
    }
}
