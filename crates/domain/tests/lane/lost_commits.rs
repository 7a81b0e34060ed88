//! Reservations after a loss of commits: a reserved nonce holds up the nonces behind it, and no intent may end.

use gapless_domain::{
    AttemptKind, CancelReason, Cancellation, CommandKind, Effect, Fact, Goal, LostRule, ReservationStatus, SendOutcome,
    SignRequest, StateName, TxState,
};

use crate::harness::{Hold, LaneHarness, block, foreign_tx, kinds, nonce, sign, window};
use crate::reconcile_fixtures::{answer_all, final_count, missing};
use crate::reservations::{GRACE, HOLD, is_reserved, release, use_of};

/// A lane with a reserved nonce and an intent behind it, after a loss of commits.
fn behind_reservation() -> LaneHarness {
    let mut harness = LaneHarness::new(window(8));
    harness.queue_reservation("a", HOLD);
    harness.queue(1);
    harness.run();
    harness.answer(SendOutcome::Accepted);
    harness.ledger.regressed = true;
    harness.crash();
    harness.run();
    harness.blocks = Some((0, Vec::new()));
    answer_all(&mut harness, SendOutcome::Accepted);
    harness
}

fn resync(harness: &mut LaneHarness) {
    harness.command(CommandKind::Resync { lost: LostRule::Requeue, dry_run: false });
    harness.advance_secs(1);
}

fn goal(harness: &LaneHarness, seq: u64) -> Option<Goal> {
    harness.ledger.txs[&seq].state.bound().map(|bound| bound.goal)
}

/// The reservation may not end, and the intent behind it may have a lost replacement. A cancel takes the reserved
/// nonce, so that both nonces become final.
#[test]
fn timed_out_reservation_is_canceled_after_lost_commits() {
    let mut harness = behind_reservation();
    resync(&mut harness);
    let (done, text) = harness.result();
    assert!(!done && text.contains("nonce 0 is reserved, and is canceled when its hold has ended"), "{text}");
    assert!(is_reserved(&harness, 0) && kinds(&harness, 0).is_empty(), "the caller may still submit");
    harness.advance(HOLD + GRACE);
    assert_eq!((harness.protect_code(), kinds(&harness, 0)), (Some("store_regressed"), vec![AttemptKind::Cancel]));
    let status = ReservationStatus::Used { tx_id: Some(harness.id(1)) };
    assert_eq!(harness.ledger.reservations.get(&nonce(0)), Some(&status));
    assert_eq!(
        (harness.state(1), goal(&harness, 1)),
        (StateName::Allocated, Some(Goal::Cancel(CancelReason::Expired)))
    );
    resync(&mut harness);
    assert!(!harness.result().0, "the nonces are not final: {:?}", harness.result());
    answer_all(&mut harness, SendOutcome::Accepted);
    (0..2).for_each(|at| harness.finish(harness.hash(at, 0), block(at + 1)));
    assert_eq!(harness.states(), [StateName::Tracking; 2], "no intent ends before the loss is reconciled");
    harness.account = final_count(2);
    resync(&mut harness);
    assert_eq!((harness.protect_code(), harness.states()), (None, vec![StateName::Canceled, StateName::Confirmed]));
    let TxState::Canceled(Cancellation::OnChain(reason, _)) = &harness.ledger.txs[&1].state else { panic!() };
    assert_eq!(*reason, CancelReason::Expired);
}

/// The caller submits in time. Its transaction takes the nonce, and no cancel is made.
#[test]
fn submit_in_time_after_lost_commits_prevents_the_cancel() {
    let mut harness = behind_reservation();
    harness.command(use_of(0, "a", 1));
    assert!(harness.result().0);
    harness.advance(HOLD + GRACE);
    assert_eq!((kinds(&harness, 0), goal(&harness, 1)), (vec![AttemptKind::Original], Some(Goal::Deliver)));
}

/// The store decides by its clock: the hold has ended, so the cancel takes the nonce, and the caller is refused.
#[test]
fn late_submit_after_lost_commits_is_refused() {
    let mut harness = behind_reservation();
    harness.hold.insert(Hold::Commit);
    harness.advance(HOLD + GRACE);
    assert_eq!(harness.pending_commit().attempts().len(), 1);
    harness.hold.clear();
    harness.commit_not_written();
    harness.command(use_of(0, "a", 1));
    harness.advance_secs(1);
    assert_eq!(harness.result(), (false, "the reservation of nonce 0 has timed out"));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Cancel], "the commit that was not written is repeated");
    harness.command(use_of(0, "a", 1));
    assert_eq!(harness.result(), (false, "the reservation of nonce 0 has timed out"));
    harness.command(release(0, "a"));
    assert!(!harness.result().0);
}

/// The owner dies before or after the commit of the cancel. The next owner makes the cancel, or sends the durable one.
#[test]
fn cancel_of_timed_out_reservation_survives_a_crash() {
    for held in [Some(Hold::Prepare), Some(Hold::Sign), Some(Hold::Commit), None] {
        let mut harness = behind_reservation();
        harness.hold.extend(held);
        harness.advance(HOLD + GRACE);
        assert_eq!(kinds(&harness, 0).len(), usize::from(held.is_none()), "{held:?}");
        harness.hold.clear();
        harness.crash();
        harness.run();
        harness.advance_secs(1);
        assert_eq!(kinds(&harness, 0), [AttemptKind::Cancel], "{held:?}");
        assert!(harness.sending().contains(&0), "{held:?}");
    }
}

/// The caller had submitted a transaction, and the commit was lost. The chain decides between it and the cancel.
#[test]
fn lost_submit_at_canceled_reservation_confirms_the_intent() {
    let mut harness = behind_reservation();
    harness.advance(HOLD + GRACE);
    let theirs = foreign_tx(0, 9, 1);
    harness.blocks = Some((0, vec![theirs.clone()]));
    harness.answer(SendOutcome::NonceTooLow);
    missing(&mut harness, final_count(1));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Cancel, AttemptKind::Original]);
    harness.finish(theirs.tx.signed.hash, theirs.block);
    harness.finish(harness.hash(1, 0), block(2));
    harness.account = final_count(2);
    resync(&mut harness);
    assert_eq!((harness.protect_code(), harness.states()), (None, vec![StateName::Confirmed; 2]));
}

/// The caller had submitted a transaction, the commit was lost, and the transaction is final while the cancel is at the
/// signer. The transaction takes the nonce, and the cancel is dropped.
#[test]
fn cancel_at_signer_is_dropped_when_loss_is_reconciled() {
    let mut harness = behind_reservation();
    harness.hold.insert(Hold::Sign);
    harness.advance(HOLD + GRACE);
    let is_sign = |effect: &Effect| matches!(effect, Effect::Sign(_));
    let at = harness.unanswered.iter().position(is_sign).unwrap();
    let Effect::Sign(requests) = harness.unanswered.remove(at) else { panic!() };
    harness.hold.clear();
    harness.blocks = Some((0, vec![foreign_tx(0, 9, 1)]));
    harness.account = final_count(2);
    harness.finish(harness.hash(1, 0), block(2));
    resync(&mut harness);
    assert_eq!(harness.protect_code(), None);
    let theirs = foreign_tx(0, 9, 1);
    harness.finish(theirs.tx.signed.hash, theirs.block);
    assert_eq!(harness.states(), [StateName::Confirmed; 2]);
    harness.give(Fact::Signed(requests.iter().map(|request: &SignRequest| Ok(sign(request))).collect()));
    harness.advance_secs(1);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
}

/// The reserved nonce is the last one. Its caller had submitted a transaction, the commit was lost, and the transaction
/// is mined after the hold. `resync` waits for the nonce, so the intent does not end as if nothing was sent.
#[test]
fn lost_submit_at_last_nonce_confirms_the_intent() {
    let mut harness = LaneHarness::new(window(8));
    harness.queue_reservation("a", HOLD);
    harness.run();
    harness.ledger.regressed = true;
    harness.crash();
    harness.run();
    harness.blocks = Some((0, Vec::new()));
    harness.hold.insert(Hold::Sign);
    harness.advance(HOLD + GRACE);
    resync(&mut harness);
    let (done, text) = harness.result();
    assert!(!done && text.contains("nonce 0 is reserved"), "{text}");
    let theirs = foreign_tx(0, 9, 1);
    harness.blocks = Some((0, vec![theirs.clone()]));
    harness.account = final_count(1);
    resync(&mut harness);
    harness.finish(theirs.tx.signed.hash, theirs.block);
    assert_eq!((harness.protect_code(), harness.states()), (None, vec![StateName::Confirmed]));
}
