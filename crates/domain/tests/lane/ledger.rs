//! A small ledger behind the lane on the bench: as strict as a store.

use std::collections::{BTreeMap, BTreeSet};

use gapless_domain::{
    Attempt, Command, CommandId, CommandResult, Cursor, IntentRecord, LaneCommit, LaneSnapshot, NewAudit, NewSlot,
    Nonce, Reservation, ReservationStatus, ReservationStep, Slot, Timestamp,
};

/// As much of a store as a lane needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) cursor: Option<Cursor>,
    pub(crate) slots: BTreeMap<Nonce, Slot>,
    pub(crate) attempts: BTreeMap<(Nonce, u16), Attempt>,
    pub(crate) txs: BTreeMap<u64, IntentRecord>,
    pub(crate) reservations: BTreeMap<Nonce, ReservationStatus>,
    pub(crate) commands: Vec<Command>,
    pub(crate) results: Vec<CommandResult>,
    pub(crate) audits: Vec<NewAudit>,
    pub(crate) regressed: bool,
    pub(crate) now_micros: i64,
}

impl Ledger {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_micros)
    }

    pub(crate) fn snapshot(&self) -> LaneSnapshot {
        let open = self.cursor.as_ref().map_or(Nonce::ZERO, |cursor| cursor.open_nonce);
        let bound = |tx: &&IntentRecord| tx.state.bound().is_some_and(|bound| bound.nonce >= open);
        LaneSnapshot {
            cursor: self.cursor.clone(),
            slots: self.slots.range(open..).map(|(_, slot)| slot.clone()).collect(),
            attempts: self.attempts.range((open, 0)..).map(|(_, attempt)| attempt.clone()).collect(),
            bound: self.txs.values().filter(bound).cloned().collect(),
            reservations: self.open_reservations(open),
            commands: self.commands.clone(),
            regressed: self.regressed,
            now: self.now(),
        }
    }

    pub(crate) fn apply(&mut self, commit: &LaneCommit) {
        let at = self.now();
        assert!(!self.regressed || commit.acknowledges_regression(), "a loss is acknowledged first, and alone");
        self.regressed = false;
        if let Some(change) = commit.cursor() {
            assert_eq!(change.from_version(), self.cursor.as_ref().map_or(0, |cursor| cursor.version));
            self.cursor = Some(change.to().clone());
        }
        for new in commit.slots() {
            let NewSlot { nonce, kind, above, evidence } = new.clone();
            let slot =
                Slot { nonce, kind, above, evidence, bound_at: at, next_resubmit_at: None, tries: 0, signal: None };
            assert!(self.slots.insert(new.nonce, slot).is_none(), "a nonce is bound once");
        }
        let fresh: BTreeSet<Nonce> = commit.slots().iter().map(|slot| slot.nonce).collect();
        for step in commit.reservations() {
            self.step(step, &fresh);
        }
        for change in commit.changes() {
            let tx = self.txs.values_mut().find(|tx| tx.id == change.tx_id()).unwrap();
            assert_eq!(tx.version, change.from_version());
            assert!(!tx.state.name().is_terminal());
            tx.apply(change, at);
        }
        for report in commit.reports() {
            let attempt = self.attempts.values_mut().find(|attempt| attempt.hash == report.hash).unwrap();
            attempt.sends += 1;
            attempt.last_sent_at = Some(at);
            attempt.last_outcome = Some((report.outcome, report.text.clone()));
        }
        for new in commit.attempts() {
            let attempt = Attempt {
                nonce: new.nonce,
                ordinal: new.ordinal,
                kind: new.kind,
                hash: new.hash,
                raw: new.raw.clone(),
                fees: new.fees,
                created_at: at,
                sends: 0,
                last_sent_at: None,
                last_outcome: None,
                history: Vec::new(),
            };
            assert!(self.attempts.insert((new.nonce, new.ordinal), attempt).is_none());
            let is_used = matches!(self.reservations.get(&new.nonce), None | Some(ReservationStatus::Used { .. }));
            assert!(is_used, "a nonce that is lent, or may be, has no transaction");
        }
        for claim in commit.claims() {
            let slot = self.slots.get_mut(&claim.nonce).unwrap();
            slot.next_resubmit_at = Some(at.saturating_add(claim.pause));
            slot.tries = claim.tries;
            slot.signal = claim.signal.or(slot.signal);
        }
        let done: Vec<CommandId> = commit.commands_done().iter().map(|(id, _)| *id).collect();
        self.commands.retain(|command| !done.contains(&command.id));
        self.results.extend(commit.commands_done().iter().map(|(_, result)| result.clone()));
        self.audits.extend(commit.audits().iter().cloned());
    }

    fn open_reservations(&self, open: Nonce) -> Vec<Reservation> {
        let open = self.reservations.range(open..).map(|(nonce, status)| (*nonce, status.clone()));
        let is_open = |(_, status): &(Nonce, ReservationStatus)| !matches!(status, ReservationStatus::Used { .. });
        open.filter(is_open).map(|(nonce, status)| Reservation { nonce, status }).collect()
    }

    /// As a store takes them: a step that it would refuse is a fault of the lane.
    fn step(&mut self, step: &ReservationStep, fresh: &BTreeSet<Nonce>) {
        let open = self.cursor.as_ref().map_or(Nonce::ZERO, |cursor| cursor.open_nonce);
        let is_back = |(_, status): &(&Nonce, &ReservationStatus)| **status == ReservationStatus::Recyclable;
        let smallest = self.reservations.range(open..).find(is_back).map(|(nonce, _)| *nonce);
        let (nonce, now) = (step.nonce(), self.now());
        let next = match (step, self.reservations.get(&nonce).cloned()) {
            (ReservationStep::Reserve { tx_id, lock_owner, hold, .. }, before) => {
                match smallest {
                    Some(smallest) => assert_eq!(smallest, nonce, "the smallest first"),
                    None => assert!(before.is_none() && fresh.contains(&nonce), "{nonce} is not to be lent"),
                }
                let locked_until = now.saturating_add(*hold);
                ReservationStatus::Reserved { tx_id: *tx_id, lock_owner: lock_owner.clone(), locked_until }
            }
            (
                ReservationStep::Use { lock_owner: by, .. } | ReservationStep::Release { lock_owner: by, .. },
                Some(ReservationStatus::Reserved { tx_id, lock_owner, locked_until }),
            ) if *by == lock_owner && locked_until > now => match step {
                ReservationStep::Use { .. } => ReservationStatus::Used { tx_id: Some(tx_id) },
                _ => ReservationStatus::Recyclable,
            },
            (ReservationStep::Expire { .. }, Some(ReservationStatus::Reserved { locked_until, .. }))
                if locked_until <= now =>
            {
                ReservationStatus::Recyclable
            }
            (ReservationStep::Fill { .. }, Some(ReservationStatus::Recyclable)) => {
                ReservationStatus::Used { tx_id: None }
            }
            (step, before) => panic!("refused: {step:?} of {before:?}"),
        };
        self.reservations.insert(nonce, next);
    }
}
