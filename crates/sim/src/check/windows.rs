//! N12, N13: the number of nonces that are bound and not consumed is at most the window; one for a strict lane.

use gapless_domain::{ReleaseRule, SlotKind, SubmitterId};

use crate::history::Moment;

use super::{Broken, Check, Picture};

#[derive(Debug, Default)]
pub(super) struct Windows;

impl Check for Windows {
    fn promise(&self) -> &'static str {
        "N12"
    }

    fn see(&mut self, moment: &Moment, picture: &Picture) -> Result<(), Broken> {
        let Moment::Committed { commit, .. } = moment else { return Ok(()) };
        let lane = commit.lease().submitter();
        let consumed = |nonce: u64, kind: SlotKind| kind == SlotKind::Foreign || is_consumed(lane, nonce, picture);
        // Nonces that the chain has used already were found, not bound.
        let binds = commit.slots().iter().any(|slot| !consumed(slot.nonce.get(), slot.kind));
        let Some(book) = picture.ledger.lane(lane).filter(|_| binds) else { return Ok(()) };
        let closed_below = book.cursor.as_ref().map_or(0, |cursor| cursor.open_nonce.get());
        let open = book.slots.range(closed_below..).filter(|(nonce, kind)| !consumed(**nonce, **kind));
        let open: Vec<u64> = open.map(|(nonce, _)| *nonce).collect();
        let window = usize::from(picture.plan.window);
        if open.len() > window {
            return Err(Broken::of(lane, format!("nonces {open:?} are bound and not consumed; {window} may be")));
        }
        Ok(())
    }
}

/// True if any node could know the nonce as consumed: by any block that ever was, an orphaned one too, or by a private
/// block that a node has written as mined.
fn is_consumed(lane: &SubmitterId, nonce: u64, picture: &Picture) -> bool {
    match picture.plan.release {
        ReleaseRule::Mined => picture.blocks.was_used(lane, nonce) || picture.is_seen_mined(lane, nonce),
        ReleaseRule::Final => picture.blocks.final_uses(lane, nonce).next().is_some(),
    }
}
