//! Canceling: queued intents, intents in flight, all intents of a lane, and expired intents.

use std::time::Duration;

use gapless_domain::{
    AccountFacts, Address, AttemptKind, CancelReason, Cancellation, CommandKind, Effect, EvmCall, ExternalNoncePolicy,
    Fact, Fees, Goal, LaneState, ProtectCode, Protection, SendOutcome, Sighting, StateName, Timestamp, TxState,
};

use crate::harness::{
    Hold, LaneHarness, account, block, finalized, foreign_tx, kinds, mined, nonce, sign, text, window,
};

fn goal(harness: &LaneHarness, seq: u64) -> Goal {
    harness.ledger.txs[&seq].state.bound().unwrap().goal
}

fn reason(harness: &LaneHarness, seq: u64) -> CancelReason {
    match &harness.ledger.txs[&seq].state {
        TxState::Canceled(Cancellation::OnChain(reason, _) | Cancellation::InQueue(reason)) => *reason,
        other => panic!("{other:?}"),
    }
}

fn tracked(size: u16, intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(size), intents);
    harness.answer(SendOutcome::Accepted);
    harness
}

/// proves S13 N14
#[test]
fn cancel_in_flight_ends_intent_when_cancel_is_final() {
    let mut harness = tracked(1, 1);
    harness.cancel(1);
    assert!(harness.result().0, "{:?}", harness.result());
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::User));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    let Fees::Eip1559 { max_fee, .. } = harness.ledger.attempts[&(nonce(0), 1)].fees else { panic!() };
    assert!(max_fee >= 113, "the cancel is too cheap to replace the original");
    let cancel = harness.hash(0, 1);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, cancel);
    harness.sight(mined(cancel, block(1)));
    assert_eq!(harness.state(1), StateName::Tracking, "the cancel is not final yet");
    harness.sight(finalized(cancel, block(1)));
    assert_eq!((harness.state(1), reason(&harness, 1)), (StateName::Canceled, CancelReason::User));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
}

/// The former owner stopped, and sends the original after the cancel is durable.
///
/// proves S13 N24
#[test]
fn cancel_that_loses_the_race_leaves_intent_confirmed() {
    let mut harness = tracked(1, 1);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// proves S13
#[test]
fn canceled_intent_is_canceled_again_after_reorg() {
    let mut harness = tracked(1, 1);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    let (original, cancel) = (harness.hash(0, 0), harness.hash(0, 1));
    harness.sight(mined(original, block(1)));
    harness.sight(Sighting::Unmined { hash: original, block: block(1) });
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, cancel);
    harness.finish(cancel, block(2));
    assert_eq!(harness.state(1), StateName::Canceled);
}

/// The cancel of a mined transaction is refused. After the reorg, another cancel succeeds.
///
/// proves S13
#[test]
fn mined_intent_is_canceled_only_after_reorg() {
    let mut harness = tracked(1, 1);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(1)));
    harness.cancel(1);
    assert_eq!(harness.result(), (false, "the transaction is already mined"));
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    harness.answer(SendOutcome::Accepted);
    assert_eq!((goal(&harness, 1), kinds(&harness, 0).len()), (Goal::Deliver, 1), "the cancel was refused");
    harness.cancel(1);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

/// After loading, the ledger's state counts until it was compared with the chain.
#[test]
fn intent_mined_by_ledger_is_not_canceled() {
    let mut harness = tracked(1, 1);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    harness.crash();
    harness.cancel(1);
    assert!(!harness.result().0);
}

#[test]
fn second_cancel_makes_no_second_attempt() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Commit);
    harness.cancel(1);
    harness.cancel(1);
    harness.hold.clear();
    harness.commit_done(true);
    assert_eq!(harness.result(), (true, "the intent is already being canceled"));
    assert_eq!(harness.ledger.results.len(), 2);
    assert_eq!(kinds(&harness, 0).len(), 2);
}

/// proves S02
#[test]
fn cancel_in_failed_commit_is_executed_again() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Commit);
    harness.cancel(1);
    harness.commit_not_written();
    harness.sight(mined(harness.hash(0, 0), block(1)));
    harness.hold.clear();
    harness.advance_secs(2);
    assert!(!harness.result().0, "the transaction was mined meanwhile");
    assert_eq!((goal(&harness, 1), harness.ledger.results.len()), (Goal::Deliver, 1));
}

/// proves S13
#[test]
fn queued_intent_is_canceled_at_once() {
    let mut harness = tracked(1, 3);
    harness.cancel(2);
    assert_eq!((harness.state(2), reason(&harness, 2)), (StateName::Canceled, CancelReason::User));
    assert!(harness.result().0);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.nonces(), [Some(0), None, Some(1)]);
}

/// A command that is older than the loading of the lane waits for the first peek.
#[test]
fn loaded_lane_reads_queue_before_it_answers_cancel() {
    let mut harness = tracked(1, 2);
    harness.hold.insert(Hold::Commit);
    harness.cancel(2);
    harness.crash();
    harness.hold.insert(Hold::Peek);
    harness.run();
    assert!(harness.ledger.results.is_empty(), "the queue was not read yet");
    harness.hold.clear();
    let (queue, commands) = (vec![harness.ledger.txs[&2].clone()], harness.ledger.commands.clone());
    harness.give(Fact::Peeked(Some(gapless_domain::Peeked { queue, commands })));
    assert_eq!(harness.state(2), StateName::Canceled);
}

/// A signed attempt that is not written uses no nonce, and the intents behind it move up.
///
/// proves N10 S15
#[test]
fn signed_unwritten_intent_is_canceled_without_a_nonce() {
    let mut harness = LaneHarness::with_intents(window(4), 1);
    harness.hold.insert(Hold::Commit);
    harness.answer(SendOutcome::Accepted);
    harness.queue(3);
    harness.give(Fact::Woken);
    harness.cancel(3);
    harness.hold.clear();
    harness.commit_done(true);
    assert_eq!(harness.state(3), StateName::Canceled);
    assert_eq!(harness.nonces(), [Some(0), Some(1), None, Some(2)]);
    assert_eq!(harness.ledger.attempts.len(), 3);
}

/// The intent may return without a nonce or be bound, so the command waits.
#[test]
fn cancel_of_intent_at_signer_waits() {
    let mut harness = tracked(2, 1);
    harness.hold.insert(Hold::Sign);
    harness.queue(1);
    harness.give(Fact::Woken);
    harness.cancel(2);
    assert!(harness.ledger.results.is_empty());
    let Some(Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.hold.clear();
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert_eq!((harness.state(2), harness.nonces()[1]), (StateName::Canceled, None));
}

#[test]
fn cancel_of_unknown_intent_is_refused() {
    let mut harness = tracked(2, 2);
    harness.finish(harness.hash(1, 0), block(1));
    harness.cancel(2);
    let (refused, ended) = ((false, "the intent is not open in this lane"), "the intent ended; its slot is not closed");
    assert_eq!(harness.result(), refused, "{ended}");
    harness.command(CommandKind::Cancel { tx_id: gapless_domain::TxId::from_uuid(uuid::Uuid::from_u128(99)) });
    assert_eq!(harness.result(), refused);
}

/// proves N15
#[test]
fn rejected_cancel_puts_lane_into_protect() {
    let mut harness = tracked(1, 2);
    harness.cancel(1);
    harness.answer(SendOutcome::Rejected);
    assert_eq!(harness.protect_code(), Some("cannot_fill"));
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.states(), [StateName::Confirmed, StateName::Queued]);
}

/// proves S15
#[test]
fn cancel_pending_cancels_bound_intents_and_leaves_no_gap() {
    let mut harness = tracked(3, 4);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    harness.answer(SendOutcome::Accepted);
    harness.cancel(2);
    harness.answer(SendOutcome::Accepted);
    harness.command(CommandKind::CancelPending);
    let expected = "2 bound intents are being canceled; the chain decides what counts";
    assert_eq!(harness.result(), (true, expected));
    harness.answer(SendOutcome::Accepted);
    assert_eq!(goal(&harness, 1), Goal::Deliver, "the intent is mined");
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.nonces()[4], None, "a cancel makes no room before it is mined");
    for at in 1..4 {
        harness.finish(harness.hash(at, 1), block(2));
    }
    harness.sight(finalized(harness.hash(0, 0), block(1)));
    harness.finish(harness.hash(4, 0), block(3));
    use StateName::{Canceled, Confirmed};
    assert_eq!(harness.states(), [Confirmed, Canceled, Canceled, Canceled, Confirmed]);
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2), Some(3), Some(4)], "no nonce is skipped");
}

/// No effect of a large cancellation exceeds the batch limit.
#[test]
fn cancels_of_a_wide_window_are_made_in_batches() {
    let mut setup = window(20);
    setup.limits.batch = 8;
    let mut harness = LaneHarness::with_intents(setup, 20);
    while !harness.broadcasts.is_empty() {
        harness.answer(SendOutcome::Accepted);
    }
    assert_eq!(harness.nonces().iter().flatten().count(), 20);
    harness.hold.extend([Hold::Prepare, Hold::Sign]);
    harness.command(CommandKind::CancelPending);
    // All cancels are prepared before the first one is signed.
    while !harness.unanswered.is_empty() {
        let prepares = harness.unanswered.iter().position(|effect| matches!(effect, Effect::Prepare(_)));
        match harness.unanswered.remove(prepares.unwrap_or(0)) {
            Effect::Prepare(requests) => {
                assert!(requests.len() <= 8);
                harness.prepared(requests.iter().map(|request| (request.key, crate::harness::price())).collect());
            }
            Effect::Sign(requests) => {
                assert!(requests.len() <= 8);
                harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((0..20).all(|at| kinds(&harness, at) == [AttemptKind::Original, AttemptKind::Cancel]));
}

/// A lane that is paused or in PROTECT still cancels, because a cancel binds nothing.
///
/// proves N17 S15
#[test]
fn paused_or_protected_lane_still_cancels() {
    let protection = Protection { code: ProtectCode::PendingAhead, detail: text("x") };
    let stops: [fn(&mut LaneHarness, Protection); 2] = [
        |harness, _| harness.command(CommandKind::Pause),
        |harness, protection| {
            harness.ledger.cursor.as_mut().unwrap().state = LaneState::Protect(protection);
            harness.crash();
            harness.run();
        },
    ];
    for stop in stops {
        let mut harness = tracked(2, 4);
        stop(&mut harness, protection.clone());
        harness.cancel(1);
        harness.command(CommandKind::CancelPending);
        harness.cancel(3);
        assert_eq!((kinds(&harness, 0).len(), kinds(&harness, 1).len()), (2, 2));
        assert_eq!(harness.state(3), StateName::Canceled, "the queued intent");
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::Accepted);
        }
        harness.finish(harness.hash(0, 1), block(1));
        harness.finish(harness.hash(1, 1), block(1));
        assert_eq!(harness.state(4), StateName::Queued);
        assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(2));
        harness.command(CommandKind::Resume);
        let continues = harness.protect_code().is_none();
        assert_eq!(harness.nonces()[3], continues.then_some(2), "the next intent gets the next nonce");
    }
}

/// A cancel neither changes nor delays the intents above it.
///
/// proves S15
#[test]
fn cancel_does_not_affect_higher_nonces() {
    let mut harness = tracked(3, 3);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 1), block(1));
    harness.finish(harness.hash(1, 0), block(1));
    harness.finish(harness.hash(2, 0), block(1));
    assert_eq!(harness.states(), [StateName::Canceled, StateName::Confirmed, StateName::Confirmed]);
}

/// proves S02 S03
#[test]
fn takeover_completes_a_requested_cancel() {
    let mut harness = tracked(1, 1);
    harness.hold.insert(Hold::Sign);
    harness.cancel(1);
    assert_eq!(kinds(&harness, 0).len(), 1);
    harness.crash();
    harness.run();
    let cancel = harness.hash(0, 1);
    assert_eq!(harness.take_broadcast()[0].tx.hash, cancel, "only the goal was durable");
    harness.crash();
    harness.run();
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, cancel, "the durable cancel is not made again");
    assert_eq!(kinds(&harness, 0).len(), 2);
    harness.finish(cancel, block(1));
    assert_eq!(reason(&harness, 1), CancelReason::User);
}

/// A scan finds that the nonce is lost, and a cancel comes in the same commit. The intent is queued again before it is
/// canceled.
///
/// proves S13
#[test]
fn intent_that_lost_its_nonce_is_canceled_in_queue() {
    let mut setup = window(1);
    setup.policy.nonce.on_external_nonce = ExternalNoncePolicy::Adopt;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Scan);
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(1) };
    harness.advance_secs(20);
    for _ in 0..3 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
    }
    let Some(Effect::Scan(_)) = harness.unanswered.pop() else { panic!() };
    harness.hold.insert(Hold::Commit);
    harness.command(CommandKind::Resume);
    harness.cancel(1);
    let (account, head, sent) = (harness.account, block(100), vec![foreign_tx(0, 7, 20)]);
    harness.give(Fact::Scanned(Ok(gapless_domain::ScanResult { account, head, oldest: 2, is_whole: true, sent })));
    harness.hold.clear();
    harness.commit_done(true);
    assert_eq!((harness.state(1), reason(&harness, 1)), (StateName::Canceled, CancelReason::User));
    assert!(matches!(harness.ledger.txs[&1].state, TxState::Canceled(Cancellation::InQueue(_))));
}

/// After a loss of commits no intent ends, but a bound intent may get the goal to cancel.
#[test]
fn lost_commits_forbid_cancel_in_queue() {
    let mut harness = tracked(1, 2);
    harness.ledger.regressed = true;
    harness.crash();
    harness.run();
    harness.cancel(2);
    assert!(!harness.result().0);
    harness.cancel(1);
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::User));
    assert_eq!(harness.state(2), StateName::Queued);
}

fn expiring(harness: &mut LaneHarness, seconds: u64) -> Timestamp {
    let call = EvmCall { to: Some(Address::ZERO), ..EvmCall::default() };
    let until = harness.ledger.now().saturating_add(Duration::from_secs(seconds));
    harness.queue_call(call, Some(until));
    until
}

fn expiring_in_flight(seconds: u64) -> LaneHarness {
    let mut harness = LaneHarness::new(window(2));
    expiring(&mut harness, seconds);
    harness.run();
    harness.answer(SendOutcome::Accepted);
    harness
}

/// proves S16
#[test]
fn intent_expired_in_flight_is_canceled_on_time() {
    let mut harness = expiring_in_flight(7);
    harness.advance(Duration::from_millis(6_900));
    assert_eq!(goal(&harness, 1), Goal::Deliver);
    let wake_at = harness.wake_at.unwrap();
    assert!(wake_at <= harness.now.saturating_add(Duration::from_millis(100)), "the lane asks to be woken in time");
    harness.advance(Duration::from_millis(100));
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::Expired));
    let cancel = harness.hash(0, 1);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, cancel);
    harness.finish(cancel, block(1));
    assert_eq!(reason(&harness, 1), CancelReason::Expired);
}

/// proves S16
#[test]
fn mined_intent_expires_only_after_reorg() {
    let mut harness = expiring_in_flight(7);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(1)));
    harness.advance_secs(60);
    assert_eq!((goal(&harness, 1), kinds(&harness, 0).len()), (Goal::Deliver, 1));
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::Expired));
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1), "the original is not sent again");
    harness.finish(hash, block(2));
    assert_eq!(harness.state(1), StateName::Confirmed, "the chain decides");
}

/// proves S16
#[test]
fn intent_expired_without_owner_is_canceled_unsent() {
    let mut harness = LaneHarness::new(window(1));
    expiring(&mut harness, 7);
    harness.run();
    harness.ledger.now_micros += 60_000_000;
    harness.crash();
    harness.run();
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::Expired));
    assert_eq!(harness.take_broadcast()[0].tx.hash, harness.hash(0, 1));
}

/// The goal is written before the cancel is made, and the commit may fail.
#[test]
fn expiry_in_failed_commit_is_written_again() {
    let mut harness = expiring_in_flight(7);
    harness.hold.insert(Hold::Commit);
    harness.advance_secs(7);
    harness.commit_not_written();
    assert!(harness.broadcasts.is_empty());
    harness.hold.clear();
    harness.advance_secs(2);
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::Expired));
    assert_eq!(harness.ledger.txs[&1].version, 4, "the goal is written once");
}

/// The user's cancel came first, so its reason stays.
#[test]
fn intent_being_canceled_does_not_expire() {
    let mut harness = expiring_in_flight(7);
    harness.cancel(1);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(30);
    assert_eq!(goal(&harness, 1), Goal::Cancel(CancelReason::User));
}
