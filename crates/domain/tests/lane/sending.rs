//! Sends and the answers of nodes.

use gapless_domain::{CommandKind, CommitOutcome, Effect, Fact, SendOutcome, StateName};

use crate::harness::{Hold, LaneHarness, block, kinds, mined, window};

#[test]
fn accepted_attempt_is_tracked() {
    for outcome in [SendOutcome::Accepted, SendOutcome::AlreadyKnown] {
        let mut harness = LaneHarness::with_intents(window(1), 1);
        harness.answer(outcome);
        assert_eq!(harness.state(1), StateName::Tracking);
    }
}

/// proves S04 S03
#[test]
fn unaccepted_attempt_keeps_nonce_and_is_resent_unchanged() {
    let no_verdict = [
        SendOutcome::Unavailable,
        SendOutcome::Unknown,
        SendOutcome::RateLimited,
        SendOutcome::PoolFull,
        SendOutcome::Wait,
        SendOutcome::Underpriced,
        SendOutcome::ReplacementUnderpriced,
        SendOutcome::NonceTooLow,
        SendOutcome::NonceTooHigh,
    ];
    for outcome in no_verdict {
        let mut harness = LaneHarness::with_intents(window(1), 1);
        let first = harness.answer(outcome);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let mut waited = 0;
            while harness.broadcasts.is_empty() {
                harness.advance_secs(1);
                waited += 1;
            }
            waits.push(waited);
            assert_eq!(harness.answer(outcome), first);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60], "{outcome:?}");
        assert_eq!(harness.states(), [StateName::Allocated]);
        assert_eq!(harness.nonces(), [Some(0)]);
        assert_eq!(harness.ledger.attempts.len(), 1);
    }
}

/// proves S06
#[test]
fn nonce_too_low_triggers_a_lookup_only() {
    let mut harness = LaneHarness::with_intents(window(1), 2);
    harness.watched.clear();
    harness.answer(SendOutcome::NonceTooLow);
    assert_eq!(harness.looked_up(), [harness.hash(0, 0)]);
    assert_eq!(harness.states(), [StateName::Allocated, StateName::Queued]);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.states(), [StateName::Tracking, StateName::Allocated]);
}

#[test]
fn nonce_too_high_resends_lower_nonces_at_once() {
    let mut harness = LaneHarness::with_intents(window(3), 3);
    let sent = harness.take_broadcast();
    harness.answer_each(&sent, &[SendOutcome::Accepted, SendOutcome::Accepted, SendOutcome::NonceTooHigh]);
    assert_eq!(harness.sending(), [0, 1]);
}

/// Attempts that no node accepts are not sent in a loop.
#[test]
fn nonce_too_high_does_not_hasten_unaccepted_attempts() {
    let mut harness = LaneHarness::with_intents(window(3), 3);
    let sent = harness.take_broadcast();
    harness.answer_each(&sent, &[SendOutcome::PoolFull, SendOutcome::NonceTooHigh, SendOutcome::NonceTooHigh]);
    assert!(harness.broadcasts.is_empty());
    harness.advance_secs(1);
    assert_eq!(harness.sending(), [0, 1, 2]);
}

/// proves F08
#[test]
fn resend_is_claimed_first_and_has_identical_bytes() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let first = harness.answer(SendOutcome::Accepted);
    harness.advance_secs(59);
    assert!(harness.broadcasts.is_empty());
    harness.hold.insert(Hold::Commit);
    harness.advance_secs(1);
    assert_eq!(harness.pending_commit().claims().len(), 1);
    assert!(harness.broadcasts.is_empty(), "the claim is not durable yet");
    harness.commit_done(true);
    assert_eq!(harness.answer(SendOutcome::AlreadyKnown), first);
    assert_eq!(harness.ledger.attempts.len(), 1);
}

#[test]
fn resend_with_failed_claim_is_not_sent() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Commit);
    harness.advance_secs(60);
    harness.commit_not_written();
    assert!(harness.broadcasts.is_empty());
    harness.advance_secs(2);
    harness.commit_done(true);
    assert_eq!(harness.sending(), [0]);
}

#[test]
fn accepted_attempt_without_resends_is_left_alone() {
    let mut setup = window(1);
    setup.policy.resubmit.enabled = false;
    let mut harness = LaneHarness::with_intents(setup, 1);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(600);
    assert!(harness.broadcasts.is_empty());
}

/// PostgreSQL may report that a commit is not on the standby. Nothing is sent until a later commit is.
#[test]
fn unreplicated_attempt_is_not_sent() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.run();
    harness.commit_done(false);
    assert!(harness.broadcasts.is_empty());
    harness.advance_secs(1);
    harness.commit_done(false);
    harness.advance_secs(1);
    assert!(harness.broadcasts.is_empty());
    harness.commit_done(true);
    assert_eq!(harness.sending(), [0]);
}

#[test]
fn one_broadcast_is_in_flight_at_a_time() {
    let mut harness = LaneHarness::with_intents(window(4), 1);
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
    assert_eq!(harness.sending(), [0], "the second send waits");
    harness.answer(SendOutcome::Accepted);
    assert_eq!(harness.sending(), [1]);
}

/// The slot became due again before the answer came.
#[test]
fn late_answer_does_not_delay_a_newly_due_send() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let hash = harness.hash(0, 0);
    let sent = harness.take_broadcast();
    harness.sight(mined(hash, block(1)));
    harness.sight(gapless_domain::Sighting::Unmined { hash, block: block(1) });
    assert!(harness.broadcasts.is_empty(), "one send is in flight");
    harness.answer_each(&sent, &[SendOutcome::Accepted]);
    assert_eq!(harness.sending(), [0], "the transaction was orphaned after the send");
}

#[test]
fn unrequested_answers_change_nothing() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    let commits = harness.commits.len();
    harness.give(Fact::Committed(CommitOutcome::NotWritten));
    harness.give(Fact::Signed(Vec::new()));
    harness.give(Fact::Peeked(None));
    harness.give(Fact::Sent(Vec::new()));
    assert_eq!(harness.commits.len(), commits);
    assert!(!harness.unanswered.iter().any(|effect| matches!(effect, Effect::Commit(_))));
}

/// A lane with a limit of two broadcasts sends the next batch before the nodes have answered to the one before, and
/// sends no transaction twice.
#[test]
fn lane_sends_next_batch_up_to_its_limit_of_broadcasts() {
    let mut setup = window(8);
    (setup.limits.batch, setup.limits.broadcasts) = (2, 2);
    let mut harness = LaneHarness::with_intents(setup, 8);
    assert_eq!(harness.sending(), [0, 1, 2, 3]);
    assert_eq!(harness.broadcasts.len(), 2);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(harness.sending(), [2, 3, 4, 5]);
    harness.answer(SendOutcome::Unavailable);
    harness.answer(SendOutcome::Accepted);
    assert_eq!(harness.sending(), [6, 7]);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(1);
    assert_eq!(harness.sending(), [2, 3]);
}

/// A cancel is durable while the send of the original is in flight. The cancel is sent after the answer, and its own
/// answer counts.
#[test]
fn next_attempt_waits_for_the_answer_to_the_send_in_flight() {
    let mut setup = window(8);
    setup.limits.broadcasts = 2;
    let mut harness = LaneHarness::with_intents(setup, 1);
    assert_eq!(harness.sending(), [0]);
    harness.command(CommandKind::Cancel { tx_id: harness.id(1) });
    assert_eq!((kinds(&harness, 0).len(), harness.sending().len()), (2, 1));
    harness.answer(SendOutcome::Accepted);
    assert_eq!(harness.take_broadcast()[0].tx.hash, harness.hash(0, 1));
}
