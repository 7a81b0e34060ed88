//! The fold: how the answer of the store changes the lane's memory. A written commit is folded in, row by row. A commit
//! that was not written leaves the memory as it is.

use std::collections::{BTreeSet, HashMap};

use crate::attempt::{AttemptKind, NewAttempt};
use crate::event::LaneEventKind;
use crate::id::TxId;
use crate::intent_record::{Change, IntentRecord};
use crate::ledger::LaneCommit;
use crate::nonce::Nonce;
use crate::reservation::ReservationStep;
use crate::state::TxState;
use crate::time::{Tick, Timestamp};

use crate::lane::draft::{AttemptOrigin, AttemptSource, Draft, Taken};
use crate::lane::effect::{Effect, WatchRequest};
use crate::lane::fact::CommitOutcome;
use crate::lane::open_slot::OpenSlot;
use crate::lane::queue::{Candidate, Stage};
use crate::lane::reservations::SlotReservation;
use crate::lane::slot_work::{AttemptStep, BumpReason, Sending};
use crate::lane::{Lane, newest_link};

impl Lane {
    pub(super) fn committed(&mut self, outcome: CommitOutcome, now: Tick) {
        let Some(draft) = self.commits.draft.take() else { return };
        match outcome {
            CommitOutcome::Done { at, replicated } => {
                self.commits.failures = 0;
                self.commits.not_before =
                    if replicated { now } else { now.saturating_add(self.setup.limits.pauses.retry) };
                self.commits.unreplicated = !replicated;
                self.commits.database_time = (at, now);
                self.fold(draft, at, now);
            }
            CommitOutcome::NotWritten => {
                self.commits.failures = self.commits.failures.saturating_add(1);
                let pause = self.setup.limits.pauses.retry.saturating_mul(1 << self.commits.failures.min(4));
                self.commits.not_before = now.saturating_add(pause);
                self.drop_draft(draft);
            }
        }
    }

    /// Folds a written commit into the memory.
    fn fold(&mut self, draft: Draft, at: Timestamp, now: Tick) {
        if draft.reconciles() {
            self.scan_helped();
            self.funds.read_soon();
        }
        let Draft { commit, origins, bumps, lost, decided, taken, .. } = draft;
        if let Some(change) = commit.cursor() {
            self.ledger.cursor = Some(change.to().clone());
            // A lane that has not acknowledged a loss of commits writes nothing but the acknowledgement.
            self.ledger.regressed = false;
        }
        for (id, _) in commit.commands_done() {
            self.ledger.commands_done.insert(*id);
            self.ledger.commands.retain(|command| command.id != *id);
        }
        for new in commit.slots() {
            self.ledger.slots.insert(OpenSlot { above: new.above, ..OpenSlot::empty(new.nonce, new.kind) });
        }
        self.fold_intents(&commit, taken, at, now);
        for step in commit.reservations() {
            self.ledger.slots.update(step.nonce(), |slot| slot.apply_reservation(step, at));
        }
        for nonce in lost {
            self.ledger.slots.lose(nonce);
        }
        self.fold_attempts(&commit, &origins, at, now);
        self.fold_claims(&commit, &origins, &bumps, now);
        for (nonce, decision) in decided {
            self.ledger.slots.update(nonce, |slot| slot.resends.decision = decision);
        }
        for (_, kind, _) in commit.lane_events() {
            match kind {
                LaneEventKind::FeesAboveCap => self.fee_cap.notified = true,
                LaneEventKind::FeesBelowCap => self.fee_cap.notified = false,
                _ => {}
            }
        }
        self.forget_closed();
    }

    /// Applies the changes of intents. A record moves between the queue and its slot as its state says.
    fn fold_intents(&mut self, commit: &LaneCommit, taken: Taken, at: Timestamp, now: Tick) {
        let signed = taken.signed.into_iter().filter_map(|item| item.candidate);
        let candidates = taken.candidates.into_iter().chain(signed);
        let mut unbound: HashMap<TxId, Box<IntentRecord>> =
            candidates.map(|candidate| (candidate.tx.id, candidate.tx)).collect();
        for change in commit.changes() {
            let id = change.tx_id();
            if let Some(nonce) = self.ledger.slots.find(id) {
                let left = self.ledger.slots.update(nonce, |slot| slot.apply_change(change, at, now)).flatten();
                unbound.extend(left.map(|tx| (id, tx)));
            } else if let Some(mut tx) = unbound.remove(&id) {
                tx.apply(change, at);
                match tx.state.bound().map(|bound| bound.nonce) {
                    Some(nonce) => drop(self.ledger.slots.update(nonce, |slot| slot.tx = Some(tx))),
                    None => drop(unbound.insert(id, tx)),
                }
            }
        }
        let mut queued: Vec<_> = unbound.into_values().filter(|tx| tx.state == TxState::Queued).collect();
        queued.sort_by_key(|tx| tx.seq);
        for tx in queued {
            // A peek that began before does not list the intent, or lists it with its earlier payload.
            self.queue.ignore_peek_in_flight();
            self.queue.put_back(Candidate { tx, stage: Stage::Waiting });
        }
    }

    fn fold_attempts(&mut self, commit: &LaneCommit, origins: &[AttemptOrigin], at: Timestamp, now: Tick) {
        // The watcher has not seen the block of an attached attempt. If the block is orphaned before, no sighting will
        // say so, and the attempt is sent.
        let later = now.saturating_add(self.setup.limits.pauses.resend_longest);
        let mut watched = Vec::new();
        for (attempt, origin) in commit.attempts().iter().zip(origins) {
            let look_up = matches!(origin.source, AttemptSource::Attached | AttemptSource::Adopted);
            watched.push(WatchRequest { hash: attempt.hash, known_block: None, look_up });
            self.chain.by_hash.insert(attempt.hash, attempt.nonce);
            self.ledger.slots.update(attempt.nonce, |slot| match origin.source {
                AttemptSource::Adopted => slot.add_attempt(attempt, origin, at),
                AttemptSource::Attached => {
                    slot.add_attempt(attempt, origin, at);
                    slot.sends.next = Sending::Send { at: later };
                    slot.forget_missed_lookups();
                }
                AttemptSource::Signed | AttemptSource::Requested(_) | AttemptSource::Submitted => {
                    slot.replace_attempt(attempt, origin, at);
                    slot.sends.next = Sending::Send { at: now };
                }
            });
        }
        // The watch begins before the first send, which is planned after this.
        if !watched.is_empty() {
            self.outbox.effects.push(Effect::Watch(watched));
        }
    }

    fn fold_claims(&mut self, commit: &LaneCommit, origins: &[AttemptOrigin], bumps: &BTreeSet<Nonce>, now: Tick) {
        let is_signed =
            |origin: &AttemptOrigin| matches!(origin.source, AttemptSource::Signed | AttemptSource::Requested(_));
        let attempts = commit.attempts().iter().zip(origins).filter(|(_, origin)| is_signed(origin));
        let attempted: BTreeSet<Nonce> = attempts.map(|(attempt, _)| attempt.nonce).collect();
        for claim in commit.claims() {
            let may_bump = bumps.contains(&claim.nonce) && !attempted.contains(&claim.nonce);
            self.ledger.slots.update(claim.nonce, |slot| {
                slot.resends.tries = claim.tries;
                slot.resends.signal = claim.signal.or(slot.resends.signal);
                slot.sends.next = slot.sends.next.after_claim(now);
                if may_bump && slot.next.bump_reason.is_none() && slot.next.step == AttemptStep::None {
                    slot.next.bump_reason = Some(BumpReason::Overdue);
                }
            });
        }
    }

    /// Removes the closed slots.
    fn forget_closed(&mut self) {
        let Some(open) = self.ledger.cursor.as_ref().map(|cursor| cursor.open_nonce) else { return };
        let closed = self.ledger.slots.close_below(open);
        self.chain.newest_closed =
            newest_link(closed.values().filter_map(|slot| slot.mined_in()).chain(self.chain.newest_closed));
        let hashes: Vec<_> = closed.values().flat_map(|slot| slot.hashes()).collect();
        for hash in &hashes {
            self.chain.by_hash.remove(hash);
        }
        if !hashes.is_empty() {
            self.outbox.effects.push(Effect::Unwatch(hashes));
        }
    }

    /// Drops a commit that was not written. The lane gets back all that the draft has taken from it.
    pub(super) fn drop_draft(&mut self, draft: Draft) {
        let Draft { commit, origins, taken, .. } = draft;
        let Taken { candidates, mut signed, mut reports, protection, found } = taken;
        for mut candidate in candidates {
            // The answer to its price request may have come while the draft held the candidate, and is lost then.
            if matches!(candidate.stage, Stage::Pricing) {
                candidate.stage = Stage::Waiting;
            }
            self.queue.put_back(candidate);
        }
        signed.append(&mut self.signer.signed);
        self.signer.signed = signed;
        reports.append(&mut self.outbox.reports);
        self.outbox.reports = reports;
        self.commits.protection = self.commits.protection.take().or(protection);
        if let Some(found) = found {
            self.scans.put_back(found);
        }
        if origins.iter().any(|origin| origin.source == AttemptSource::Submitted) {
            self.funds.read_soon();
        }
        for claim in commit.claims() {
            self.ledger.slots.update(claim.nonce, |slot| slot.sends.next = slot.sends.next.without_claim());
        }
    }
}

impl OpenSlot {
    /// Applies a written change of the slot's intent. Returns the record if the intent has lost the nonce.
    fn apply_change(&mut self, change: &Change, at: Timestamp, now: Tick) -> Option<Box<IntentRecord>> {
        let tx = self.tx.as_mut()?;
        tx.apply(change, at);
        let left = if tx.state.bound().is_some() { None } else { self.tx.take() };
        self.follow_state(now);
        left.filter(|tx| !tx.state.name().is_terminal())
    }

    /// Applies a written step of the slot's reservation. Its end is a time of the store's clock; the lane allows for
    /// a grace period.
    fn apply_reservation(&mut self, step: &ReservationStep, at: Timestamp) {
        self.reservation = match step {
            ReservationStep::Reserve { lock_owner, hold, .. } => {
                // A filler that is being made comes too late.
                self.next.step = AttemptStep::None;
                SlotReservation::Reserved { to: lock_owner.clone(), until: at.saturating_add(*hold) }
            }
            ReservationStep::Release { .. } | ReservationStep::Expire { .. } => SlotReservation::Recyclable,
            ReservationStep::Use { .. } | ReservationStep::Fill { .. } | ReservationStep::Cancel { .. } => {
                SlotReservation::NotReserved
            }
        };
    }

    /// Adds an attempt that takes the place of the earlier ones.
    fn replace_attempt(&mut self, attempt: &NewAttempt, origin: &AttemptOrigin, at: Timestamp) {
        let by = if let AttemptSource::Requested(by) = origin.source { Some(by) } else { None };
        if by.is_some() && attempt.kind == AttemptKind::Replace {
            self.payload_was_replaced();
        }
        self.add_attempt(attempt, origin, at);
        self.next.step = AttemptStep::None;
        // Answers to the previous attempt say nothing about this one.
        (self.next.bump_reason, self.sends.refusals.rejected) = (None, false);
        self.next.requested = self.next.requested.take().filter(|requested| Some(requested.by) != by);
        if by.is_some() || !attempt.kind.carries_payload() {
            // A decision was taken, so the tries start again.
            self.resends.tries = 0;
        }
    }
}
