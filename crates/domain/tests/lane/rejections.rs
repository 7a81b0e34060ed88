//! Rejections by nodes, and attempts without funds.

use gapless_domain::{
    Amount, AttemptKind, CancelReason, Cancellation, Effect, Fees, Goal, Progress, SendOutcome, Sighting, StateName,
    TxState,
};

use crate::harness::{Hold, LaneHarness, block, finalized, kinds, mined, window};

fn rejected() -> LaneHarness {
    rejected_of(2)
}

fn rejected_of(intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(1), intents);
    harness.answer(SendOutcome::Rejected);
    harness
}

/// proves N14 N15
#[test]
fn rejected_intent_is_canceled_in_its_own_slot() {
    let mut harness = rejected();
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    assert_eq!(harness.ledger.txs[&1].state.bound().unwrap().goal, Goal::Cancel(CancelReason::Rejected));
    let fees = harness.ledger.attempts.values().map(|attempt| attempt.fees).collect::<Vec<_>>();
    assert_eq!(fees[1], crate::harness::FEES, "no pool has the original");
    let sent = harness.answer(SendOutcome::Accepted);
    assert_eq!(sent[0].tx.hash, harness.hash(0, 1));
    assert_eq!(harness.nonces(), [Some(0), None]);
}

/// A node had accepted the original before others rejected it, so the cancel must replace it.
#[test]
fn cancel_replaces_an_attempt_that_may_be_pooled() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Unknown);
    harness.advance_secs(1);
    harness.answer(SendOutcome::Rejected);
    let fees = harness.ledger.attempts.values().map(|attempt| attempt.fees).collect::<Vec<_>>();
    let Fees::Eip1559 { max_fee, max_priority_fee } = fees[1] else { panic!() };
    assert!(max_fee >= 113 && max_priority_fee >= 12, "{fees:?}");
    harness.crash();
    harness.run();
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

/// proves S20
#[test]
fn rejected_intent_ends_canceled_when_cancel_is_final() {
    let mut harness = rejected();
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 1);
    harness.sight(mined(hash, block(1)));
    assert_eq!(harness.state(1), StateName::Tracking);
    harness.sight(finalized(hash, block(1)));
    let TxState::Canceled(Cancellation::OnChain(reason, _)) = &harness.ledger.txs[&1].state else { panic!() };
    assert_eq!(*reason, CancelReason::Rejected);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// proves S20 S07 N24
#[test]
fn rejected_intent_ends_confirmed_when_original_is_mined() {
    let mut harness = rejected();
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// Both attempts are in blocks of different branches; the final one decides.
///
/// proves S07
#[test]
fn final_attempt_decides_how_the_intent_ends() {
    let mut harness = rejected_of(1);
    harness.answer(SendOutcome::Accepted);
    let (original, cancel) = (harness.hash(0, 0), harness.hash(0, 1));
    harness.sight(mined(original, block(1)));
    harness.sight(Sighting::Unmined { hash: original, block: block(1) });
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, cancel, "the wanted attempt is sent again");
    harness.sight(mined(original, block(2)));
    harness.sight(Sighting::Unmined { hash: original, block: block(2) });
    harness.finish(cancel, block(3));
    assert_eq!(harness.state(1), StateName::Canceled);
}

/// proves N15
#[test]
fn rejected_cancel_of_rejected_intent_protects_lane() {
    let mut harness = rejected();
    harness.answer(SendOutcome::Rejected);
    assert_eq!(harness.protect_code(), Some("cannot_fill"));
    // The cancel is still sent, and still ends the intent if the chain includes it.
    harness.advance_secs(2);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, harness.hash(0, 1));
    harness.finish(harness.hash(0, 1), block(1));
    assert_eq!(harness.state(1), StateName::Canceled);
    harness.advance_secs(20);
    assert_eq!(harness.state(2), StateName::Queued, "nothing new is bound");
}

/// The original is mined while its cancel is at the signer. Nothing is written for a closed slot.
#[test]
fn late_cancel_of_mined_intent_is_not_written() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.hold.insert(Hold::Sign);
    harness.answer(SendOutcome::Rejected);
    let Some(Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.finish(harness.hash(0, 0), block(1));
    harness
        .give(gapless_domain::Fact::Signed(requests.iter().map(|request| Ok(crate::harness::sign(request))).collect()));
    assert_eq!(harness.ledger.attempts.len(), 1);
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// The answer to the original comes after the cancel is durable. The cancel is still sent at once.
#[test]
fn late_answer_to_original_does_not_delay_the_cancel() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.hold.insert(Hold::Commit);
    harness.answer(SendOutcome::Rejected);
    // The goal is written slowly, and the original is sent once more meanwhile.
    harness.advance_secs(1);
    let original = harness.take_broadcast();
    harness.commit_done(true);
    harness.commit_done(true);
    assert!(harness.broadcasts.is_empty());
    harness.answer_each(&original, &[SendOutcome::Accepted]);
    assert_eq!(harness.take_broadcast()[0].tx.hash, harness.hash(0, 1));
}

#[test]
fn answer_without_verdict_revokes_no_rejection() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.hold.insert(Hold::Commit);
    harness.answer(SendOutcome::Rejected);
    harness.advance_secs(1);
    harness.answer(SendOutcome::Unavailable);
    harness.commit_not_written();
    harness.hold.clear();
    harness.advance_secs(5);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
}

fn progress(harness: &LaneHarness) -> Progress {
    harness.ledger.txs[&1].state.bound().unwrap().progress.clone()
}

/// proves S17
#[test]
fn unfunded_intent_waits_and_continues_by_itself() {
    let mut harness = LaneHarness::with_intents(window(3), 2);
    harness.account.balance = Amount::from(1_u64);
    let first = harness.answer(SendOutcome::InsufficientFunds);
    assert_eq!(progress(&harness), Progress::AwaitingFunds);
    harness.queue(1);
    harness.advance_secs(1);
    assert_eq!(harness.answer(SendOutcome::Unavailable), first);
    assert_eq!(progress(&harness), Progress::AwaitingFunds, "no node has accepted the attempt yet");
    assert_eq!(harness.nonces(), [Some(0), Some(1), None]);
    harness.account.balance = Amount::from(u64::MAX);
    harness.advance_secs(2);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(progress(&harness), Progress::Pending);
    assert_eq!(harness.state(1), StateName::Tracking);
    assert_eq!(harness.ledger.attempts.values().filter(|attempt| attempt.ordinal > 0).count(), 0, "no bump is made");
    harness.advance_secs(20);
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2)]);
}
