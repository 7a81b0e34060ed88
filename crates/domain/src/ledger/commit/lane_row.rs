//! Verbs of a commit that change the cursor, which is the lane's own row, and record lane events.

use super::{CommitError, LaneCommit};
use crate::cursor::{Cursor, CursorChange, LaneState, ProtectCode, Protection};
use crate::event::LaneEventKind;
use crate::nonce::Nonce;
use crate::text::NodeText;

impl LaneCommit {
    /// Moves the cursor of a lane that never bound a nonce up to `nonce`. Slots below belong to the account's history,
    /// not to the ledger.
    pub fn start_at(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if nonce < to.next_nonce || to.open_nonce != to.next_nonce {
            return Err(CommitError::Backwards);
        }
        to.next_nonce = nonce;
        to.open_nonce = nonce;
        Ok(self)
    }

    /// Records the account's counts on chain. The latest count may go back, with a reorg; the final count does not.
    pub fn observe_counts(
        &mut self,
        cursor: &Cursor,
        latest: Nonce,
        finalized: Nonce,
    ) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if finalized < to.final_nonce {
            return Err(CommitError::Backwards);
        }
        to.chain_nonce = latest;
        to.final_nonce = finalized;
        Ok(self)
    }

    /// Closes every slot below `nonce`. A lane is not loaded with closed slots.
    pub fn close_below(&mut self, cursor: &Cursor, nonce: Nonce) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if nonce < to.open_nonce {
            return Err(CommitError::Backwards);
        }
        if nonce > to.next_nonce {
            return Err(CommitError::NonceOutOfOrder { expected: to.next_nonce, got: nonce });
        }
        to.open_nonce = nonce;
        Ok(self)
    }

    pub fn set_in_flight(&mut self, cursor: &Cursor, in_flight: bool) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        if !to.is_protected() {
            to.state = if in_flight { LaneState::InFlight } else { LaneState::Idle };
        }
        Ok(self)
    }

    pub fn protect(&mut self, cursor: &Cursor, protection: Protection) -> Result<&mut Self, CommitError> {
        let text = NodeText::new(&format!("{}: {}", protection.code.as_str(), protection.detail));
        let to = self.cursor_mut(cursor)?;
        // Lost commits outrank every other reason, because they also keep intents from ending. Another reason is
        // recorded as an event, but does not replace the state; only reconciling does.
        if !to.state.is_store_regressed() || protection.code == ProtectCode::StoreRegressed {
            to.state = LaneState::Protect(protection);
        }
        self.lane_event(cursor, LaneEventKind::Protected, text)
    }

    pub fn unprotect(&mut self, cursor: &Cursor, in_flight: bool, text: NodeText) -> Result<&mut Self, CommitError> {
        self.cursor_mut(cursor)?.state = if in_flight { LaneState::InFlight } else { LaneState::Idle };
        self.lane_event(cursor, LaneEventKind::Unprotected, text)
    }

    pub fn set_paused(&mut self, cursor: &Cursor, paused: bool, text: NodeText) -> Result<&mut Self, CommitError> {
        self.cursor_mut(cursor)?.paused = paused;
        self.lane_event(cursor, if paused { LaneEventKind::Paused } else { LaneEventKind::Resumed }, text)
    }

    pub fn set_low_balance(&mut self, cursor: &Cursor, low: bool, text: NodeText) -> Result<&mut Self, CommitError> {
        self.cursor_mut(cursor)?.low_balance = low;
        self.lane_event(cursor, if low { LaneEventKind::LowBalance } else { LaneEventKind::BalanceRestored }, text)
    }

    pub fn lane_event(
        &mut self,
        cursor: &Cursor,
        kind: LaneEventKind,
        text: NodeText,
    ) -> Result<&mut Self, CommitError> {
        let to = self.cursor_mut(cursor)?;
        to.event_seq = to.event_seq.saturating_add(1);
        self.lane_events.push((kind, text));
        Ok(self)
    }

    /// The cursor as this commit leaves it. Every call of one commit must pass the same version of the cursor.
    pub(super) fn cursor_mut(&mut self, cursor: &Cursor) -> Result<&mut Cursor, CommitError> {
        let change = self.cursor.get_or_insert_with(|| CursorChange::of(cursor));
        if change.from_version() != cursor.version {
            return Err(CommitError::OtherCursor);
        }
        Ok(change.to_mut())
    }
}
