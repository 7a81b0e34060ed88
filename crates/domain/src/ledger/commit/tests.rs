use std::time::Duration;

use super::*;
use crate::cursor::{Cursor, LaneState, Protection};
use crate::intent_record::IntentRecord;
use crate::ledger::fixtures::{ACCOUNT, OTHER, attempt, lease, queued, reservation_intent};
use crate::transition::Transition;
use crate::{LockOwner, ProtectCode};

#[test]
fn binds_of_one_commit_take_contiguous_nonces() {
    let cursor = Cursor::starting_at(Nonce::new(5).unwrap());
    let mut commit = LaneCommit::new(&lease());
    commit.bind(&cursor, &queued(ACCOUNT, 1), attempt(5)).unwrap();
    commit.bind(&cursor, &queued(ACCOUNT, 2), attempt(6)).unwrap();
    let gap = commit.bind(&cursor, &queued(ACCOUNT, 3), attempt(8)).unwrap_err();
    assert!(matches!(gap, CommitError::NonceOutOfOrder { .. }));
    assert_eq!(commit.cursor().unwrap().to().next_nonce.get(), 7);
    assert_eq!((commit.slots().len(), commit.changes().len(), commit.attempts().len()), (2, 2, 2));
}

#[test]
fn refused_bind_adds_nothing_to_commit() {
    let cursor = Cursor::starting_at(Nonce::ZERO);
    let mut commit = LaneCommit::new(&lease());
    assert_eq!(commit.bind(&cursor, &queued(OTHER, 1), attempt(0)).err(), Some(CommitError::OtherSubmitter));
    assert!(commit.slots().is_empty() && commit.changes().is_empty() && commit.attempts().is_empty());
}

#[test]
fn only_own_reservation_intents_reserve_a_nonce() {
    let cursor = Cursor::starting_at(Nonce::ZERO);
    let mut commit = LaneCommit::new(&lease());
    let reserve = |commit: &mut LaneCommit, tx: &IntentRecord| {
        let lock_owner = LockOwner::new("me").unwrap();
        let step = ReservationStep::Reserve { nonce: Nonce::ZERO, tx_id: tx.id, lock_owner, hold: Duration::ZERO };
        commit.bind_reserved(&cursor, tx, step).err()
    };
    assert_eq!(reserve(&mut commit, &reservation_intent(OTHER, 1)), Some(CommitError::OtherSubmitter));
    assert_eq!(
        reserve(&mut commit, &queued(ACCOUNT, 1)),
        Some(CommitError::WrongStep),
        "no caller signs for this intent"
    );
    assert!(commit.slots().is_empty() && commit.changes().is_empty() && commit.reservations().is_empty());
    assert_eq!(reserve(&mut commit, &reservation_intent(ACCOUNT, 1)), None);
}

/// A bind and a release change a slot too, so only a commit can make them.
#[test]
fn intent_record_alone_neither_binds_nor_releases() {
    let tx = queued(ACCOUNT, 1);
    assert!(tx.change(Transition::Bind(Nonce::ZERO)).is_err());
    let bound = IntentRecord { state: tx.state.apply(Transition::Bind(Nonce::ZERO)).unwrap(), ..tx };
    assert!(bound.change(Transition::ReleaseReserved).is_err());
    let expire = ReservationStep::Expire { nonce: Nonce::ZERO };
    let mut commit = LaneCommit::new(&lease());
    assert_eq!(commit.end_reservation(&bound, expire).err(), Some(CommitError::WrongStep));
}

#[test]
fn store_regressed_outranks_other_protect_codes() {
    let lost = Protection { code: ProtectCode::StoreRegressed, detail: NodeText::default() };
    let cursor = Cursor { state: LaneState::Protect(lost.clone()), ..Cursor::starting_at(Nonce::ZERO) };
    let mut commit = LaneCommit::new(&lease());
    let other = Protection { code: ProtectCode::ExternalNonce, detail: NodeText::default() };
    commit.protect(&cursor, other).unwrap();
    assert_eq!(commit.cursor().unwrap().to().state, LaneState::Protect(lost));
    assert_eq!(commit.lane_events().count(), 1);
}

#[test]
fn protected_or_paused_lane_binds_nothing() {
    let protection = Protection { code: ProtectCode::CannotFill, detail: NodeText::default() };
    let protected = Cursor { state: LaneState::Protect(protection), ..Cursor::starting_at(Nonce::ZERO) };
    let paused = Cursor { paused: true, ..Cursor::starting_at(Nonce::ZERO) };
    for cursor in [protected, paused] {
        let refused = LaneCommit::new(&lease()).bind(&cursor, &queued(ACCOUNT, 1), attempt(0)).err();
        assert_eq!(refused, Some(CommitError::BindsNothing));
    }
}

#[test]
fn lane_events_continue_numbering_of_cursor() {
    let cursor = Cursor { event_seq: 7, ..Cursor::starting_at(Nonce::ZERO) };
    let mut commit = LaneCommit::new(&lease());
    commit.set_paused(&cursor, true, NodeText::default()).unwrap();
    commit.set_paused(&cursor, false, NodeText::default()).unwrap();
    let numbers: Vec<u64> = commit.lane_events().map(|(seq, _, _)| seq).collect();
    assert_eq!(numbers, [8, 9]);
    assert_eq!(commit.cursor().unwrap().to().event_seq, 9);
}

#[test]
fn close_below_stays_between_open_and_next_nonce() {
    let cursor = Cursor { next_nonce: Nonce::new(7).unwrap(), ..Cursor::starting_at(Nonce::new(5).unwrap()) };
    let close = |nonce| LaneCommit::new(&lease()).close_below(&cursor, Nonce::new(nonce).unwrap()).err();
    assert_eq!(close(7), None);
    assert_eq!(close(4), Some(CommitError::Backwards));
    assert!(matches!(close(8), Some(CommitError::NonceOutOfOrder { .. })));
}

#[test]
fn final_count_does_not_go_back() {
    let cursor = Cursor::starting_at(Nonce::new(5).unwrap());
    let back = LaneCommit::new(&lease()).observe_counts(&cursor, Nonce::ZERO, Nonce::new(4).unwrap()).err();
    assert_eq!(back, Some(CommitError::Backwards));
}
