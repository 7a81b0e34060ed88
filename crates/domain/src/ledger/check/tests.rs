use std::time::Duration;

use super::*;
use crate::B256;
use crate::attempt::{NewAttempt, SendOutcome, SendReport};
use crate::cursor::{Cursor, Protection};
use crate::intent_record::{Change, IntentRecord};
use crate::lease::FencingToken;
use crate::ledger::LaneLedger;
use crate::ledger::fixtures::*;
use crate::slot::Claim;
use crate::state::{CancelReason, FailReason};
use crate::text::NodeText;
use crate::transition::Transition;

mod reservations;

/// The rejection of the commit that `build` makes, with facts that `disturb` may change.
fn rejection_with(
    ledger: &LaneLedger,
    build: impl FnOnce(&mut LaneCommit),
    disturb: impl FnOnce(&mut CommitFacts),
) -> Option<Rejection> {
    let mut commit = LaneCommit::new(&lease());
    build(&mut commit);
    let mut facts = ledger.facts(&commit, LeaseFact::Held, AT);
    disturb(&mut facts);
    check(&commit, &facts).err()
}

fn conflict(ledger: &LaneLedger, build: impl FnOnce(&mut LaneCommit)) -> Option<Conflict> {
    match rejection_with(ledger, build, |_| {}) {
        None => None,
        Some(Rejection::Conflict(conflict)) => Some(conflict),
        Some(other) => panic!("{other:?}"),
    }
}

fn holder(ledger: &LaneLedger) -> IntentRecord {
    ledger.intents().next().unwrap().clone()
}

fn cursor(ledger: &LaneLedger) -> Cursor {
    ledger.cursor.clone().unwrap()
}

fn acknowledge(ledger: &LaneLedger) -> Change {
    holder(ledger).change(Transition::Acknowledge).unwrap()
}

fn bump(ordinal: u16, hash: u8) -> NewAttempt {
    NewAttempt { ordinal, hash: B256::with_last_byte(hash), ..attempt(0) }
}

fn report(at: u64, hash: u8) -> SendReport {
    let (outcome, text) = (SendOutcome::Accepted, NodeText::default());
    SendReport { nonce: nonce(at), hash: B256::with_last_byte(hash), outcome, text, answers: Vec::new() }
}

#[test]
fn lost_lease_fences_commit() {
    let ledger = busy_ledger();
    let lost = rejection_with(&ledger, |_| {}, |facts| facts.lease = LeaseFact::Lost);
    assert_eq!(lost, Some(Rejection::Fenced));
}

#[test]
fn busy_lease_defers_commit() {
    let busy = rejection_with(&busy_ledger(), |_| {}, |facts| facts.lease = LeaseFact::Busy);
    assert_eq!(busy, Some(Rejection::Busy));
}

#[test]
fn rows_of_a_later_owner_fence_commit() {
    let ledger = busy_ledger();
    let newer = Some(FencingToken::new(2));
    assert_eq!(rejection_with(&ledger, |_| {}, |facts| facts.written_by = newer), Some(Rejection::Fenced));
    let change = acknowledge(&ledger);
    let disturb = |facts: &mut CommitFacts| facts.intents.values_mut().for_each(|fact| fact.written_by = newer);
    let fenced = rejection_with(
        &ledger,
        |commit| {
            commit.change(change.clone());
        },
        disturb,
    );
    assert_eq!(fenced, Some(Rejection::Fenced));
    let same = |facts: &mut CommitFacts| facts.written_by = Some(FencingToken::new(1));
    assert_eq!(
        rejection_with(
            &ledger,
            |commit| {
                commit.change(change);
            },
            same
        ),
        None
    );
}

#[test]
fn regressed_lane_writes_only_its_acknowledgement() {
    let mut ledger = busy_ledger();
    ledger.regressed = true;
    let (cursor, lost) = (cursor(&ledger), Protection::store_regressed());
    let other = |commit: &mut LaneCommit| {
        commit.observe_counts(&cursor, nonce(1), nonce(0)).unwrap();
    };
    assert_eq!(rejection_with(&ledger, other, |_| {}), Some(Rejection::Regressed));
    let with_more = |commit: &mut LaneCommit| {
        commit.protect(&cursor, lost.clone()).unwrap().change(acknowledge(&ledger));
    };
    assert_eq!(rejection_with(&ledger, with_more, |_| {}), Some(Rejection::Regressed));
    let alone = |commit: &mut LaneCommit| {
        commit.protect(&cursor, lost.clone()).unwrap();
    };
    assert_eq!(rejection_with(&ledger, alone, |_| {}), None);
}

#[test]
fn unreconciled_lane_ends_no_intent() {
    let mut ledger = busy_ledger();
    let before = cursor(&ledger);
    write(&mut ledger, |commit| {
        commit.protect(&before, Protection::store_regressed()).unwrap();
    });
    let waiting = ledger.queue().next().unwrap().clone();
    let end = waiting.change(Transition::CancelInQueue(CancelReason::User)).unwrap();
    assert_eq!(
        rejection_with(
            &ledger,
            |commit| {
                commit.change(end);
            },
            |_| {}
        ),
        Some(Rejection::Regressed)
    );
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.change(acknowledge(&ledger));
        }),
        None
    );
}

#[test]
fn other_cursor_version_is_conflict() {
    let ledger = busy_ledger();
    let known = cursor(&ledger);
    for version in [0, known.version + 1] {
        let stale = Cursor { version, ..known.clone() };
        let observe = |commit: &mut LaneCommit| {
            commit.observe_counts(&stale, nonce(1), nonce(0)).unwrap();
        };
        assert_eq!(conflict(&ledger, observe), Some(Conflict::Cursor));
    }
}

#[test]
fn change_from_another_version_is_conflict() {
    let mut ledger = busy_ledger();
    let stale = holder(&ledger);
    let change = acknowledge(&ledger);
    write(&mut ledger, |commit| {
        commit.change(change.clone());
    });
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.change(change);
        }),
        Some(Conflict::Tx(stale.id))
    );
}

#[test]
fn change_of_unknown_intent_is_conflict() {
    let ledger = busy_ledger();
    let other = queued(ACCOUNT, 9);
    let change = other.change(Transition::FailInQueue(FailReason::Expired, NodeText::default())).unwrap();
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.change(change);
        }),
        Some(Conflict::Tx(other.id))
    );
}

#[test]
fn changes_of_one_intent_follow_each_other() {
    let ledger = busy_ledger();
    let first = acknowledge(&ledger);
    let mut tx = holder(&ledger);
    tx.apply(&first, AT);
    let second = tx.change(Transition::AwaitFunds).unwrap();
    let in_order = |commit: &mut LaneCommit| {
        commit.change(first.clone()).change(second.clone());
    };
    assert_eq!(conflict(&ledger, in_order), None);
    let reversed = |commit: &mut LaneCommit| {
        commit.change(second.clone()).change(first.clone());
    };
    assert_eq!(conflict(&ledger, reversed), Some(Conflict::Tx(tx.id)));
    let twice = |commit: &mut LaneCommit| {
        commit.change(first.clone()).change(first.clone());
    };
    assert_eq!(conflict(&ledger, twice), Some(Conflict::Tx(tx.id)));
}

#[test]
fn bound_nonce_is_not_bound_again() {
    let ledger = busy_ledger();
    let mistaken = Cursor { next_nonce: nonce(0), ..cursor(&ledger) };
    let tx = ledger.queue().next().unwrap();
    let bind = |commit: &mut LaneCommit| {
        commit.bind(&mistaken, tx, bump(1, 9)).unwrap();
    };
    assert_eq!(conflict(&ledger, bind), Some(Conflict::Slot(nonce(0))));
}

#[test]
fn attempt_and_claim_need_a_slot() {
    let ledger = busy_ledger();
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.attempt(attempt(3));
        }),
        Some(Conflict::Slot(nonce(3)))
    );
    let claim = |at| Claim { nonce: nonce(at), pause: Duration::ZERO, tries: 1, signal: None };
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.claim_resubmit(claim(3));
        }),
        Some(Conflict::Slot(nonce(3)))
    );
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.claim_resubmit(claim(0)).attempt(bump(1, 9));
        }),
        None
    );
}

#[test]
fn attempt_with_known_ordinal_or_hash_is_conflict() {
    let ledger = busy_ledger();
    let known = attempt(0).hash.0[31];
    for again in [bump(0, 9), bump(1, known)] {
        assert_eq!(
            conflict(&ledger, |commit| {
                commit.attempt(again);
            }),
            Some(Conflict::Slot(nonce(0)))
        );
    }
    for twin in [bump(1, 8), bump(2, 9)] {
        let both = |commit: &mut LaneCommit| {
            commit.attempt(bump(1, 9)).attempt(twin);
        };
        assert_eq!(conflict(&ledger, both), Some(Conflict::Slot(nonce(0))));
    }
}

#[test]
fn ordinal_beyond_every_store_is_conflict() {
    let ledger = busy_ledger();
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.attempt(bump(Attempt::MAX_ORDINAL, 9));
        }),
        None
    );
    let beyond = bump(Attempt::MAX_ORDINAL + 1, 9);
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.attempt(beyond);
        }),
        Some(Conflict::Slot(nonce(0)))
    );
}

#[test]
fn report_needs_an_attempt_that_was_durable_before() {
    let ledger = busy_ledger();
    let known = attempt(0).hash.0[31];
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.report(report(0, known));
        }),
        None
    );
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.report(report(0, 9));
        }),
        Some(Conflict::Slot(nonce(0)))
    );
    assert_eq!(
        conflict(&ledger, |commit| {
            commit.report(report(1, known));
        }),
        Some(Conflict::Slot(nonce(1)))
    );
    let too_early = |commit: &mut LaneCommit| {
        commit.attempt(bump(1, 9)).report(report(0, 9));
    };
    assert_eq!(conflict(&ledger, too_early), Some(Conflict::Slot(nonce(0))));
}

#[test]
fn close_over_a_held_nonce_is_conflict() {
    let ledger = busy_ledger();
    let (cursor, tx) = (cursor(&ledger), holder(&ledger));
    let close = |commit: &mut LaneCommit| {
        commit.close_below(&cursor, nonce(1)).unwrap();
    };
    assert_eq!(conflict(&ledger, close), Some(Conflict::Cursor));
    let still_held = |commit: &mut LaneCommit| {
        commit.close_below(&cursor, nonce(1)).unwrap().change(acknowledge(&ledger));
    };
    assert_eq!(conflict(&ledger, still_held), Some(Conflict::Cursor));
    let lost = |commit: &mut LaneCommit| {
        commit.close_below(&cursor, nonce(1)).unwrap().change(tx.change(Transition::LoseNonce).unwrap());
    };
    assert_eq!(conflict(&ledger, lost), None);
}

#[test]
fn close_over_a_nonce_bound_by_the_same_commit_is_conflict() {
    let mut ledger = LaneLedger::default();
    let tx = queued(ACCOUNT, 1);
    ledger.put_intent(tx.clone());
    let start = Cursor::starting_at(nonce(0));
    let bind_and_close = |commit: &mut LaneCommit| {
        commit.bind(&start, &tx, attempt(0)).unwrap().close_below(&start, nonce(1)).unwrap();
    };
    assert_eq!(conflict(&ledger, bind_and_close), Some(Conflict::Cursor));
}

/// The order of the rules is part of the contract of every store.
#[test]
fn commit_with_many_faults_gets_the_first_answer() {
    let mut ledger = busy_ledger();
    let stale = Cursor { version: 7, ..cursor(&ledger) };
    let unknown = queued(ACCOUNT, 9).change(Transition::CancelInQueue(CancelReason::User)).unwrap();
    let faults = |commit: &mut LaneCommit| {
        commit.observe_counts(&stale, nonce(1), nonce(0)).unwrap();
        commit.change(unknown.clone()).attempt(attempt(5)).reservation(use_by(0, "me"));
    };
    let lost = |facts: &mut CommitFacts| facts.lease = LeaseFact::Lost;
    assert_eq!(rejection_with(&ledger, faults, lost), Some(Rejection::Fenced));
    assert_eq!(rejection_with(&ledger, faults, |facts| facts.regressed = true), Some(Rejection::Regressed));
    assert_eq!(conflict(&ledger, faults), Some(Conflict::Cursor));
    ledger.cursor = Some(Cursor { version: 7, ..cursor(&ledger) });
    assert_eq!(conflict(&ledger, faults), Some(Conflict::Tx(unknown.tx_id())));
    let without_change = |commit: &mut LaneCommit| {
        commit.attempt(attempt(5)).reservation(use_by(0, "me"));
    };
    assert_eq!(conflict(&ledger, without_change), Some(Conflict::Slot(nonce(5))));
}
