//! P2: the nonces of a lane are bound without a gap, each has one holder, and each is consumed.

use gapless_domain::LaneCommit;

use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct NoGap;

impl Check for NoGap {
    fn promise(&self) -> &'static str {
        "P2"
    }

    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        bound_in_order(commit, picture).map_err(|what| Broken::of(commit.lease().submitter(), what))
    }

    fn end(&mut self, picture: &Picture) -> Result<(), Broken> {
        for (lane, book) in picture.ledger.lanes.iter().filter(|(lane, _)| !picture.is_excused(lane)) {
            let mut unused = book.slots.iter().filter(|(nonce, _)| !picture.blocks.is_used(lane, **nonce));
            if let Some((nonce, kind)) = unused.next() {
                return Err(Broken::of(lane, format!("nonce {nonce} was bound ({kind:?}), and nothing has used it")));
            }
        }
        picture.finding("P2")
    }
}

fn bound_in_order(commit: &LaneCommit, picture: &Picture) -> Result<(), String> {
    let before = &picture.before;
    if let Some(nonce) = before.taken.first() {
        return Err(format!("nonce {nonce} is bound a second time"));
    }
    if let Some((nonce, one, other)) = before.clashes.first() {
        return Err(format!("nonce {nonce} was {one}'s, and is {other}'s now"));
    }
    let mut last = before.last_slot;
    for slot in commit.slots() {
        let nonce = slot.nonce.get();
        if let Some(last) = last.filter(|last| last.saturating_add(1) != nonce) {
            return Err(format!("nonce {nonce} is bound after {last}"));
        }
        last = Some(nonce);
    }
    let book = picture.ledger.lane(commit.lease().submitter());
    let is_bound = |nonce: u64| book.is_some_and(|book| book.slots.contains_key(&nonce));
    match commit.attempts().iter().find(|attempt| !is_bound(attempt.nonce.get())) {
        Some(attempt) => Err(format!("{} is for nonce {}, which is not bound", attempt.hash, attempt.nonce)),
        None => Ok(()),
    }
}
