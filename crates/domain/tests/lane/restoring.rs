//! A crash at each stage: the next owner does what is left to do, and nothing twice.

use gapless_domain::{AttemptKind, SendOutcome, Sighting, StateName};

use crate::bench::{Bench, Hold, block, finalized, kinds, mined, window};

/// proves S02 S03
#[test]
fn bound_and_never_sent_it_is_sent_and_looked_up() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.take_broadcast();
    bench.crash();
    bench.run();
    assert_eq!(bench.looked_up(), [bench.hash(0, 0)]);
    assert_eq!(bench.take_broadcast(), first);
}

/// The owner before may have died because it lost the answer to its last commit, which may be on one server only.
///
/// proves S12
#[test]
fn nothing_is_sent_after_loading_before_a_commit_has_shown_that_all_of_it_is_replicated() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.take_broadcast();
    bench.crash();
    bench.hold.insert(Hold::Commit);
    bench.run();
    bench.pass_secs(10);
    assert!(bench.broadcasts.is_empty());
    bench.commit_done(false);
    bench.pass_secs(1);
    assert!(bench.broadcasts.is_empty());
    bench.commit_done(true);
    assert_eq!(bench.take_broadcast(), first);
}

/// proves S02
#[test]
fn signed_and_not_written_it_is_signed_anew_for_the_same_nonce() {
    let mut bench = Bench::new(window(1));
    bench.hold.insert(Hold::Commit);
    bench.queue(2);
    bench.run();
    bench.crash();
    bench.run();
    assert_eq!(bench.nonces(), [Some(0), None]);
    assert_eq!(bench.sending(), [0]);
}

/// proves S03
#[test]
fn sent_and_not_taken_it_is_sent_again_at_once() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.answer(SendOutcome::Unavailable);
    bench.crash();
    bench.run();
    assert_eq!(bench.take_broadcast(), first);
}

#[test]
fn taken_it_waits_for_its_resubmit() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.answer(SendOutcome::Accepted);
    bench.pass_secs(20);
    bench.crash();
    bench.run();
    assert_eq!(bench.looked_up(), [bench.hash(0, 0)]);
    bench.pass_secs(39);
    assert!(bench.broadcasts.is_empty());
    bench.pass_secs(1);
    assert_eq!(bench.take_broadcast(), first);
    // Claimed by one who died before the send: the claim holds.
    bench.crash();
    bench.run();
    bench.pass_secs(59);
    assert!(bench.broadcasts.is_empty());
    bench.pass_secs(1);
    assert_eq!(bench.take_broadcast(), first);
}

/// Without resubmits nothing else would ever send it again, if the pools have lost it.
#[test]
fn without_resubmits_it_is_sent_once_by_a_new_owner() {
    let mut setup = window(1);
    setup.policy.resubmit.enabled = false;
    let mut bench = Bench::busy(setup, 1);
    let first = bench.answer(SendOutcome::Accepted);
    bench.crash();
    bench.run();
    assert_eq!(bench.answer(SendOutcome::AlreadyKnown), first);
    bench.pass_secs(600);
    assert!(bench.broadcasts.is_empty());
}

#[test]
fn out_of_funds_it_is_tried_at_once() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    bench.pass_secs(60);
    let first = bench.answer(SendOutcome::InsufficientFunds);
    bench.crash();
    bench.run();
    assert_eq!(bench.take_broadcast(), first);
}

#[test]
fn mined_it_is_compared_with_the_chain_and_not_sent() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    bench.crash();
    bench.run();
    bench.pass_secs(600);
    assert!(bench.broadcasts.is_empty());
    assert_eq!(bench.watched.iter().map(|watched| watched.known).collect::<Vec<_>>(), [Some(block(3))]);
    bench.see(Sighting::StillMined { hash, block: block(3) });
    bench.see(finalized(hash, block(3)));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// What is final is still mined, whoever says which first.
#[test]
fn mined_and_final_meanwhile_it_ends() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    bench.crash();
    bench.run();
    bench.see(finalized(hash, block(3)));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

#[test]
fn mined_and_orphaned_meanwhile_it_is_sent_again() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    bench.crash();
    bench.run();
    bench.see(Sighting::Unmined { hash, block: block(3) });
    assert_eq!(bench.take_broadcast(), first);
}

/// proves S02
#[test]
fn rejected_and_not_yet_canceled_it_gets_its_cancel() {
    let mut bench = Bench::busy(window(1), 1);
    bench.hold.insert(Hold::Prepare);
    bench.answer(SendOutcome::Rejected);
    bench.crash();
    bench.run();
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    let cancel = bench.hash(0, 1);
    assert_eq!(bench.take_broadcast()[0].tx.hash, cancel, "and the original is not sent again");
    bench.crash();
    bench.run();
    assert_eq!(bench.looked_up(), [bench.hash(0, 0), cancel]);
    assert_eq!(bench.answer(SendOutcome::Unavailable)[0].tx.hash, cancel);
    bench.crash();
    bench.run();
    assert_eq!(
        bench.take_broadcast()[0].tx.hash,
        cancel,
        "the cancel was never taken, whatever became of the original"
    );
    assert_eq!(kinds(&bench, 0).len(), 2);
}

#[test]
fn ended_out_of_order_it_is_not_touched_again() {
    let mut bench = Bench::busy(window(2), 2);
    bench.answer(SendOutcome::Accepted);
    bench.finish(bench.hash(1, 0), block(1));
    bench.crash();
    bench.run();
    bench.pass_secs(60);
    assert_eq!(bench.sending(), [0]);
    assert_eq!(bench.lane.in_flight(), 1);
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce.get(), 2);
}

/// The pool that had it may be gone with the node that was asked.
#[test]
fn sent_before_and_in_no_block_it_is_sent_once_more() {
    let mut bench = Bench::busy(window(1), 1);
    let first = bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(0, 0);
    bench.crash();
    bench.run();
    assert!(bench.broadcasts.is_empty(), "nobody has looked yet");
    bench.see(Sighting::NotFound { hash });
    assert_eq!(bench.take_broadcast(), first);
    bench.answer_each(&first, &[SendOutcome::AlreadyKnown]);
    bench.see(Sighting::NotFound { hash });
    assert!(bench.broadcasts.is_empty(), "once");
}
