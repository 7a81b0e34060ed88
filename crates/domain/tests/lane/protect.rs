//! PROTECT: the lane enters it when it cannot explain the chain or the ledger.

use gapless_domain::{
    AccountFacts, BindBlocker, CommandKind, Fact, LaneState, LostRule, ProtectCode, Protection, SendOutcome, Sighting,
    StateName, TxState,
};

use crate::harness::{Hold, LaneHarness, account, block, fork, mined, nonce, text, window};

fn tracked() -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(2), 1);
    harness.answer(SendOutcome::Accepted);
    harness
}

/// proves N16
#[test]
fn account_nonce_ahead_twice_puts_lane_into_protect() {
    for ahead in [AccountFacts { latest: nonce(2), ..account(1) }, AccountFacts { pending: nonce(2), ..account(1) }] {
        let mut harness = tracked();
        harness.account = AccountFacts { finalized: Some(nonce(0)), ..ahead };
        harness.queue(1);
        harness.advance_secs(20);
        assert_eq!(harness.protect_code(), None);
        harness.advance_secs(1);
        assert_eq!(harness.protect_code(), Some("pending_ahead"));
    }
}

#[test]
fn account_nonce_ahead_once_is_tolerated() {
    let mut harness = tracked();
    for _ in 0..3 {
        harness.account = AccountFacts { pending: nonce(2), ..account(0) };
        harness.advance_secs(20);
        harness.account = account(0);
        harness.advance_secs(1);
    }
    assert_eq!(harness.protect_code(), None);
}

/// proves N16
#[test]
fn final_nonce_ahead_puts_lane_into_protect_at_once() {
    let mut harness = tracked();
    harness.account = account(2);
    harness.queue(1);
    harness.advance_secs(20);
    assert_eq!(harness.protect_code(), Some("external_nonce"));
    assert_eq!(harness.nonces(), [Some(0), None]);
}

#[test]
fn final_nonce_below_ledger_puts_lane_into_protect() {
    let mut harness = tracked();
    harness.account = account(1);
    harness.finish(harness.hash(0, 0), block(1));
    harness.queue(1);
    harness.advance_secs(20);
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().final_nonce, nonce(1));
    harness.account = account(0);
    harness.advance_secs(20);
    assert_eq!(harness.protect_code(), None, "an endpoint may lag");
    (0..30).for_each(|_| harness.advance_secs(1));
    assert_eq!(harness.protect_code(), Some("chain_regressed"));
}

/// The lane's new owner has not read the blocks that were final for the former owner. The lane binds nothing, and goes
/// on when its node has caught up.
#[test]
fn lagging_node_binds_nothing_and_enters_no_protect() {
    let mut harness = tracked();
    harness.account = account(1);
    harness.finish(harness.hash(0, 0), block(1));
    harness.queue(1);
    harness.advance_secs(20);
    harness.answer(SendOutcome::Accepted);
    harness.account = AccountFacts { lags: true, ..account(0) };
    harness.advance_secs(20);
    harness.queue(1);
    (0..60).for_each(|_| harness.advance_secs(1));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0), Some(1), None]));
    assert_eq!(harness.lane.bind_blocker(), Some(BindBlocker::ChainBehind));
    harness.account = account(1);
    harness.finish(harness.hash(1, 0), block(2));
    (0..5).for_each(|_| harness.advance_secs(1));
    assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0), Some(1), Some(2)]));
}

/// The nonce is consumed in a final block, and no endpoint knows one of our hashes.
#[test]
fn foreign_use_of_a_slot_puts_lane_into_protect() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    // A lookup from before the nonce was consumed proves nothing.
    harness.sight(Sighting::NotFound { hash });
    harness.account = account(1);
    harness.watched.clear();
    harness.advance_secs(20);
    assert_eq!(harness.looked_up(), [hash]);
    for lookup in 0..5 {
        assert_eq!(harness.protect_code(), None, "lookup {lookup}");
        harness.advance_secs(1);
        assert_eq!(harness.protect_code(), None, "the lookup has no answer yet");
        harness.sight(Sighting::NotFound { hash });
        harness.advance_secs(1);
    }
    assert_eq!(harness.protect_code(), Some("foreign_transaction"));
    assert_eq!((harness.state(1), harness.nonces()), (StateName::Tracking, vec![Some(0)]));
    harness.finish(hash, block(1));
    assert_eq!(harness.state(1), StateName::Confirmed, "a later sighting still counts");
}

/// The lookup of one of two hashes has no answer, so nothing is proven.
#[test]
fn slot_is_missing_only_if_all_its_hashes_are() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Rejected);
    harness.answer(SendOutcome::Accepted);
    harness.account = account(1);
    for _ in 0..10 {
        harness.advance_secs(20);
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::AlreadyKnown);
        }
    }
    assert_eq!(harness.protect_code(), None);
}

#[test]
fn nonce_without_slot_puts_lane_into_protect() {
    let mut harness = LaneHarness::with_intents(window(3), 3);
    harness.answer(SendOutcome::Accepted);
    harness.ledger.slots.remove(&nonce(1));
    harness.crash();
    harness.queue(1);
    harness.run();
    assert_eq!(harness.protect_code(), Some("missing_slot"));
    assert_eq!(harness.nonces()[3], None);
}

/// proves N17
#[test]
fn protected_lane_binds_nothing_and_finishes_slots() {
    let mut harness = tracked();
    harness.account = account(2);
    harness.advance_secs(20);
    harness.queue(2);
    harness.command(CommandKind::Pause);
    harness.command(CommandKind::Resume);
    harness.advance_secs(60);
    assert_eq!(harness.protect_code(), Some("external_nonce"), "resuming does not end PROTECT");
    assert_eq!(harness.nonces(), [Some(0), None, None]);
    assert_eq!(harness.sending(), [0], "the attempt is sent again");
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.nonces(), [Some(0), None, None]);
}

#[test]
fn signed_attempt_is_dropped_when_lane_enters_protect() {
    let mut harness = tracked();
    harness.hold.insert(Hold::Sign);
    harness.queue(1);
    harness.give(Fact::Woken);
    let Some(gapless_domain::Effect::Sign(requests)) = harness.unanswered.pop() else { panic!() };
    harness.account = account(2);
    harness.advance_secs(20);
    harness.give(Fact::Signed(requests.iter().map(|request| Ok(crate::harness::sign(request))).collect()));
    assert_eq!(harness.nonces(), [Some(0), None]);
    assert_eq!(harness.ledger.attempts.len(), 1);
}

/// After a loss of commits, the first commit only acknowledges it, and no intent ends before an operator has
/// reconciled.
#[test]
fn lost_commits_are_acknowledged_first_and_nothing_ends() {
    let mut harness = tracked();
    harness.ledger.regressed = true;
    harness.crash();
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.run();
    harness.finish(harness.hash(0, 0), block(1));
    assert!(harness.pending_commit().acknowledges_regression());
    harness.commit_done(true);
    harness.hold.clear();
    while harness.unanswered.iter().any(|effect| matches!(effect, gapless_domain::Effect::Commit(_))) {
        harness.commit_done(true);
    }
    harness.advance_secs(60);
    assert_eq!(harness.protect_code(), Some("store_regressed"));
    assert_eq!(harness.states(), [StateName::Tracking, StateName::Queued]);
}

/// proves R09
#[test]
fn orphaned_final_block_protects_lane_and_keeps_ended_state() {
    let mut harness = LaneHarness::with_intents(window(2), 2);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(1, 0);
    harness.finish(hash, block(1));
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(harness.protect_code(), Some("deep_reorg"));
    assert_eq!(harness.state(2), StateName::Confirmed);
}

/// After a loss of commits no intent ends before reconciliation. A reorg below finality until then still changes the
/// intent.
#[test]
fn final_but_unended_intent_follows_a_deep_reorg() {
    let mut harness = tracked();
    harness.ledger.regressed = true;
    harness.crash();
    harness.run();
    let hash = harness.hash(0, 0);
    harness.finish(hash, block(1));
    assert_eq!((harness.protect_code(), harness.state(1)), (Some("store_regressed"), StateName::Tracking));
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(harness.sending(), [0], "the attempt is sent again");
    harness.answer(SendOutcome::Accepted);
    harness.blocks = Some((0, Vec::new()));
    let resync = || CommandKind::Resync { lost: LostRule::Requeue, dry_run: false };
    harness.command(resync());
    harness.advance_secs(1);
    let stopped = (Some("store_regressed"), StateName::Tracking);
    assert_eq!(
        (harness.protect_code(), harness.state(1)),
        stopped,
        "the block is orphaned, so a lost replacement may still consume the nonce"
    );
    harness.finish(hash, fork(2, "new"));
    assert_eq!((harness.protect_code(), harness.state(1)), stopped, "the loss is not reconciled");
    harness.command(resync());
    harness.advance_secs(1);
    assert_eq!(harness.protect_code(), None);
    let TxState::Confirmed(settled) = &harness.ledger.txs[&1].state else { panic!("{:?}", harness.state(1)) };
    assert_eq!(settled.inclusion.block, fork(2, "new"));
}

/// The commit that ends the intent is not written yet.
#[test]
fn orphaned_final_intent_in_failed_commit_does_not_end() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    harness.hold.insert(Hold::Commit);
    harness.finish(hash, block(1));
    harness.commit_not_written();
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    harness.hold.clear();
    harness.advance_secs(30);
    assert_eq!((harness.protect_code(), harness.state(1)), (Some("deep_reorg"), StateName::Tracking));
    assert!(harness.sending().contains(&0));
}

#[test]
fn protected_lane_keeps_its_first_reason() {
    let protection = Protection { code: ProtectCode::CannotFill, detail: text("x") };
    let mut harness = tracked();
    harness.ledger.cursor.as_mut().unwrap().state = LaneState::Protect(protection);
    harness.crash();
    harness.account = account(5);
    harness.run();
    harness.advance_secs(60);
    assert_eq!(harness.protect_code(), Some("cannot_fill"));
    assert!(harness.commits.iter().all(|commit| commit.lane_events().count() == 0));
    // A later commit of the stopped lane repeats neither the event nor the reason.
    let commits = harness.commits.len();
    harness.sight(mined(harness.hash(0, 0), block(1)));
    assert!(harness.commits.len() > commits, "the lane still writes what it sees");
    assert_eq!(harness.ledger.txs[&1].state.sub_state().map(|state| state.as_str()), Some("MINED"));
    assert!(harness.commits.iter().all(|commit| commit.lane_events().count() == 0));
    assert_eq!(harness.protect_code(), Some("cannot_fill"));
}
