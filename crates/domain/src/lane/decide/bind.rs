//! Binding: whether the lane may assign nonces, how many, and the write of signed attempts.

use std::collections::{BTreeSet, VecDeque};

use crate::command::CommandKind;
use crate::ledger::CommitError;
use crate::nonce::Nonce;
use crate::reservation::ReservationStep;

use crate::lane::Lane;
use crate::lane::draft::Draft;
use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::{Candidate, Stage};
use crate::lane::signing::{SignedItem, SigningItem};
use crate::lane::slot_work::AttemptStep;

/// Reason why a lane assigns no nonces now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindBlocker {
    /// The first nonce of the lane is not known yet.
    NotStarted,
    /// The lane is in PROTECT, or enters it with the next commit.
    Protected,
    Paused,
    /// A command that stops the lane is not executed yet.
    Stopping,
    /// The store lost commits, and the lane has not acknowledged it.
    Regressed,
    Draining,
    /// The account was not read yet.
    AccountUnread,
    /// The account's nonce is ahead of the ledger.
    ChainAhead,
    /// The account's final nonce is below the ledger's.
    ChainBehind,
    /// Nodes report that the account cannot pay for a bound nonce.
    ShortOfFunds,
    /// The chain contradicts a final block.
    FinalityViolation,
}

impl BindBlocker {
    pub const fn as_str(self) -> &'static str {
        match self {
            BindBlocker::NotStarted => "the first nonce of the lane is not known yet",
            BindBlocker::Protected => "the lane is in PROTECT",
            BindBlocker::Paused => "the lane is paused",
            BindBlocker::Stopping => "a command is about to stop the lane",
            BindBlocker::Regressed => "the store lost commits",
            BindBlocker::Draining => "the lane is being released",
            BindBlocker::AccountUnread => "the account was not read yet",
            BindBlocker::ChainAhead => "the account's nonce is ahead of the ledger",
            BindBlocker::ChainBehind => "the account's final nonce is below the ledger's",
            BindBlocker::ShortOfFunds => "the account cannot pay for a bound nonce",
            BindBlocker::FinalityViolation => "the chain contradicts a final block",
        }
    }
}

impl Lane {
    /// Reason why the lane assigns no nonces now; `None` if it may.
    pub fn bind_blocker(&self) -> Option<BindBlocker> {
        let Some(cursor) = &self.ledger.cursor else { return Some(BindBlocker::NotStarted) };
        let stops =
            |kind: &CommandKind| matches!(kind, CommandKind::Pause | CommandKind::Resync { dry_run: false, .. });
        let is_stopping = || self.ledger.commands.iter().any(|command| stops(&command.kind));
        let blockers = [
            (BindBlocker::Regressed, self.ledger.regressed),
            (BindBlocker::Protected, cursor.is_protected() || self.commits.protection.is_some()),
            (BindBlocker::Paused, cursor.paused),
            (BindBlocker::Stopping, is_stopping()),
            (BindBlocker::Draining, self.is_draining()),
            (BindBlocker::AccountUnread, self.funds.account.is_none()),
            (BindBlocker::ChainAhead, self.funds.ahead_reads > 0),
            (BindBlocker::ChainBehind, self.funds.behind_reads > 0),
            (BindBlocker::ShortOfFunds, !self.ledger.slots.short().is_empty()),
            (BindBlocker::FinalityViolation, self.has_finality_violation()),
        ];
        blockers.into_iter().find(|(_, applies)| *applies).map(|(blocker, _)| blocker)
    }

    /// True if the lane may begin work for intents that have no nonce yet.
    pub(in crate::lane) fn may_bind(&self) -> bool {
        self.bind_blocker().is_none()
    }

    /// True if the lane may bind with this commit, as the commit leaves the cursor so far.
    pub(in crate::lane) fn may_bind_in(&self, draft: &Draft) -> bool {
        draft.cursor().is_some_and(|cursor| !cursor.is_protected() && !cursor.paused) && self.may_bind()
    }

    /// Number of nonces that may be bound now.
    pub(in crate::lane) fn free(&self) -> usize {
        if !self.may_bind() {
            return 0;
        }
        let planned = self.binds_under_way();
        let room = self.setup.limits.open_slots.saturating_sub(self.ledger.slots.len() + planned);
        self.window_left().saturating_sub(planned).min(room)
    }

    /// Number of nonces that the window has left.
    pub(in crate::lane) fn window_left(&self) -> usize {
        self.window().saturating_sub(self.in_flight())
    }

    fn window(&self) -> usize {
        usize::from(self.setup.rules.window(&self.setup.policy.nonce, self.funds.account.as_ref()))
    }

    /// Number of nonces that are assigned in memory and not yet durable.
    pub(in crate::lane) fn binds_under_way(&self) -> usize {
        let signing = self.signer.in_flight.iter().flatten().filter(|item| item.candidate.is_some()).count();
        let signed = self.signer.signed.iter().filter(|item| item.candidate.is_some()).count();
        signing + signed + self.commits.draft.as_ref().map_or(0, Draft::binds)
    }

    /// Bytes of attempts that are signed or at the signer, and not in a slot yet.
    pub(in crate::lane) fn bytes_under_way(&self) -> usize {
        let data = |item: &SigningItem| Some(item.candidate.as_ref()?.action()?.bytes());
        let signing = self.signer.in_flight.iter().flatten().filter_map(data).sum::<usize>();
        signing + self.commits.draft.as_ref().map_or(0, Draft::bytes)
    }

    /// Writes binds and other attempts of slots. A lane that is paused or enters PROTECT in this commit binds nothing.
    /// The window is measured again, because a block may have been orphaned since the signing (N12).
    pub(in crate::lane) fn write_signed(&mut self, draft: &mut Draft) -> Result<(), CommitError> {
        let mut room = if self.may_bind_in(draft) { self.window_left() } else { 0 };
        let mut attempted = BTreeSet::new();
        let mut signed = VecDeque::from(std::mem::take(&mut self.signer.signed));
        while let Some(item) = signed.pop_front() {
            let written = match &item.candidate {
                Some(candidate) if room > 0 && self.is_next(candidate, item.attempt.nonce, draft) => {
                    room -= 1;
                    draft.bind(item).map_err(|(error, item)| {
                        self.return_to_queue(*item);
                        error
                    })
                }
                Some(_) => {
                    self.return_to_queue(item);
                    Ok(())
                }
                // One attempt per slot and commit.
                None if !attempted.insert(item.attempt.nonce) => Ok(()),
                None => self.write_attempt(item, draft),
            };
            if written.is_err() {
                self.signer.signed.extend(signed);
                return written;
            }
        }
        Ok(())
    }

    /// True if the attempt has the next nonce, and no intent is before its intent. An attempt signed behind a candidate
    /// that returned to the queue has the wrong nonce (N11).
    fn is_next(&self, candidate: &Candidate, nonce: Nonce, draft: &Draft) -> bool {
        let is_first = self.queue.first().is_none_or(|first| candidate.tx.seq < first.tx.seq);
        is_first && draft.cursor().is_some_and(|cursor| cursor.next_nonce == nonce)
    }

    /// Writes another attempt of a slot, if the slot still needs it.
    fn write_attempt(&mut self, item: SignedItem, draft: &mut Draft) -> Result<(), CommitError> {
        let nonce = item.attempt.nonce;
        if !self.is_still_needed(&item, draft) {
            self.ledger.slots.update(nonce, |slot| slot.next.step = AttemptStep::None);
            return Ok(());
        }
        if self.ledger.slots.get(nonce).is_some_and(OpenSlot::is_recyclable) {
            draft.commit.reservation(ReservationStep::Fill { nonce });
        }
        let has_timed_out = self.ledger.slots.get(nonce).is_some_and(OpenSlot::has_timed_out);
        let timed_out = if has_timed_out { self.write_timed_out(nonce, draft) } else { Ok(()) };
        if let Err(error) = timed_out.and_then(|()| self.write_requested(&item, draft)) {
            self.ledger.slots.update(nonce, |slot| slot.next.step = AttemptStep::None);
            return Err(error);
        }
        draft.attempt(item);
        Ok(())
    }

    /// False if the slot ended since the signing, or is otherwise explained, or is reserved or about to be.
    fn is_still_needed(&self, item: &SignedItem, draft: &Draft) -> bool {
        let (attempt, reserves_next) = (&item.attempt, self.reservation_is_next());
        let Some(slot) = self.ledger.slots.get(attempt.nonce) else { return false };
        let by = slot.next.requested.as_ref().map(|requested| requested.by);
        // An attempt serves only the command that requested it.
        let is_requested =
            by == item.requested_by && by.is_none_or(|by| self.ledger.commands.iter().any(|command| command.id == by));
        let is_needed = slot.needs_attempt() && !slot.is_ended() && !(reserves_next && slot.is_recyclable());
        // Attempts that were sent since the pricing must be replaced as well.
        let replaces = self.check_replaces(attempt.fees, slot).is_ok();
        // A cancel command may precede this attempt in the same commit.
        let is_canceled = item.requested_by.is_some()
            && attempt.kind.carries_payload()
            && draft.cancels(attempt.nonce, &self.ledger.slots);
        // A reservation that ended since the signing needs another kind of filler.
        let is_right_filler = attempt.kind.carries_payload()
            || (attempt.kind == slot.filler_kind() && !draft.ends_reservation(attempt.nonce));
        let fits = slot.next_ordinal() == attempt.ordinal && is_needed && is_requested && is_right_filler;
        fits && replaces && !is_canceled && !draft.explains(attempt.nonce)
    }

    /// Drops a signed attempt unsent. No nonce was consumed, and the intent returns to the queue.
    pub(in crate::lane) fn return_to_queue(&mut self, item: SignedItem) {
        if let Some(mut candidate) = item.candidate {
            candidate.stage = Stage::Waiting;
            self.queue.put_back(candidate);
        }
        self.funds.read_soon();
    }
}
