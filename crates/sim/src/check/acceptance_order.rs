//! N11: the nonces of a lane follow the order in which its intents were accepted.
//!
//! Three cases are out of order on purpose. An intent that lost its nonce to another transaction gets a higher one
//! later. A queued intent whose payload was replaced is prepared anew, and prepared intents behind it do not wait.
//! After a loss of commits the ledger does not know the order in which nonces were bound.

use std::collections::BTreeMap;

use gapless_domain::{SlotKind, SubmitterId, TxId};

use crate::history::Moment;

use super::{Check, CheckFailure, WorldView};

#[derive(Debug, Default)]
pub(super) struct AcceptanceOrder {
    accepted: BTreeMap<TxId, usize>,
    /// The latest accepted intent of each lane that has a nonce.
    latest: BTreeMap<SubmitterId, (usize, TxId)>,
}

impl Check for AcceptanceOrder {
    fn promise(&self) -> &'static str {
        "N11"
    }

    fn see(&mut self, moment: &Moment, view: &WorldView) -> Result<(), CheckFailure> {
        if let Moment::Accepted { id, .. } = moment {
            let next = self.accepted.len();
            self.accepted.entry(*id).or_insert(next);
        }
        let (Moment::Committed { commit, .. }, 0) = (moment, view.losses) else { return Ok(()) };
        let lane = commit.lease().submitter();
        for slot in commit.slots() {
            let SlotKind::Intent(id) = slot.kind else { continue };
            let given = view.ledger.lane(lane).and_then(|book| book.given.get(&id));
            let is_first = given.is_some_and(|given| given.len() == 1);
            let is_replaced = view.ledger.intents.get(&id).is_some_and(|entry| !entry.replacements.is_empty());
            let is_ordered = is_first && !is_replaced;
            let Some(at) = self.accepted.get(&id).copied().filter(|_| is_ordered) else { continue };
            if let Some((_, other)) = self.latest.get(lane).filter(|(latest, _)| *latest > at) {
                let what = format!("{id} gets nonce {} behind {other}, which was accepted later", slot.nonce);
                return Err(CheckFailure::of(lane, what));
            }
            self.latest.insert(lane.clone(), (at, id));
        }
        Ok(())
    }
}
