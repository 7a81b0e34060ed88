//! Closing: the lowest slots that have ended leave the ledger's open part.

use crate::ledger::CommitError;

use crate::lane::Lane;
use crate::lane::draft::Draft;

impl Lane {
    /// Closes the lowest slots that have ended, or end with this commit.
    pub(in crate::lane) fn write_closed(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let Some(first) = draft.base().map(|cursor| cursor.open_nonce) else { return Ok(()) };
        let mut open = first;
        for slot in self.ledger.slots.iter() {
            let nonce = slot.nonce;
            // A nonce outlives the intent whose reservation ended.
            let ends_now = draft.ends_intent(nonce) && !draft.ends_reservation(nonce);
            if nonce != open || !(slot.is_ended() || ends_now || draft.has_lost(nonce)) {
                break;
            }
            open = nonce.next()?;
        }
        if open > first {
            draft.close_below(open)?;
            let next = draft.cursor().map_or(open, |cursor| cursor.next_nonce);
            draft.set_in_flight(open < next)?;
        }
        Ok(())
    }
}
