//! Sending, and what nodes say to it.

use gapless_domain::{CommitOutcome, Effect, Fact, SendOutcome, StateName};

use crate::bench::{Bench, Hold, block, mined, window};

#[test]
fn what_a_node_has_taken_is_tracked() {
    for outcome in [SendOutcome::Accepted, SendOutcome::AlreadyKnown] {
        let mut bench = Bench::busy(window(1), 1);
        bench.answer(outcome);
        assert_eq!(bench.state(1), StateName::Tracking);
    }
}

/// proves S04 S03
#[test]
fn what_no_node_has_taken_keeps_its_nonce_and_goes_out_again_byte_for_byte() {
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
        let mut bench = Bench::busy(window(1), 1);
        let first = bench.answer(outcome);
        let mut waits = Vec::new();
        for _ in 0..9 {
            let mut waited = 0;
            while bench.broadcasts.is_empty() {
                bench.pass_secs(1);
                waited += 1;
            }
            waits.push(waited);
            assert_eq!(bench.answer(outcome), first);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60], "{outcome:?}");
        assert_eq!(bench.states(), [StateName::Allocated]);
        assert_eq!(bench.nonces(), [Some(0)]);
        assert_eq!(bench.ledger.attempts.len(), 1);
    }
}

/// proves S06
#[test]
fn nonce_too_low_makes_us_look_for_our_hashes_and_says_nothing_else() {
    let mut bench = Bench::busy(window(1), 2);
    bench.watched.clear();
    bench.answer(SendOutcome::NonceTooLow);
    assert_eq!(bench.looked_up(), [bench.hash(0, 0)]);
    assert_eq!(bench.states(), [StateName::Allocated, StateName::Queued]);
    bench.see(mined(bench.hash(0, 0), block(1)));
    assert_eq!(bench.states(), [StateName::Tracking, StateName::Allocated]);
}

#[test]
fn nonce_too_high_sends_the_lower_ones_again_at_once() {
    let mut bench = Bench::busy(window(3), 3);
    let sent = bench.take_broadcast();
    bench.answer_each(&sent, &[SendOutcome::Accepted, SendOutcome::Accepted, SendOutcome::NonceTooHigh]);
    assert_eq!(bench.sending(), [0, 1]);
}

/// A node that takes nothing is not asked in circles.
#[test]
fn nonce_too_high_does_not_hasten_what_no_node_takes() {
    let mut bench = Bench::busy(window(3), 3);
    let sent = bench.take_broadcast();
    bench.answer_each(&sent, &[SendOutcome::PoolFull, SendOutcome::NonceTooHigh, SendOutcome::NonceTooHigh]);
    assert!(bench.broadcasts.is_empty());
    bench.pass_secs(1);
    assert_eq!(bench.sending(), [0, 1, 2]);
}

/// proves F08
#[test]
fn a_resubmit_is_claimed_before_it_is_sent_and_sends_identical_bytes() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.answer(SendOutcome::Accepted);
    bench.pass_secs(59);
    assert!(bench.broadcasts.is_empty());
    bench.hold.insert(Hold::Commit);
    bench.pass_secs(1);
    assert_eq!(bench.held_commit().claims().len(), 1);
    assert!(bench.broadcasts.is_empty(), "not before the claim is durable");
    bench.commit_done(true);
    assert_eq!(bench.answer(SendOutcome::AlreadyKnown), first);
    assert_eq!(bench.ledger.attempts.len(), 1);
}

#[test]
fn a_claim_that_was_not_written_is_not_sent() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    bench.hold.insert(Hold::Commit);
    bench.pass_secs(60);
    bench.commit_not_written();
    assert!(bench.broadcasts.is_empty());
    bench.pass_secs(2);
    bench.commit_done(true);
    assert_eq!(bench.sending(), [0]);
}

#[test]
fn without_resubmits_what_was_taken_is_left_alone() {
    let mut setup = window(1);
    setup.policy.resubmit.enabled = false;
    let mut bench = Bench::busy(setup, 1);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(600);
    assert!(bench.broadcasts.is_empty());
}

/// PostgreSQL may say that a commit is not on the standby. Nothing is sent until a later one is.
#[test]
fn what_may_not_be_replicated_is_not_sent() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.run();
    bench.commit_done(false);
    assert!(bench.broadcasts.is_empty());
    bench.pass_secs(1);
    bench.commit_done(false);
    bench.pass_secs(1);
    assert!(bench.broadcasts.is_empty());
    bench.commit_done(true);
    assert_eq!(bench.sending(), [0]);
}

#[test]
fn one_send_is_under_way_at_a_time() {
    let mut bench = Bench::busy(window(4), 1);
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
    assert_eq!(bench.sending(), [0], "the bench refuses a second one");
    bench.answer(SendOutcome::Accepted);
    assert_eq!(bench.sending(), [1]);
}

/// Whatever its answer says: something else was due before it came.
#[test]
fn a_late_answer_puts_off_nothing_that_became_due_since() {
    let mut bench = Bench::busy(window(1), 1);
    let hash = bench.hash(0, 0);
    let sent = bench.take_broadcast();
    bench.see(mined(hash, block(1)));
    bench.see(gapless_domain::Sighting::Unmined { hash, block: block(1) });
    assert!(bench.broadcasts.is_empty(), "one at a time");
    bench.answer_each(&sent, &[SendOutcome::Accepted]);
    assert_eq!(bench.sending(), [0], "orphaned since it was sent");
}

#[test]
fn an_answer_without_a_question_changes_nothing() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    let commits = bench.commits.len();
    bench.tell(Fact::Committed(CommitOutcome::NotWritten));
    bench.tell(Fact::Signed(Vec::new()));
    bench.tell(Fact::Peeked(None));
    bench.tell(Fact::Sent(Vec::new()));
    assert_eq!(bench.commits.len(), commits);
    assert!(!bench.held.iter().any(|effect| matches!(effect, Effect::Commit(_))));
}
