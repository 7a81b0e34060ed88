//! Doubts: what surveys, commands and takeovers may do to each other.

use std::time::Duration;

use gapless_domain::{
    AccountFacts, Address, AttemptKind, CommandResult, Effect, EvmCall, Fact, LaneSetup, LostRule, SendOutcome,
    Sighting, StateName,
};

use crate::bench::{Bench, Hold, account, block, fork, kinds, mined, nonce, sign, stranger, window};
use crate::doubted::{adopting, answer_all, final_count, missing, resync, sent};

fn refusals(bench: &Bench) -> Vec<&str> {
    let refused = |result: &CommandResult| matches!(result, CommandResult::Refused(_));
    bench.ledger.results.iter().filter(|result| refused(result)).map(|result| result.report().as_str()).collect()
}

/// What was adopted stands below the newest final block, and is still looked for there (P1, P4).
#[test]
fn an_intent_that_was_found_on_chain_is_not_lost_by_looking_only_above_it() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(1);
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    bench.crash();
    bench.run();
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!((bench.nonces(), bench.protect_code()), (vec![Some(0)], None));
    // The operator says it once more, before the watcher has found the receipt. The engine reads down to the block that it is told.
    let above = bench.ledger.slots[&nonce(0)].above.unwrap();
    assert_eq!(above, block(above.number), "a block of this chain");
    let found = if above.number < 20 { vec![stranger(0, 1, 20)] } else { Vec::new() };
    bench.blocks = Some((above.number + 1, found));
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.nonces(), [Some(0)], "it took effect at nonce 0, and is sent again: {:?}", bench.result());
    assert!(bench.sending().is_empty());
}

/// A lane that binds above a block that is final, until a reorg below it is accepted by an operator.
fn bound_above(number: u64, setup: LaneSetup) -> Bench {
    let mut bench = Bench::new(setup);
    bench.account.final_block = Some(fork(number, "once final"));
    bench.queue(1);
    bench.run();
    answer_all(&mut bench, SendOutcome::Accepted);
    assert_eq!(bench.ledger.slots[&nonce(0)].above, Some(fork(number, "once final")));
    bench
}

/// Our transaction stands in block 20 of the new branch, below the number of what was final on the old one (P1, P4).
#[test]
fn a_floor_that_is_no_longer_on_the_chain_proves_nothing_lost() {
    for setup in [window(1), adopting(1)] {
        let mut bench = bound_above(40, setup);
        // All blocks down to that number were read, and nobody finds the receipt.
        bench.blocks = Some((41, Vec::new()));
        missing(&mut bench, final_count(1));
        bench.command(resync(LostRule::Requeue));
        bench.pass_secs(1);
        assert!(refusals(&bench)[0].contains("blocks below 41 were not read"), "{:?}", bench.result());
        assert_eq!((bench.state(1), bench.nonces()), (StateName::Tracking, vec![Some(0)]), "it would be sent twice");
        bench.crash();
        bench.run();
        let mut ours = stranger(0, 1, 20);
        ours.tx.signed.hash = bench.hash(0, 0);
        bench.blocks = Some((20, vec![ours]));
        bench.command(resync(LostRule::Requeue));
        bench.pass_secs(1);
        assert_eq!((bench.protect_code(), bench.nonces()), (None, vec![Some(0)]), "{:?}", bench.result());
        bench.finish(bench.hash(0, 0), block(20));
        assert_eq!(bench.state(1), StateName::Confirmed);
    }
}

/// The floor of the lowest nonce is still there, but was not reached; that of the next one was bound to the other branch.
#[test]
fn what_was_not_read_down_to_a_floor_of_this_chain_is_not_lost() {
    let mut bench = sent(window(2), 1);
    bench.account.final_block = Some(fork(40, "once final"));
    bench.pass_secs(20);
    bench.queue(1);
    bench.tell(Fact::Woken);
    answer_all(&mut bench, SendOutcome::Accepted);
    let above: Vec<_> = bench.ledger.slots.values().map(|slot| slot.above.unwrap()).collect();
    assert_eq!(above, [block(1), fork(40, "once final")]);
    bench.blocks = Some((30, Vec::new()));
    missing(&mut bench, final_count(2));
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.nonces(), [Some(0), Some(1)], "{:?}", bench.result());
    // Nonces are used in order: below the one there can be nothing of the other.
    bench.blocks = Some((30, vec![stranger(0, 7, 30)]));
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.nonces(), [Some(2), Some(3)], "{:?}", bench.result());
}

/// In a store that lost commits, what the count alone says may be our own transaction (P1).
#[test]
fn what_was_not_read_is_not_adopted_by_its_count_after_a_loss_of_commits() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(1);
    bench.account = final_count(1);
    // Our transaction stands in block 20; a limit ended the survey at 30.
    bench.blocks = Some((30, Vec::new()));
    bench.crash();
    bench.run();
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!((bench.nonces(), bench.sending()), (vec![None], vec![]), "{:?}", bench.result());
}

/// One of the strangers' transactions is final, the next one not yet.
#[test]
fn a_survey_that_came_too_early_is_followed_by_another() {
    let mut bench = sent(adopting(2), 1);
    bench.finish(bench.hash(0, 0), block(1));
    bench.blocks = Some((1, vec![stranger(1, 7, 20), stranger(2, 8, 21)]));
    // One of the strangers' is final, the next one not yet.
    bench.account = AccountFacts { finalized: Some(nonce(2)), ..final_count(3) };
    bench.queue(1);
    bench.pass_secs(20);
    assert_eq!(bench.surveys.len(), 1);
    bench.account = final_count(3);
    (0..600).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.nonces(), [Some(0), Some(3)], "after ten minutes, with {} surveys", bench.surveys.len());
}

#[test]
fn a_lost_intent_is_found_lost_when_that_is_final() {
    let mut setup = adopting(1);
    setup.policy.resubmit.enabled = false;
    let mut bench = sent(setup, 1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    for _ in 0..60 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    bench.account = final_count(1);
    for _ in 0..600 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    assert_eq!(bench.nonces(), [Some(1)], "after ten minutes, with {} surveys", bench.surveys.len());
}

#[test]
fn a_lane_rests_after_a_survey_that_nobody_needs_any_more() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, Vec::new()));
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    bench.hold.insert(Hold::ScanResult);
    bench.pass_secs(20);
    for _ in 0..3 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
    }
    assert!(bench.held.iter().any(|effect| matches!(effect, Effect::Scan(_))));
    bench.account = final_count(1);
    bench.finish(bench.hash(0, 0), block(20));
    assert_eq!(bench.state(1), StateName::Confirmed);
    bench.tell(Fact::Scanned(Some(gapless_domain::ScanResult {
        account: bench.account,
        head: block(100),
        oldest: 2,
        is_whole: true,
        sent: Vec::new(),
    })));
    bench.held.clear();
    (0..600).for_each(|_| bench.pass_secs(1));
    assert!(bench.held.is_empty(), "nothing is under way");
    assert!(bench.released, "ten minutes without work");
}

/// Nothing may end before it is reconciled, so the loan is not taken back; its borrower has sent something by itself.
#[test]
fn a_resync_can_be_written_although_a_loan_is_past_its_time() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(30));
    bench.run();
    bench.ledger.regressed = true;
    bench.crash();
    bench.run();
    assert_eq!(bench.protect_code(), Some("store_regressed"));
    bench.pass_secs(60);
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.protect_code(), None);
}

/// Between the end of a loan and its grace.
#[test]
fn a_loan_in_its_grace_is_not_used_any_more() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(30));
    bench.run();
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.hold.insert(Hold::ScanResult);
    (0..29).for_each(|_| bench.pass_secs(1));
    bench.pass(Duration::from_millis(1050));
    assert!(bench.held.iter().any(|effect| matches!(effect, Effect::Scan(_))));
    bench.tell(Fact::Scanned(Some(gapless_domain::ScanResult {
        account: bench.account,
        head: block(100),
        oldest: 2,
        is_whole: true,
        sent: vec![stranger(0, 7, 20)],
    })));
}

/// The ledger still says Mined when the survey says that a stranger stands there.
#[test]
fn a_lost_nonce_whose_orphaned_block_is_not_written_yet_does_not_stop_all_writing() {
    let mut bench = sent(window(2), 1);
    bench.see(mined(bench.hash(0, 0), block(40)));
    bench.blocks = Some((1, vec![stranger(0, 7, 41)]));
    bench.account = final_count(1);
    // A commit is under way: the bind of another intent.
    bench.hold.insert(Hold::Commit);
    bench.queue(1);
    bench.pass_secs(3);
    assert!(!bench.held_commit().slots().is_empty());
    // Meanwhile block 40 is orphaned, and somebody wants the lane reconciled.
    bench.see(Sighting::Unmined { hash: bench.hash(0, 0), block: block(40) });
    bench.command(resync(LostRule::Requeue));
    bench.hold.remove(&Hold::Commit);
    bench.commit_done(true);
    for _ in 0..10 {
        bench.pass_secs(61);
        answer_all(&mut bench, SendOutcome::NonceTooLow);
    }
    assert_eq!(bench.ledger.results.len(), 1, "notices: {:?}", bench.notices);
}

/// How often something is sent while so many seconds pass; every node takes it.
fn sends_within(bench: &mut Bench, seconds: u64) -> usize {
    let mut sends = 0;
    for _ in 0..seconds {
        bench.pass_secs(1);
        if !bench.broadcasts.is_empty() {
            sends += 1;
            bench.answer(SendOutcome::Accepted);
        }
    }
    sends
}

/// Nobody has seen it mined, so nobody says that it no longer is.
///
/// proves N14
#[test]
fn what_was_attached_and_is_orphaned_goes_out_again() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, vec![stranger(0, 1, 80)]));
    missing(&mut bench, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(kinds(&bench, 0).len(), 2, "the stranger does what the intent wants: {:?}", bench.result());
    answer_all(&mut bench, SendOutcome::NonceTooLow);
    // A reorg: the block is gone before anybody has looked it up.
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    bench.blocks = Some((1, Vec::new()));
    bench.see(Sighting::NotFound { hash: stranger(0, 1, 80).tx.signed.hash });
    assert!(sends_within(&mut bench, 600) > 0, "nothing was sent for ten minutes, with nonce 0 open");
}

/// The same for a lent nonce, without any command.
#[test]
fn what_a_borrower_sent_by_itself_and_is_orphaned_goes_out_again() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(600));
    bench.run();
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    bench.blocks = Some((1, vec![stranger(0, 7, 80)]));
    (0..60).for_each(|_| bench.pass_secs(1));
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original]);
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    bench.blocks = Some((1, Vec::new()));
    bench.see(Sighting::NotFound { hash: stranger(0, 7, 80).tx.signed.hash });
    assert!(sends_within(&mut bench, 3600) > 0, "nothing was sent for an hour, with nonce 0 open");
}

/// proves N15
#[test]
fn a_rejected_intent_whose_nonce_is_gone_can_be_reconciled() {
    let mut bench = Bench::busy(adopting(1), 1);
    bench.answer(SendOutcome::Rejected);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    for _ in 0..300 {
        for at in 0..2 {
            bench.see(Sighting::NotFound { hash: bench.hash(0, at) });
        }
        bench.pass_secs(1);
        answer_all(&mut bench, SendOutcome::NonceTooLow);
    }
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(refusals(&bench), Vec::<&str>::new());
    assert_eq!(bench.state(1), StateName::Canceled, "nodes refuse it for good, so it is not sent once more");
}

/// The natural way out of `cannot_fill`.
#[test]
fn a_nonce_that_an_operator_has_filled_by_hand_can_be_reconciled() {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Rejected);
    bench.answer(SendOutcome::Rejected);
    assert_eq!(bench.protect_code(), Some("cannot_fill"));
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.pass_secs(20);
    answer_all(&mut bench, SendOutcome::NonceTooLow);
    bench.command(resync(LostRule::Fail));
    bench.pass_secs(1);
    assert_eq!(refusals(&bench), Vec::<&str>::new());
}

/// proves N11
#[test]
fn a_lost_intent_keeps_its_place_in_line_over_a_takeover() {
    let mut bench = sent(window(4), 2);
    bench.see(mined(bench.hash(0, 0), block(40)));
    bench.blocks = Some((1, vec![stranger(1, 7, 41)]));
    bench.account = final_count(2);
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    bench.commit_done(true);
    assert_eq!(bench.nonces(), [Some(0), None], "{:?}", bench.result());
    // The node dies. Who takes over has slot 0 not final yet, and slot 1 lost.
    bench.queue(1);
    bench.crash();
    bench.run();
    bench.pass_secs(3);
    answer_all(&mut bench, SendOutcome::Accepted);
    bench.pass_secs(3);
    assert_eq!(bench.nonces(), [Some(0), Some(2), Some(3)]);
}

/// proves S13
#[test]
fn an_intent_that_was_moved_can_be_canceled_after_a_takeover() {
    let mut bench = sent(window(4), 2);
    bench.see(mined(bench.hash(0, 0), block(40)));
    bench.blocks = Some((1, vec![stranger(1, 7, 41)]));
    bench.account = final_count(2);
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(3);
    answer_all(&mut bench, SendOutcome::Accepted);
    assert_eq!(bench.nonces(), [Some(0), Some(2)], "{:?}", bench.result());
    // Another node takes over; then slot 0 is final, and is closed together with slot 1, which is lost.
    bench.crash();
    bench.run();
    bench.finish(bench.hash(0, 0), block(40));
    assert_eq!((bench.state(1), bench.state(2)), (StateName::Confirmed, StateName::Tracking));
    bench.cancel(2);
    bench.pass_secs(1);
    assert_eq!(refusals(&bench), Vec::<&str>::new());
}

/// proves S13
#[test]
fn a_cancel_outlives_the_loss_of_the_nonce() {
    let mut bench = sent(window(1), 1);
    bench.cancel(1);
    answer_all(&mut bench, SendOutcome::Accepted);
    assert!(bench.result().0);
    bench.account = final_count(1);
    bench.blocks = Some((1, vec![stranger(0, 7, 20)]));
    bench.pass_secs(20);
    bench.command(resync(LostRule::Requeue));
    bench.pass_secs(1);
    assert_eq!(bench.state(1), StateName::Canceled, "it has nonce {:?} now", bench.nonces());
}

/// A look at the queue begins while the commit is under way that adopts it.
#[test]
fn an_intent_that_is_being_adopted_is_not_in_line() {
    let mut bench = Bench::new(window(4));
    bench.ledger.regressed = true;
    bench.queue(1);
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    bench.crash();
    bench.run();
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    assert!(!bench.held_commit().slots().is_empty());
    bench.tell(Fact::Woken);
    bench.hold.remove(&Hold::Commit);
    bench.commit_done(true);
    // The bench refuses what a store refuses: another version of the intent.
    bench.pass_secs(1);
    assert_eq!(bench.nonces(), [Some(0)]);
}

#[test]
fn an_intent_at_the_signer_is_compared_with_what_strangers_sent() {
    let mut bench = Bench::new(adopting(1));
    bench.queue(1);
    bench.queue_call(EvmCall { to: Some(Address::repeat_byte(9)), ..EvmCall::default() }, None);
    bench.hold.insert(Hold::Sign);
    bench.run();
    bench.account = final_count(1);
    bench.blocks = Some((0, vec![stranger(0, 1, 20)]));
    (0..30).for_each(|_| bench.pass_secs(1));
    bench.hold.clear();
    let signing = bench.held.iter().position(|effect| matches!(effect, Effect::Sign(_)));
    if let Some(at) = signing
        && let Effect::Sign(requests) = bench.held.remove(at)
    {
        bench.tell(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    (0..30).for_each(|_| bench.pass_secs(1));
    assert!(!bench.surveys.is_empty());
    assert_eq!(bench.nonces()[0], Some(0), "it was done at nonce 0");
}

/// The count went back in between.
#[test]
fn looks_before_a_reorg_do_not_count_after_it() {
    let mut bench = sent(window(1), 1);
    bench.blocks = Some((1, Vec::new()));
    bench.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    bench.pass_secs(20);
    for _ in 0..8 {
        bench.see(Sighting::NotFound { hash: bench.hash(0, 0) });
        bench.pass_secs(1);
        answer_all(&mut bench, SendOutcome::Accepted);
    }
    assert_eq!(bench.protect_code(), None);
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    for _ in 0..60 {
        bench.pass_secs(1);
        answer_all(&mut bench, SendOutcome::Accepted);
    }
    bench.account = final_count(1);
    (0..20).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.protect_code(), None, "nobody has looked for its hash since the count went back");
}

/// proves S15
#[test]
fn a_resync_that_nobody_can_answer_does_not_hold_up_a_healthy_lane_for_ever() {
    let mut bench = sent(window(2), 1);
    bench.blocks = None;
    bench.command(resync(LostRule::Requeue));
    bench.queue(1);
    (0..600).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.nonces(), [Some(0), Some(1)]);
}

#[test]
fn a_filled_loan_that_is_lost_stays_lost() {
    let mut bench = Bench::new(window(2));
    bench.queue_external("a", Duration::from_secs(5));
    bench.run();
    bench.pass_secs(6);
    bench.pass_secs(1);
    answer_all(&mut bench, SendOutcome::Accepted);
    assert_eq!(kinds(&bench, 0), [AttemptKind::Fill]);
    bench.blocks = Some((1, Vec::new()));
    missing(&mut bench, final_count(1));
    assert_eq!(bench.protect_code(), Some("foreign_transaction"));
    bench.hold.insert(Hold::Commit);
    bench.command(resync(LostRule::Requeue));
    bench.commit_done(true);
    assert_eq!(bench.protect_code(), None, "{:?}", bench.result());
    bench.crash();
    missing(&mut bench, final_count(1));
    assert_eq!(bench.protect_code(), None);
}
