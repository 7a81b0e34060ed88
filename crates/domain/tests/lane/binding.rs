//! Binding: which intent gets which nonce, and when.

use std::time::Duration;

use gapless_domain::{
    Address, Amount, BindBlocker, CommandKind, EvmCall, Fact, FundsPolicy, OnShortage, PrepareFailure, SendOutcome,
    Sighting, SignFailure, StateName, Timestamp,
};

use crate::harness::{Hold, LaneHarness, block, final_window, finalized, mined, price, sign, text, window};

/// proves N12
#[test]
fn strict_lane_binds_next_when_previous_is_mined() {
    let mut harness = LaneHarness::with_intents(window(1), 3);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(5);
    assert_eq!(harness.nonces(), [Some(0), None, None]);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert_eq!(harness.nonces(), [Some(0), Some(1), None]);
    assert_eq!(harness.sending(), [1]);
}

/// proves N12
#[test]
fn release_final_binds_next_when_previous_is_final() {
    let mut harness = LaneHarness::with_intents(final_window(1), 2);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(1)));
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.sight(finalized(hash, block(1)));
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// proves N12
#[test]
fn restart_verifies_mined_slot_before_next_bind() {
    let mut harness = LaneHarness::with_intents(window(1), 2);
    harness.answer(SendOutcome::Accepted);
    harness.hold.insert(Hold::Prepare);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(1)));
    harness.crash();
    harness.run();
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.sight(Sighting::StillMined { hash, block: block(1) });
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// proves N13
#[test]
fn full_window_binds_only_what_mining_makes_room_for() {
    let mut harness = LaneHarness::with_intents(window(3), 10);
    assert_eq!(harness.sending(), [0, 1, 2]);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(5);
    assert_eq!(harness.lane.in_flight(), 3);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    harness.sight(mined(harness.hash(1, 0), block(1)));
    assert_eq!(harness.lane.in_flight(), 3);
    assert_eq!(harness.nonces().iter().flatten().count(), 5);
}

/// A reorg takes a mined transaction back: four are in flight in a window of three. The lane binds nothing until the
/// window has room again.
///
/// proves N13
#[test]
fn reorg_may_overfill_window_but_binds_nothing_until_it_drains() {
    let mut harness = LaneHarness::with_intents(window(3), 10);
    harness.answer(SendOutcome::Accepted);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    harness.sight(mined(harness.hash(1, 0), block(1)));
    let hash = harness.hash(0, 0);
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    assert_eq!((harness.lane.in_flight(), harness.nonces().iter().flatten().count()), (4, 5));
    harness.sight(mined(harness.hash(2, 0), block(1)));
    assert_eq!((harness.lane.in_flight(), harness.nonces().iter().flatten().count()), (3, 5));
    harness.sight(mined(hash, block(2)));
    assert_eq!((harness.lane.in_flight(), harness.nonces().iter().flatten().count()), (3, 6));
}

/// The commit in flight and the attempts at the signer count.
///
/// proves N13
#[test]
fn binds_in_flight_count_against_window() {
    let mut harness = LaneHarness::new(window(2));
    harness.hold.extend([Hold::Commit]);
    harness.queue(1);
    harness.run();
    harness.hold.insert(Hold::Sign);
    harness.queue(5);
    harness.give(Fact::Woken);
    harness.hold.remove(&Hold::Sign);
    assert_eq!(harness.unanswered.len(), 2, "{:?}", harness.unanswered);
    let signed = harness.unanswered.pop().unwrap();
    let gapless_domain::Effect::Sign(requests) = signed else { panic!("{signed:?}") };
    assert_eq!(requests.len(), 1);
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    harness.commit_done(true);
    harness.commit_done(true);
    assert_eq!(harness.nonces().iter().flatten().count(), 2);
}

/// proves N09 N11
#[test]
fn unpreparable_intent_uses_no_nonce_and_blocks_no_other() {
    let mut harness = LaneHarness::new(window(3));
    harness.hold.insert(Hold::Prepare);
    harness.queue(3);
    harness.run();
    let asked = harness.take_prepare();
    harness.prepared(vec![
        (asked[0].key, price()),
        (asked[1].key, Err(PrepareFailure::Invalid(text("bad")))),
        (asked[2].key, price()),
    ]);
    assert_eq!(harness.nonces(), [Some(0), None, Some(1)]);
    assert_eq!(harness.state(2), StateName::FailedFinal);
    assert_eq!(harness.sending(), [0, 1]);
}

/// proves N09 N11
#[test]
fn intents_behind_an_unprepared_one_wait() {
    let mut harness = LaneHarness::new(window(3));
    harness.hold.insert(Hold::Prepare);
    harness.queue(3);
    harness.run();
    let asked = harness.take_prepare();
    harness.prepared(vec![
        (asked[0].key, Err(PrepareFailure::Unavailable(text("away")))),
        (asked[1].key, price()),
        (asked[2].key, price()),
    ]);
    assert_eq!(harness.nonces(), [None, None, None]);
    harness.hold.clear();
    harness.advance_secs(2);
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2)]);
}

/// proves N09 N11
#[test]
fn intent_refused_by_signer_uses_no_nonce() {
    let mut harness = LaneHarness::new(window(3));
    harness.hold.insert(Hold::Sign);
    harness.queue(3);
    harness.run();
    let Some(gapless_domain::Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    let refused = Err(SignFailure::Refused(text("never")));
    harness.hold.clear();
    harness.give(Fact::Signed(vec![Ok(sign(&requests[0])), refused, Ok(sign(&requests[2]))]));
    assert_eq!(harness.state(2), StateName::FailedFinal);
    assert_eq!(harness.nonces(), [Some(0), None, None], "the attempt for nonce 2 is dropped");
    harness.advance_secs(2);
    assert_eq!(harness.nonces(), [Some(0), None, Some(1)]);
    assert_eq!(harness.ledger.attempts.len(), 2);
}

/// proves S19
#[test]
fn simulated_revert_counts_only_after_earlier_intents_ran() {
    let reverted = |number| Err(PrepareFailure::Reverted { at: block(number), text: text("not yet") });
    let mut harness = LaneHarness::new(window(2));
    harness.hold.insert(Hold::Prepare);
    harness.queue(2);
    harness.run();
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, price()), (asked[1].key, reverted(1))]);
    assert_eq!(harness.states(), [StateName::Allocated, StateName::Queued], "the previous intent has no nonce yet");
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(2);
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, reverted(1))]);
    assert_eq!(harness.state(2), StateName::Queued, "the previous intent is not mined");
    harness.sight(mined(harness.hash(0, 0), block(5)));
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, reverted(4))]);
    assert_eq!(harness.state(2), StateName::Queued, "the simulation ran before the block of the previous intent");
    harness.sight(finalized(harness.hash(0, 0), block(5)));
    harness.advance_secs(2);
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, reverted(4))]);
    assert_eq!(harness.state(2), StateName::Queued, "the same holds after the slot is closed");
    harness.advance_secs(2);
    let asked = harness.take_prepare();
    harness.prepared(vec![(asked[0].key, reverted(5))]);
    assert_eq!(harness.state(2), StateName::FailedFinal);
    assert_eq!(harness.nonces()[1], None);
}

/// proves N10 S01
#[test]
fn bind_commits_nonce_with_attempt_before_any_send() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.run();
    let commit = harness.pending_commit();
    assert_eq!((commit.slots().len(), commit.changes().len(), commit.attempts().len()), (1, 1, 1));
    harness.advance_secs(60);
    assert!(harness.broadcasts.is_empty());
    harness.commit_done(true);
    assert_eq!(harness.sending(), [0]);
}

/// proves N10
#[test]
fn failed_bind_commit_is_not_sent_and_is_repeated() {
    let mut harness = LaneHarness::new(window(1));
    harness.hold.insert(Hold::Commit);
    harness.queue(2);
    harness.run();
    let first = harness.pending_commit().clone();
    harness.commit_not_written();
    assert!(harness.broadcasts.is_empty() && harness.unanswered.is_empty());
    assert!(harness.wake_at.is_some());
    harness.advance_secs(2);
    assert_eq!(harness.pending_commit(), &first);
    harness.commit_done(true);
    assert_eq!(harness.sending(), [0]);
}

#[test]
fn intents_signed_during_failed_commit_keep_their_order() {
    let mut harness = LaneHarness::new(window(4));
    harness.hold.insert(Hold::Commit);
    harness.queue(2);
    harness.run();
    harness.queue(2);
    harness.give(Fact::Woken);
    harness.commit_not_written();
    harness.advance_secs(2);
    assert_eq!(harness.pending_commit().attempts().len(), 4);
    harness.commit_done(true);
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2), Some(3)]);
}

#[test]
fn pause_drops_signed_attempts_and_resume_leaves_no_gap() {
    let mut harness = LaneHarness::new(window(4));
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.run();
    harness.queue(1);
    harness.give(Fact::Woken);
    // The second intent is signed and waits. The third is at the signer when the lane is paused and resumed.
    harness.hold.insert(Hold::Sign);
    harness.queue(1);
    harness.advance_secs(2);
    harness.command(CommandKind::Pause);
    harness.commit_done(true);
    assert!(harness.pending_commit().slots().is_empty());
    harness.commit_done(true);
    assert!(harness.ledger.cursor.as_ref().unwrap().paused);
    harness.command(CommandKind::Resume);
    harness.commit_done(true);
    let at = harness.unanswered.iter().position(|effect| matches!(effect, gapless_domain::Effect::Sign(_))).unwrap();
    let gapless_domain::Effect::Sign(requests) = harness.unanswered.remove(at) else { panic!() };
    assert_eq!(requests[0].plan.nonce.get(), 2);
    harness.hold.clear();
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert_eq!(harness.nonces(), [Some(0), Some(1), Some(2)]);
    assert!(harness.notices.is_empty(), "{:?}", harness.notices);
}

/// proves S16
#[test]
fn expired_intent_in_full_queue_fails() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let call = EvmCall { to: Some(Address::ZERO), ..EvmCall::default() };
    let until = harness.ledger.now().saturating_add(Duration::from_secs(10));
    harness.queue_call(call, Some(until));
    harness.give(Fact::Woken);
    harness.advance_secs(9);
    assert_eq!(harness.state(2), StateName::Queued);
    harness.advance_secs(1);
    assert_eq!(harness.state(2), StateName::FailedFinal);
    assert!(harness.ledger.txs[&2].created_at < until && until > Timestamp::EPOCH);
}

/// proves S18
#[test]
fn unaffordable_intents_are_not_bound() {
    let mut harness = LaneHarness::new(window(5));
    // The balance pays for two and a half transactions.
    harness.account.balance = Amount::from(5 * 21_000 * 100_u64 / 2);
    harness.queue(4);
    harness.run();
    assert_eq!(harness.sending(), [0, 1]);
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(20);
    assert_eq!(harness.nonces().iter().flatten().count(), 2);
    harness.account.balance = Amount::from(u64::MAX);
    harness.advance_secs(20);
    assert_eq!(harness.nonces().iter().flatten().count(), 4);
}

/// proves S17
#[test]
fn unaffordable_intent_fails_only_by_policy_and_when_alone() {
    let mut setup = window(5);
    setup.policy.funds = FundsPolicy { on_shortage: OnShortage::Fail, ..FundsPolicy::default() };
    let mut harness = LaneHarness::new(setup);
    harness.account.balance = Amount::from(21_000 * 100_u64);
    harness.hold.insert(Hold::Commit);
    harness.queue(2);
    harness.run();
    // The first intent is in the commit in flight when the account is read again. No budget is left for the second one,
    // but that may change.
    harness.advance_secs(20);
    harness.commit_done(true);
    assert_eq!(harness.state(2), StateName::Queued);
    harness.hold.clear();
    // Consumers are notified meanwhile.
    harness.commit_done(true);
    assert!(harness.ledger.cursor.as_ref().unwrap().low_balance);
    harness.answer(SendOutcome::Accepted);
    harness.account.balance = Amount::from(1_u64);
    harness.sight(mined(harness.hash(0, 0), block(1)));
    harness.advance_secs(20);
    assert_eq!(harness.state(2), StateName::FailedFinal);
}

/// A block is orphaned between signing and binding: the window had room when the attempt was signed, and has none now.
///
/// proves N12
#[test]
fn window_is_measured_again_at_bind() {
    let mut harness = LaneHarness::with_intents(window(1), 2);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.hold.insert(Hold::Sign);
    harness.sight(mined(hash, block(1)));
    let Some(gapless_domain::Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.hold.clear();
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    assert_eq!(harness.nonces(), [Some(0), None]);
    harness.answer(SendOutcome::Accepted);
    harness.sight(mined(hash, block(2)));
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// A candidate is about to fail because it reverted, and the previous intent is orphaned before that is written. The
/// candidate does not fail, and no attempt signed behind it overtakes it.
///
/// proves S19 N11
#[test]
fn simulated_revert_is_retried_when_previous_is_orphaned() {
    let mut harness = LaneHarness::with_intents(window(3), 1);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(1)));
    harness.hold.extend([Hold::Prepare, Hold::Commit]);
    harness.queue(2);
    harness.give(Fact::Woken);
    let asked = harness.take_prepare();
    let reverted = Err(PrepareFailure::Reverted { at: block(1), text: text("not yet") });
    harness.prepared(vec![(asked[0].key, reverted), (asked[1].key, price())]);
    harness.commit_not_written();
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    harness.answer(SendOutcome::Accepted);
    harness.advance_secs(2);
    while harness.unanswered.iter().any(|effect| matches!(effect, gapless_domain::Effect::Commit(_))) {
        harness.commit_done(true);
    }
    assert_eq!(harness.states()[1..], [StateName::Queued, StateName::Queued]);
}

#[test]
fn lane_that_binds_nothing_names_the_blocker() {
    let mut harness = LaneHarness::new(window(3));
    assert_eq!(harness.lane.bind_blocker(), Some(BindBlocker::NotStarted));
    harness.queue(1);
    harness.run();
    assert_eq!(harness.lane.bind_blocker(), None);
    harness.command(CommandKind::Pause);
    harness.run();
    assert_eq!(harness.lane.bind_blocker().map(BindBlocker::as_str), Some("the lane is paused"));
    harness.command(CommandKind::Resume);
    harness.run();
    harness.give(Fact::Drain);
    assert_eq!(harness.lane.bind_blocker(), Some(BindBlocker::Draining));
}
