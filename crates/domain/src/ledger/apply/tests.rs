use std::time::Duration;

use super::*;
use crate::attempt::{SendOutcome, SendReport};
use crate::command::{Command, CommandId, CommandKind, CommandResult};
use crate::cursor::Protection;
use crate::ledger::fixtures::*;
use crate::reservation::{ReservationStatus, ReservationStep};
use crate::slot::{Claim, SlotKind};
use crate::state::StateName;
use crate::text::{CommandReport, NodeText};
use crate::transition::Transition;

#[test]
fn bind_moves_intent_from_queue_to_slot() {
    let ledger = busy_ledger();
    let record = &ledger.slots[&nonce(0)];
    let holder = ledger.intent(record.intent.unwrap()).unwrap();
    assert_eq!((holder.state.name(), holder.version, holder.updated_at), (StateName::Allocated, 2, AT));
    assert_eq!((record.slot.kind, record.slot.bound_at), (SlotKind::Intent(holder.id), AT));
    assert_eq!(record.attempts[&0], Attempt::new(attempt(0), AT));
    assert_eq!((ledger.queue_len(), ledger.cursor.as_ref().unwrap().next_nonce), (1, nonce(1)));
    assert_eq!(ledger.written_by, Some(lease().token()));
}

#[test]
fn lost_nonce_leaves_slot_without_holder() {
    let mut ledger = busy_ledger();
    let holder = ledger.intents().next().unwrap().clone();
    write(&mut ledger, |commit| {
        commit.change(holder.change(Transition::LoseNonce).unwrap());
    });
    let record = &ledger.slots[&nonce(0)];
    assert_eq!((record.intent, record.owner()), (None, Some(holder.id)));
    assert_eq!(ledger.queue().next().map(|tx| tx.id), Some(holder.id), "back at its old place");
    assert!(ledger.snapshot(AT).bound.is_empty());
}

#[test]
fn reports_count_sends_and_keep_newest_history() {
    let mut ledger = busy_ledger();
    let hash = attempt(0).hash;
    let report = |text: &str| {
        let (outcome, text) = (SendOutcome::Unknown, NodeText::new(text));
        SendReport { nonce: nonce(0), hash, outcome, text, answers: Vec::new() }
    };
    write(&mut ledger, |commit| {
        for n in 0..=Attempt::HISTORY {
            commit.report(report(&n.to_string()));
        }
    });
    let kept = &ledger.slots[&nonce(0)].attempts[&0];
    assert_eq!((kept.sends as usize, kept.history.len()), (Attempt::HISTORY + 1, Attempt::HISTORY));
    assert_eq!((kept.history[0].text.as_str(), kept.last_sent_at), ("1", Some(AT)));
    assert!(ledger.snapshot(AT).attempts[0].history.is_empty(), "a lane is loaded without it");
}

#[test]
fn claim_without_signal_keeps_the_signal() {
    let mut ledger = busy_ledger();
    let signal = Some(crate::MempoolSignal::LikelyDropped);
    let claim = |tries, signal| Claim { nonce: nonce(0), pause: Duration::from_secs(1), tries, signal };
    write(&mut ledger, |commit| {
        commit.claim_resubmit(claim(1, signal)).claim_resubmit(claim(2, None));
    });
    let slot = &ledger.slots[&nonce(0)].slot;
    assert_eq!((slot.tries, slot.signal), (2, signal));
    assert_eq!(slot.next_resubmit_at, Some(AT.saturating_add(Duration::from_secs(1))));
}

#[test]
fn used_reservation_names_its_intent() {
    let mut ledger = reserved_ledger(2);
    let holder = ledger.slots[&nonce(0)].intent;
    write(&mut ledger, |commit| {
        commit.reservation(use_by(0, "me")).reservation(release_by(1, "me"));
        commit.reservation(ReservationStep::Fill { nonce: nonce(1) }).attempt(attempt(1));
    });
    assert_eq!(ledger.slots[&nonce(0)].submitted_for(), holder);
    let filled = &ledger.slots[&nonce(1)];
    assert_eq!((&filled.reservation, filled.owner()), (&Some(ReservationStatus::Used { tx_id: None }), None));
    assert!(ledger.snapshot(AT).reservations.is_empty());
}

#[test]
fn executed_command_keeps_its_first_result() {
    let mut ledger = busy_ledger();
    let (id, issued_by) = (CommandId(1), NodeText::new("operator"));
    let submitter = lease().submitter().clone();
    let command = Command { id, submitter, kind: CommandKind::Pause, issued_by, issued_at: AT };
    ledger.commands.insert(id, command.clone());
    let done = |text: &str| CommandResult::Done(CommandReport::new(text));
    for text in ["first", "second"] {
        write(&mut ledger, |commit| {
            commit.command_done(&command, done(text));
        });
    }
    assert_eq!((ledger.commands.len(), ledger.results.get(&id)), (0, Some(&done("first"))));
}

#[test]
fn acknowledgement_ends_regression() {
    let mut ledger = busy_ledger();
    ledger.regressed = true;
    let cursor = ledger.cursor.clone().unwrap();
    write(&mut ledger, |commit| {
        commit.protect(&cursor, Protection::store_regressed()).unwrap();
    });
    assert!(!ledger.regressed && ledger.cursor.as_ref().unwrap().state.is_store_regressed());
}

#[test]
fn closed_slots_are_not_in_snapshot() {
    let mut ledger = busy_ledger();
    let (cursor, holder) = (ledger.cursor.clone().unwrap(), ledger.intents().next().unwrap().clone());
    assert!(ledger.has_work());
    write(&mut ledger, |commit| {
        commit.change(holder.change(Transition::LoseNonce).unwrap());
        commit.close_below(&cursor, nonce(1)).unwrap();
    });
    let loaded = ledger.snapshot(AT);
    assert!(loaded.slots.is_empty() && loaded.attempts.is_empty() && loaded.bound.is_empty());
    assert_eq!((ledger.slots.len(), ledger.queue_len()), (1, 2));
}
