//! Takeover after a crash at each stage: the next owner does the remaining work, and nothing twice.

use gapless_domain::{AttemptKind, SendOutcome, Sighting, StateName};

use crate::harness::{Hold, LaneHarness, block, finalized, kinds, mined, window};

/// proves S02 S03
#[test]
fn bound_unsent_attempt_is_sent_and_looked_up() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.take_broadcast();
    harness.crash();
    harness.run();
    assert_eq!(harness.looked_up(), [harness.hash(0, 0)]);
    assert_eq!(harness.take_broadcast(), first);
}

/// The former owner may have crashed because it lost the answer to its last commit, which may be on one server only.
///
/// proves S12
#[test]
fn loaded_lane_sends_nothing_before_a_replicated_commit() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.take_broadcast();
    harness.crash();
    harness.hold.insert(Hold::Commit);
    harness.run();
    harness.advance_secs(10);
    assert!(harness.broadcasts.is_empty());
    harness.commit_done(false);
    harness.advance_secs(1);
    assert!(harness.broadcasts.is_empty());
    harness.commit_done(true);
    assert_eq!(harness.take_broadcast(), first);
}

/// proves S02
#[test]
fn signed_unwritten_intent_is_signed_again_for_same_nonce() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Commit);
    harness.queue(2);
    harness.run();
    harness.crash();
    harness.run();
    assert_eq!(harness.nonces(), [Some(0), None]);
    assert_eq!(harness.sending(), [0]);
}

/// proves S03
#[test]
fn unaccepted_attempt_is_sent_again_at_once() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.answer(SendOutcome::Unavailable);
    harness.crash();
    harness.run();
    assert_eq!(harness.take_broadcast(), first);
}

#[test]
fn accepted_attempt_waits_for_its_resend() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.answer(SendOutcome::Accepted);
    harness.advance_secs(20);
    harness.crash();
    harness.run();
    assert_eq!(harness.looked_up(), [harness.hash(0, 0)]);
    harness.advance_secs(39);
    assert!(harness.broadcasts.is_empty());
    harness.advance_secs(1);
    assert_eq!(harness.take_broadcast(), first);
    // The owner crashed between the claim and the send. The claim still holds.
    harness.crash();
    harness.run();
    harness.advance_secs(59);
    assert!(harness.broadcasts.is_empty());
    harness.advance_secs(1);
    assert_eq!(harness.take_broadcast(), first);
}

/// Without resends the attempt would never be sent again if the pools have lost it.
#[test]
fn accepted_attempt_without_resends_is_sent_once() {
    let mut setup = window(1);
    setup.policy.resubmit.enabled = false;
    let mut harness = LaneHarness::with_intents(setup, 1);
    let first = harness.answer(SendOutcome::Accepted);
    harness.crash();
    harness.run();
    assert_eq!(harness.answer(SendOutcome::AlreadyKnown), first);
    harness.advance_secs(600);
    assert!(harness.broadcasts.is_empty());
}

#[test]
fn unfunded_attempt_is_sent_again_at_once() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(60);
    let first = harness.answer(SendOutcome::InsufficientFunds);
    harness.crash();
    harness.run();
    assert_eq!(harness.take_broadcast(), first);
}

#[test]
fn mined_slot_is_verified_and_not_sent() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    harness.crash();
    harness.run();
    harness.advance_secs(600);
    assert!(harness.broadcasts.is_empty());
    assert_eq!(harness.watched.iter().map(|watched| watched.known_block).collect::<Vec<_>>(), [Some(block(3))]);
    harness.sight(Sighting::StillMined { hash, block: block(3) });
    harness.sight(finalized(hash, block(3)));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// Finality implies that the transaction is still mined.
#[test]
fn mined_slot_that_became_final_ends() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    harness.crash();
    harness.run();
    harness.sight(finalized(hash, block(3)));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

#[test]
fn mined_slot_that_was_orphaned_is_sent_again() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    harness.crash();
    harness.run();
    harness.sight(Sighting::Unmined { hash, block: block(3) });
    assert_eq!(harness.take_broadcast(), first);
}

/// proves S02
#[test]
fn rejected_intent_without_cancel_gets_one() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.hold.insert(Hold::Prepare);
    harness.answer(SendOutcome::Rejected);
    harness.crash();
    harness.run();
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    let cancel = harness.hash(0, 1);
    assert_eq!(harness.take_broadcast()[0].tx.hash, cancel, "the original is not sent again");
    harness.crash();
    harness.run();
    assert_eq!(harness.looked_up(), [harness.hash(0, 0), cancel]);
    assert_eq!(harness.answer(SendOutcome::Unavailable)[0].tx.hash, cancel);
    harness.crash();
    harness.run();
    assert_eq!(harness.take_broadcast()[0].tx.hash, cancel, "the cancel was never accepted");
    assert_eq!(kinds(&harness, 0).len(), 2);
}

#[test]
fn slot_ended_out_of_order_is_left_alone() {
    let mut harness = LaneHarness::with_intents(window(2), 2);
    harness.answer(SendOutcome::Accepted);
    harness.finish(harness.hash(1, 0), block(1));
    harness.crash();
    harness.run();
    harness.advance_secs(60);
    assert_eq!(harness.sending(), [0]);
    assert_eq!(harness.lane.in_flight(), 1);
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce.get(), 2);
}

/// The node that had the transaction in its pool may be gone.
#[test]
fn accepted_attempt_in_no_block_is_sent_once_more() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.crash();
    harness.run();
    assert!(harness.broadcasts.is_empty(), "the lookup has no answer yet");
    harness.sight(Sighting::NotFound { hash });
    assert_eq!(harness.take_broadcast(), first);
    harness.answer_each(&first, &[SendOutcome::AlreadyKnown]);
    harness.sight(Sighting::NotFound { hash });
    assert!(harness.broadcasts.is_empty(), "only once");
}
