//! What a lane cannot explain stops it.

use gapless_domain::{
    AccountFacts, CommandKind, Fact, LaneState, LostRule, ProtectCode, Protection, SendOutcome, Sighting, StateName,
    TxState,
};

use crate::bench::{Bench, Hold, account, block, fork, mined, nonce, text, window};

fn tracked() -> Bench {
    let mut bench = Bench::busy(window(2), 1);
    bench.answer(SendOutcome::Accepted);
    bench
}

/// proves N16
#[test]
fn a_count_ahead_of_ours_stops_the_lane_at_the_second_look() {
    for ahead in [AccountFacts { latest: nonce(2), ..account(1) }, AccountFacts { pending: nonce(2), ..account(1) }] {
        let mut bench = tracked();
        bench.account = AccountFacts { finalized: Some(nonce(0)), ..ahead };
        bench.queue(1);
        bench.pass_secs(20);
        assert_eq!(bench.protect_code(), None);
        bench.pass_secs(1);
        assert_eq!(bench.protect_code(), Some("pending_ahead"));
    }
}

#[test]
fn a_count_that_is_ahead_once_stops_nothing() {
    let mut bench = tracked();
    for _ in 0..3 {
        bench.account = AccountFacts { pending: nonce(2), ..account(0) };
        bench.pass_secs(20);
        bench.account = account(0);
        bench.pass_secs(1);
    }
    assert_eq!(bench.protect_code(), None);
}

/// proves N16
#[test]
fn a_final_count_ahead_of_ours_stops_the_lane_at_once() {
    let mut bench = tracked();
    bench.account = account(2);
    bench.queue(1);
    bench.pass_secs(20);
    assert_eq!(bench.protect_code(), Some("external_nonce"));
    assert_eq!(bench.nonces(), [Some(0), None]);
}

#[test]
fn a_final_count_that_went_back_stops_the_lane() {
    let mut bench = tracked();
    bench.account = account(1);
    bench.finish(bench.hash(0, 0), block(1));
    bench.queue(1);
    bench.pass_secs(20);
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().final_nonce, nonce(1));
    bench.account = account(0);
    bench.pass_secs(20);
    assert_eq!(bench.protect_code(), None, "one endpoint may lag");
    (0..30).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.protect_code(), Some("chain_regressed"));
}

/// The nonce is used up, finally, and nobody knows any of our hashes.
#[test]
fn a_slot_that_was_used_by_somebody_else_stops_the_lane_and_stays_bound() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    // Long ago, nobody knew it yet. That says nothing now.
    bench.see(Sighting::NotFound { hash });
    bench.account = account(1);
    bench.watched.clear();
    bench.pass_secs(20);
    assert_eq!(bench.looked_up(), [hash]);
    for look in 0..5 {
        assert_eq!(bench.protect_code(), None, "look {look}");
        bench.pass_secs(1);
        assert_eq!(bench.protect_code(), None, "not without an answer");
        bench.see(Sighting::NotFound { hash });
        bench.pass_secs(1);
    }
    assert_eq!(bench.protect_code(), Some("foreign_transaction"));
    assert_eq!((bench.state(1), bench.nonces()), (StateName::Tracking, vec![Some(0)]));
    bench.finish(hash, block(1));
    assert_eq!(bench.state(1), StateName::Confirmed, "it is still found if it is there");
}

/// One of its two hashes was not answered for: then nobody knows.
#[test]
fn a_slot_is_missing_only_if_all_its_hashes_are() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Rejected);
    bench.answer(SendOutcome::Accepted);
    bench.account = account(1);
    for _ in 0..10 {
        bench.pass_secs(20);
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::AlreadyKnown);
        }
    }
    assert_eq!(bench.protect_code(), None);
}

#[test]
fn a_nonce_without_a_slot_stops_the_lane() {
    let mut bench = Bench::busy(window(3), 3);
    bench.answer(SendOutcome::Accepted);
    bench.ledger.slots.remove(&nonce(1));
    bench.crash();
    bench.queue(1);
    bench.run();
    assert_eq!(bench.protect_code(), Some("missing_slot"));
    assert_eq!(bench.nonces()[3], None);
}

/// proves N17
#[test]
fn in_protect_nothing_is_bound_and_what_is_in_flight_goes_on() {
    let mut bench = tracked();
    bench.account = account(2);
    bench.pass_secs(20);
    bench.queue(2);
    bench.command(CommandKind::Pause);
    bench.command(CommandKind::Resume);
    bench.pass_secs(60);
    assert_eq!(bench.protect_code(), Some("external_nonce"), "resuming does not clear it");
    assert_eq!(bench.nonces(), [Some(0), None, None]);
    assert_eq!(bench.sending(), [0], "it is sent again");
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.nonces(), [Some(0), None, None]);
}

#[test]
fn what_is_signed_when_the_lane_stops_is_dropped() {
    let mut bench = tracked();
    bench.hold.insert(Hold::Sign);
    bench.queue(1);
    bench.tell(Fact::Woken);
    let Some(gapless_domain::Effect::Sign(requests)) = bench.held.pop() else { panic!() };
    bench.account = account(2);
    bench.pass_secs(20);
    bench.tell(Fact::Signed(requests.iter().map(|request| Ok(crate::bench::sign(request))).collect()));
    assert_eq!(bench.nonces(), [Some(0), None]);
    assert_eq!(bench.ledger.attempts.len(), 1);
}

/// The store lost commits: the first write says so and nothing else, and nothing ends until people have looked.
#[test]
fn a_store_that_lost_commits_is_acknowledged_first_and_nothing_ends() {
    let mut bench = tracked();
    bench.ledger.regressed = true;
    bench.crash();
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.run();
    bench.finish(bench.hash(0, 0), block(1));
    assert!(bench.held_commit().acknowledges_regression());
    bench.commit_done(true);
    bench.hold.clear();
    while bench.held.iter().any(|effect| matches!(effect, gapless_domain::Effect::Commit(_))) {
        bench.commit_done(true);
    }
    bench.pass_secs(60);
    assert_eq!(bench.protect_code(), Some("store_regressed"));
    assert_eq!(bench.states(), [StateName::Tracking, StateName::Queued]);
}

/// proves R09
#[test]
fn a_final_block_that_is_orphaned_stops_the_lane_and_changes_no_end() {
    let mut bench = Bench::busy(window(2), 2);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(1, 0);
    bench.finish(hash, block(1));
    bench.see(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(bench.protect_code(), Some("deep_reorg"));
    assert_eq!(bench.state(2), StateName::Confirmed);
}

/// Nothing of a store that lost commits ends before it is reconciled; until then, a reorg below what was final takes it back.
#[test]
fn what_was_final_and_did_not_end_ends_by_the_chain_as_it_is() {
    let mut bench = tracked();
    bench.ledger.regressed = true;
    bench.crash();
    bench.run();
    let hash = bench.hash(0, 0);
    bench.finish(hash, block(1));
    assert_eq!((bench.protect_code(), bench.state(1)), (Some("store_regressed"), StateName::Tracking));
    bench.see(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(bench.sending(), [0], "it goes out again");
    bench.answer(SendOutcome::Accepted);
    bench.blocks = Some((0, Vec::new()));
    let resync = || CommandKind::Resync { lost: LostRule::Requeue, dry_run: false };
    bench.command(resync());
    bench.pass_secs(1);
    let stopped = (Some("store_regressed"), StateName::Tracking);
    assert_eq!(
        (bench.protect_code(), bench.state(1)),
        stopped,
        "its block is orphaned: what was lost may still take the nonce"
    );
    bench.finish(hash, fork(2, "new"));
    assert_eq!((bench.protect_code(), bench.state(1)), stopped, "nobody has reconciled it");
    bench.command(resync());
    bench.pass_secs(1);
    assert_eq!(bench.protect_code(), None);
    let TxState::Confirmed(settled) = &bench.ledger.txs[&1].state else { panic!("{:?}", bench.state(1)) };
    assert_eq!(settled.inclusion.block, fork(2, "new"));
}

/// Its commit was not written yet.
#[test]
fn what_is_no_longer_final_when_it_is_to_be_written_does_not_end() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    bench.hold.insert(Hold::Commit);
    bench.finish(hash, block(1));
    bench.commit_not_written();
    bench.see(Sighting::Unmined { hash, block: block(1) });
    bench.hold.clear();
    bench.pass_secs(30);
    assert_eq!((bench.protect_code(), bench.state(1)), (Some("deep_reorg"), StateName::Tracking));
    assert!(bench.sending().contains(&0));
}

#[test]
fn a_lane_that_is_stopped_says_why_once() {
    let protection = Protection { code: ProtectCode::CannotFill, detail: text("x") };
    let mut bench = tracked();
    bench.ledger.cursor.as_mut().unwrap().state = LaneState::Protect(protection);
    bench.crash();
    bench.account = account(5);
    bench.run();
    bench.pass_secs(60);
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
    assert!(bench.commits.iter().all(|commit| commit.lane_events().count() == 0));
    // A later commit of the stopped lane repeats neither the event nor the reason.
    let commits = bench.commits.len();
    bench.see(mined(bench.hash(0, 0), block(1)));
    assert!(bench.commits.len() > commits, "the lane still writes what it sees");
    assert_eq!(bench.ledger.txs[&1].state.sub_state().map(|state| state.as_str()), Some("MINED"));
    assert!(bench.commits.iter().all(|commit| commit.lane_events().count() == 0));
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
}
