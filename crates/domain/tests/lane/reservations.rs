//! Reservations: nonces that callers sign for.

use std::time::Duration;

use gapless_domain::{
    Amount, AttemptKind, CancelReason, Cancellation, CommandKind, Effect, EvmCall, EvmRules, Fact, Goal, LaneState,
    Progress, ProtectCode, Protection, ReservationStatus, SendOutcome, Sighting, SignRequest, SignedTx, StateName,
    TxPlan, TxState, Work,
};

use crate::harness::{
    FEES, GAS, Hold, LaneHarness, block, final_window, finalized, kinds, mined, nonce, owner, sign, submitter, text,
    window,
};

pub(crate) const HOLD: Duration = Duration::from_secs(30);

/// How much later the lane ends a reservation.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// A caller's own transaction and its highest cost.
fn signed_by_caller(at: u64, value: u64) -> (SignedTx, Amount) {
    let call = EvmCall { value: Amount::from(value), ..EvmCall::default() };
    let plan =
        TxPlan { submitter: submitter(), nonce: nonce(at), action: call.into(), work: Work::new(GAS), fees: FEES };
    let cost = plan.worst_cost(&EvmRules);
    (sign(&SignRequest { kind: AttemptKind::Original, plan }), cost)
}

pub(crate) fn use_of(at: u64, name: &str, value: u64) -> CommandKind {
    let (signed, cost) = signed_by_caller(at, value);
    CommandKind::UseReserved { nonce: nonce(at), lock_owner: owner(name), signed, fees: FEES, cost }
}

pub(crate) fn release(at: u64, name: &str) -> CommandKind {
    CommandKind::ReleaseReserved { nonce: nonce(at), lock_owner: owner(name) }
}

/// A lane that has reserved its first nonces for these owners.
pub(crate) fn reserved(size: u16, names: &[&str]) -> LaneHarness {
    let mut harness = LaneHarness::new(window(size));
    names.iter().for_each(|name| harness.queue_reservation(name, HOLD));
    harness.run();
    harness
}

pub(crate) fn is_reserved(harness: &LaneHarness, at: u64) -> bool {
    matches!(harness.ledger.reservations.get(&nonce(at)), Some(ReservationStatus::Reserved { .. }))
}

pub(crate) fn is_recyclable(harness: &LaneHarness, at: u64) -> bool {
    harness.ledger.reservations.get(&nonce(at)) == Some(&ReservationStatus::Recyclable)
}

fn protect(harness: &mut LaneHarness) {
    let protection = Protection { code: ProtectCode::PendingAhead, detail: text("x") };
    harness.ledger.cursor.as_mut().unwrap().state = LaneState::Protect(protection);
    harness.crash();
    harness.run();
}

/// proves N18 N11
#[test]
fn nonces_are_reserved_and_bound_in_queue_order() {
    let mut harness = LaneHarness::new(window(8));
    harness.queue(2);
    harness.queue_reservation("a", HOLD);
    harness.queue_reservation("b", HOLD);
    harness.queue(1);
    harness.queue_reservation("c", HOLD);
    harness.run();
    let all: Vec<_> = (0..6).map(Some).collect();
    while harness.nonces() != all {
        harness.answer(SendOutcome::Accepted);
    }
    assert_eq!([2, 3, 5].map(|at| is_reserved(&harness, at)), [true; 3]);
    assert_eq!(harness.ledger.attempts.len(), 3, "nothing is signed for reserved nonces");
    assert_eq!(harness.state(3), StateName::Allocated);
    let TxState::Allocated(bound) = &harness.ledger.txs[&3].state else { panic!() };
    assert_eq!((bound.nonce, bound.goal), (nonce(2), Goal::Deliver));
    harness.advance_secs(20);
    assert!(harness.sending().iter().all(|at| [0, 1, 4].contains(at)), "nothing is sent for reserved nonces");
}

/// proves N13 N18
#[test]
fn reserved_nonces_count_against_window() {
    let mut harness = LaneHarness::new(window(2));
    harness.queue_reservation("a", HOLD);
    harness.queue_reservation("b", HOLD);
    harness.queue_reservation("c", HOLD);
    harness.queue(1);
    harness.run();
    assert_eq!(harness.nonces(), [Some(0), Some(1), None, None]);
    assert_eq!(harness.lane.in_flight(), 2);
    harness.command(use_of(0, "a", 1));
    harness.answer(SendOutcome::Accepted);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2), None]);
    harness.crash();
    harness.run();
    assert_eq!(harness.lane.in_flight(), 3, "the mined slot is not verified yet");
    assert_eq!(harness.nonces()[3], None);
}

/// proves N12 N18
#[test]
fn strict_lane_waits_for_reserved_nonce() {
    let mut harness = LaneHarness::new(final_window(1));
    harness.queue_reservation("a", HOLD);
    harness.queue(1);
    harness.run();
    harness.advance_secs(10);
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.command(use_of(0, "a", 1));
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(1)));
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.sight(finalized(hash, block(1)));
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// proves N18 S01
#[test]
fn submitted_transaction_is_durable_before_it_is_sent() {
    let mut harness = reserved(1, &["a"]);
    harness.hold.insert(Hold::Commit);
    harness.command(use_of(0, "a", 5));
    let commit = harness.pending_commit();
    assert_eq!((commit.reservations().len(), commit.attempts().len()), (1, 1), "one commit has both");
    assert!(harness.broadcasts.is_empty());
    harness.hold.clear();
    harness.commit_done(true);
    assert!(harness.result().0);
    let (signed, _) = signed_by_caller(0, 5);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx, signed);
    assert_eq!((harness.state(1), kinds(&harness, 0)), (StateName::Tracking, vec![AttemptKind::Original]));
    harness.advance_secs(60);
    assert_eq!(harness.answer(SendOutcome::AlreadyKnown)[0].tx, signed, "the resend has the same bytes");
    harness.sight(mined(signed.hash, block(1)));
    harness.sight(Sighting::Unmined { hash: signed.hash, block: block(1) });
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx, signed, "the orphaned transaction is sent again");
    harness.finish(signed.hash, block(2));
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
    harness.advance_secs(6);
    harness.advance_secs(6);
    assert!(harness.released, "the lane has no work left");
}

/// proves N18
#[test]
fn reserved_nonce_is_used_by_its_owner_once_and_in_time() {
    let mut harness = reserved(3, &["a", "b"]);
    let refusals = [
        (use_of(0, "b", 1), "nonce 0 is reserved by another lock owner"),
        (release(0, "b"), "nonce 0 is reserved by another lock owner"),
        (use_of(2, "a", 1), "nonce 2 is not reserved"),
    ];
    for (command, why) in refusals {
        harness.command(command);
        assert_eq!(harness.result(), (false, why));
    }
    harness.command(use_of(0, "a", 1));
    harness.command(use_of(0, "a", 1));
    assert_eq!(harness.result(), (true, "the transaction was already submitted"), "submitting again is harmless");
    for command in [use_of(0, "a", 2), release(0, "a")] {
        harness.command(command);
        assert_eq!(harness.result(), (false, "a transaction for nonce 0 was already submitted"));
    }
    harness.advance(HOLD);
    for command in [use_of(1, "b", 1), release(1, "b")] {
        harness.command(command);
        assert_eq!(harness.result(), (false, "the reservation of nonce 1 has timed out"));
    }
    harness.advance(GRACE);
    harness.command(use_of(1, "b", 1));
    assert!(!harness.result().0);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
    assert!(!kinds(&harness, 1).contains(&AttemptKind::Original), "a late transaction is not accepted");
}

/// All commands are executed in one commit.
///
/// proves N18
#[test]
fn first_of_two_submits_in_one_commit_counts() {
    let mut harness = reserved(2, &["a", "b"]);
    harness.hold.insert(Hold::Commit);
    harness.command(CommandKind::Pause);
    for command in [use_of(0, "a", 1), use_of(0, "a", 1), use_of(0, "a", 2), release(0, "a")] {
        harness.command(command);
    }
    for command in [release(1, "b"), use_of(1, "b", 1), release(1, "b")] {
        harness.command(command);
    }
    harness.hold.clear();
    harness.commit_done(true);
    let done: Vec<bool> =
        harness.ledger.results.iter().map(|result| matches!(result, gapless_domain::CommandResult::Done(_))).collect();
    assert_eq!(done, [true, true, true, false, false, true, false, false]);
    assert_eq!(harness.hash(0, 0), signed_by_caller(0, 1).0.hash);
    assert_eq!(harness.state(2), StateName::Canceled);
}

/// The owner can send the transaction at any time, so the funds are not checked. But its cost reduces the budget.
///
/// proves S18 S17
#[test]
fn submitted_transaction_reduces_the_budget() {
    let mut harness = reserved(4, &["a"]);
    let one = GAS * 100;
    harness.account.balance = Amount::from(one * 3 / 2);
    harness.advance_secs(20);
    harness.command(use_of(0, "a", one));
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.nonces(), [Some(0), None], "the rest does not pay for another transaction");
    harness.answer(SendOutcome::InsufficientFunds);
    assert_eq!(harness.ledger.txs[&1].state.bound().unwrap().progress, Progress::AwaitingFunds);
    harness.advance_secs(20);
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.crash();
    harness.run();
    assert_eq!(harness.nonces(), [Some(0), None], "the same holds after a takeover");
    harness.account.balance = Amount::from(one * 10);
    harness.advance_secs(20);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// proves N18
#[test]
fn released_nonces_are_reserved_again_smallest_first() {
    let mut harness = reserved(4, &["a", "b", "c", "d"]);
    harness.hold.insert(Hold::Prepare);
    harness.command(release(3, "d"));
    harness.command(release(1, "b"));
    assert_eq!([harness.state(2), harness.state(4)], [StateName::Canceled; 2]);
    assert_eq!(harness.ledger.txs[&2].state, TxState::Canceled(Cancellation::Released));
    assert!(is_recyclable(&harness, 1) && is_recyclable(&harness, 3));
    assert_eq!(harness.lane.in_flight(), 4);
    harness.queue_reservation("e", HOLD);
    harness.queue_reservation("f", HOLD);
    harness.queue_reservation("g", HOLD);
    harness.give(Fact::Woken);
    assert_eq!(harness.nonces(), [Some(0), None, Some(2), None, Some(1), Some(3), None]);
    // Fillers were being prepared for both nonces. They come too late and are not signed.
    harness.hold = [Hold::Sign].into();
    let asked: Vec<_> = harness.unanswered.drain(..).collect();
    for effect in asked {
        let Effect::Prepare(requests) = effect else { panic!("{effect:?}") };
        harness.prepared(requests.iter().map(|request| (request.key, crate::harness::price())).collect());
    }
    assert!(harness.unanswered.is_empty(), "{:?}", harness.unanswered);
    harness.command(use_of(1, "b", 1));
    assert_eq!(harness.result(), (false, "nonce 1 is reserved by another lock owner"));
    harness.command(use_of(1, "e", 1));
    assert!(harness.result().0);
}

/// proves N18
#[test]
fn released_nonce_without_a_request_is_filled() {
    let mut harness = reserved(1, &["a"]);
    harness.queue(1);
    harness.queue_reservation("b", HOLD);
    harness.give(Fact::Woken);
    harness.command(release(0, "a"));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Fill], "the next candidate is no reservation request");
    assert_eq!(harness.ledger.reservations[&nonce(0)], ReservationStatus::Used { tx_id: None });
    let fill = harness.commits.iter().find(|commit| !commit.attempts().is_empty()).unwrap();
    assert_eq!(fill.reservations().len(), 1, "one commit has both");
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 0));
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
    assert_eq!(harness.nonces(), [None, Some(1), None]);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(1, 0), block(2));
    assert_eq!(harness.nonces(), [None, Some(1), Some(2)]);
}

/// proves N18
#[test]
fn reservation_times_out_by_itself() {
    let mut harness = reserved(1, &["a"]);
    harness.advance(HOLD);
    assert!(is_reserved(&harness, 0));
    assert!(harness.wake_at.unwrap() <= harness.now.saturating_add(GRACE), "the lane asks to be woken in time");
    harness.advance(GRACE);
    assert_eq!(harness.ledger.txs[&1].state, TxState::Canceled(Cancellation::Released));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Fill]);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    harness.advance_secs(6);
    harness.advance_secs(6);
    assert!(harness.released, "the lane has no work left");
}

#[test]
fn lane_with_a_reservation_is_not_released() {
    let mut harness = reserved(1, &["a"]);
    harness.advance_secs(10);
    harness.advance_secs(10);
    assert!(!harness.released);
}

/// proves N15 N18
#[test]
fn rejected_filler_puts_lane_into_protect() {
    let mut harness = reserved(1, &["a"]);
    harness.command(release(0, "a"));
    harness.answer(SendOutcome::Rejected);
    assert_eq!(harness.protect_code(), Some("cannot_fill"));
}

/// proves N17 N18
#[test]
fn stopped_lane_reserves_nothing_but_submits_and_fills() {
    let stops: [fn(&mut LaneHarness); 2] = [|harness| harness.command(CommandKind::Pause), protect];
    for stop in stops {
        let mut harness = reserved(4, &["a", "b", "c"]);
        stop(&mut harness);
        harness.queue_reservation("d", HOLD);
        harness.give(Fact::Woken);
        assert_eq!(harness.nonces()[3], None, "no fresh nonce is reserved");
        harness.command(release(1, "b"));
        assert_eq!(kinds(&harness, 1), [AttemptKind::Fill], "no recyclable nonce is reserved");
        harness.command(use_of(0, "a", 1));
        assert!(harness.result().0);
        harness.advance(HOLD + GRACE);
        harness.advance_secs(1);
        assert_eq!(kinds(&harness, 2), [AttemptKind::Fill]);
        assert_eq!(harness.state(4), StateName::Queued);
        harness.command(CommandKind::Resume);
        assert_eq!(harness.nonces()[3], harness.protect_code().is_none().then_some(3));
    }
}

/// proves S02 N18
#[test]
fn reservations_survive_a_crash_at_every_stage() {
    let mut harness = reserved(4, &["a", "b", "c"]);
    harness.crash();
    harness.run();
    harness.command(release(0, "b"));
    assert_eq!(harness.result(), (false, "nonce 0 is reserved by another lock owner"));
    harness.command(use_of(0, "a", 1));
    assert!(harness.result().0);
    let first = harness.take_broadcast();
    harness.crash();
    harness.run();
    assert_eq!(harness.answer(SendOutcome::Accepted), first, "the submitted transaction was not sent before");
    // The nonce is released, and the owner crashes before it is filled.
    harness.hold.insert(Hold::Prepare);
    harness.command(release(1, "b"));
    harness.crash();
    harness.run();
    assert_eq!(kinds(&harness, 1), [AttemptKind::Fill]);
    // The nonce is filled, and the filler is not sent.
    let fill = harness.take_broadcast();
    harness.crash();
    harness.run();
    assert_eq!(harness.answer(SendOutcome::Accepted), fill);
    assert_eq!(kinds(&harness, 1).len(), 1);
    // The reservation times out while the lane has no owner.
    harness.ledger.now_micros += 60_000_000;
    harness.crash();
    harness.run();
    assert_eq!(harness.ledger.txs[&3].state, TxState::Canceled(Cancellation::Released));
    assert_eq!(kinds(&harness, 2), [AttemptKind::Fill]);
    if !harness.broadcasts.is_empty() {
        harness.answer(SendOutcome::Accepted);
    }
    (0..3).for_each(|at| harness.finish(harness.hash(at, 0), block(1)));
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(3));
}

/// The reservation ended above an open slot. The next owner leaves it alone.
#[test]
fn ended_reservation_is_left_alone_after_takeover() {
    let mut harness = reserved(2, &["a", "b"]);
    harness.command(use_of(1, "b", 1));
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(1, 0), block(1));
    assert_eq!(harness.state(2), StateName::Confirmed);
    harness.crash();
    harness.run();
    harness.advance_secs(10);
    assert!(harness.broadcasts.is_empty());
    assert_eq!((harness.lane.in_flight(), kinds(&harness, 1).len()), (1, 1));
    harness.command(use_of(0, "a", 1));
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(2));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(2));
}

/// proves N10 N18
#[test]
fn reservation_in_failed_commit_is_repeated_in_order() {
    let mut harness = LaneHarness::new(window(4));
    harness.hold.extend([Hold::Commit, Hold::Sign]);
    harness.queue_reservation("a", HOLD);
    harness.queue(1);
    harness.run();
    assert_eq!(harness.pending_commit().slots().len(), 1);
    // The second intent is signed behind the reservation, for the next nonce.
    harness.give(Fact::Woken);
    let Some(Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    assert_eq!(requests[0].plan.nonce, nonce(1));
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    harness.commit_not_written();
    harness.hold.clear();
    harness.advance_secs(2);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
    assert!(is_reserved(&harness, 0) && harness.notices.is_empty(), "{:?}", harness.notices);
}

/// proves S02 N18
#[test]
fn submit_in_failed_commit_is_executed_once() {
    let mut harness = reserved(1, &["a"]);
    harness.hold.insert(Hold::Commit);
    harness.command(use_of(0, "a", 1));
    harness.commit_not_written();
    assert!(harness.broadcasts.is_empty());
    harness.hold.clear();
    harness.advance_secs(2);
    assert_eq!((harness.ledger.results.len(), harness.ledger.attempts.len()), (1, 1));
    assert_eq!(harness.sending(), [0]);
    let mut late = reserved(1, &["a"]);
    late.hold.insert(Hold::Commit);
    late.command(use_of(0, "a", 1));
    late.commit_not_written();
    late.hold.clear();
    late.advance(HOLD);
    assert!(!late.result().0, "the commit came too late");
    late.advance(GRACE);
    assert_eq!(kinds(&late, 0), [AttemptKind::Fill]);
}

#[test]
fn reserved_nonce_cannot_be_canceled_until_submitted() {
    let mut harness = reserved(2, &["a", "b"]);
    harness.cancel(1);
    assert!(!harness.result().0);
    harness.command(CommandKind::CancelPending);
    let expected =
        "0 bound intents are being canceled; the chain decides what counts; 2 reserved nonces are left alone";
    assert_eq!(harness.result().1, expected);
    harness.command(use_of(0, "a", 1));
    harness.answer(SendOutcome::Accepted);
    harness.cancel(1);
    assert!(harness.result().0);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 1), block(1));
    let TxState::Canceled(Cancellation::OnChain(reason, _)) = &harness.ledger.txs[&1].state else { panic!() };
    assert_eq!(*reason, CancelReason::User);
}

/// proves S20
#[test]
fn rejected_submitted_transaction_is_canceled_in_its_slot() {
    let mut harness = reserved(1, &["a"]);
    harness.command(use_of(0, "a", 1));
    harness.answer(SendOutcome::Rejected);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert!(!is_recyclable(&harness, 0), "the transaction may still be mined, so the nonce is not reserved again");
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

#[test]
fn queued_reservation_request_is_canceled_at_once() {
    let mut harness = reserved(1, &["a", "b"]);
    harness.cancel(2);
    assert_eq!(harness.state(2), StateName::Canceled);
}

/// The filler was signed while the nonce was reserved again.
#[test]
fn late_filler_of_reserved_nonce_is_dropped() {
    let mut harness = reserved(1, &["a"]);
    harness.hold.insert(Hold::Sign);
    harness.command(release(0, "a"));
    let Some(Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.queue_reservation("b", HOLD);
    harness.give(Fact::Woken);
    assert_eq!(harness.nonces(), [None, Some(0)]);
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert!(harness.ledger.attempts.is_empty());
    harness.hold.clear();
    harness.command(release(0, "b"));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Fill], "without another request the nonce is filled");
}

/// The filler is signed, and a reservation request comes before it is written. The nonce is reserved, not filled.
///
/// proves N18
#[test]
fn reservation_request_takes_precedence_over_filler() {
    let mut harness = reserved(1, &["a"]);
    harness.hold.insert(Hold::Sign);
    harness.command(release(0, "a"));
    let Some(Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.hold.insert(Hold::Commit);
    harness.command(CommandKind::Resume);
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    harness.queue_reservation("b", HOLD);
    harness.give(Fact::Woken);
    harness.hold.clear();
    harness.commit_done(true);
    assert_eq!(harness.nonces(), [None, Some(0)]);
    assert!(harness.ledger.attempts.is_empty());
}

/// After a loss of commits no intent ends, so no reservation ends before the chain has decided about its nonce. A
/// submitted transaction is accepted.
#[test]
fn reservation_after_lost_commits_does_not_end_unsent() {
    let mut harness = reserved(2, &["a", "b"]);
    harness.ledger.regressed = true;
    harness.crash();
    harness.run();
    harness.command(release(0, "a"));
    assert!(!harness.result().0);
    harness.command(use_of(1, "b", 1));
    assert!(harness.result().0);
    assert!(is_reserved(&harness, 0));
    harness.advance(HOLD + GRACE);
    assert_eq!((harness.state(1), kinds(&harness, 0)), (StateName::Allocated, vec![AttemptKind::Cancel]));
    assert!(harness.wake_at.unwrap() > harness.now, "the lane does not run in a loop");
}
