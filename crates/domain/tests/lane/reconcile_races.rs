//! Races between scans, commands and takeovers.

use std::time::Duration;

use gapless_domain::{
    AccountFacts, Address, AttemptKind, CommandResult, Effect, EvmCall, Fact, LaneSetup, LostRule, SendOutcome,
    Sighting, StateName,
};

use crate::harness::{Hold, LaneHarness, account, block, foreign_tx, fork, kinds, mined, nonce, sign, text, window};
use crate::reconcile_fixtures::{adopting, answer_all, final_count, missing, resync, sent};

fn refusals(harness: &LaneHarness) -> Vec<&str> {
    let refused = |result: &CommandResult| matches!(result, CommandResult::Refused(_));
    harness.ledger.results.iter().filter(|result| refused(result)).map(|result| result.report().as_str()).collect()
}

/// An adopted transaction lies below the newest final block, and is still looked for there (P1, P4).
#[test]
fn adopted_intent_is_not_lost_by_a_second_resync() {
    let mut harness = LaneHarness::new(window(4));
    harness.ledger.regressed = true;
    harness.queue(1);
    harness.account = final_count(1);
    harness.blocks = Some((0, vec![foreign_tx(0, 1, 20)]));
    harness.crash();
    harness.run();
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!((harness.nonces(), harness.protect_code()), (vec![Some(0)], None));
    // The operator runs resync again before the watcher has found the receipt. The engine reads down to the named
    // block.
    let above = harness.ledger.slots[&nonce(0)].above.unwrap();
    assert_eq!(above, block(above.number), "the block is not on this chain");
    let found = if above.number < 20 { vec![foreign_tx(0, 1, 20)] } else { Vec::new() };
    harness.blocks = Some((above.number + 1, found));
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(harness.nonces(), [Some(0)], "the intent took effect at nonce 0: {:?}", harness.result());
    assert!(harness.sending().is_empty());
}

/// A lane that binds above a final block, which a reorg orphans later. An operator accepts the reorg.
fn bound_above(number: u64, setup: LaneSetup) -> LaneHarness {
    let mut harness = LaneHarness::new(setup);
    harness.account.final_block = Some(fork(number, "once final"));
    harness.queue(1);
    harness.run();
    answer_all(&mut harness, SendOutcome::Accepted);
    assert_eq!(harness.ledger.slots[&nonce(0)].above, Some(fork(number, "once final")));
    harness
}

/// Our transaction is in block 20 of the new branch, below the height of the block that was final on the old one (P1,
/// P4).
#[test]
fn orphaned_lower_bound_proves_no_loss() {
    for setup in [window(1), adopting(1)] {
        let mut harness = bound_above(40, setup);
        // All blocks down to that height were read, and the receipt is missing.
        harness.blocks = Some((41, Vec::new()));
        missing(&mut harness, final_count(1));
        harness.command(resync(LostRule::Requeue));
        harness.advance_secs(1);
        assert!(refusals(&harness)[0].contains("blocks below 41 were not read"), "{:?}", harness.result());
        let kept = (StateName::Tracking, vec![Some(0)]);
        assert_eq!((harness.state(1), harness.nonces()), kept, "the intent would be sent twice");
        harness.crash();
        harness.run();
        let mut ours = foreign_tx(0, 1, 20);
        ours.tx.signed.hash = harness.hash(0, 0);
        harness.blocks = Some((20, vec![ours]));
        harness.command(resync(LostRule::Requeue));
        harness.advance_secs(1);
        assert_eq!((harness.protect_code(), harness.nonces()), (None, vec![Some(0)]), "{:?}", harness.result());
        harness.finish(harness.hash(0, 0), block(20));
        assert_eq!(harness.state(1), StateName::Confirmed);
    }
}

/// The lower bound of the lowest nonce is on the chain, but was not reached. The lower bound of the next nonce is on
/// the other branch.
#[test]
fn scan_above_the_lower_bound_proves_no_loss() {
    let mut harness = sent(window(2), 1);
    harness.account.final_block = Some(fork(40, "once final"));
    harness.advance_secs(20);
    harness.queue(1);
    harness.give(Fact::Woken);
    answer_all(&mut harness, SendOutcome::Accepted);
    let above: Vec<_> = harness.ledger.slots.values().map(|slot| slot.above.unwrap()).collect();
    assert_eq!(above, [block(1), fork(40, "once final")]);
    harness.blocks = Some((30, Vec::new()));
    missing(&mut harness, final_count(2));
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(harness.nonces(), [Some(0), Some(1)], "{:?}", harness.result());
    // Nonces are consumed in order: below the transaction of one nonce there is none of a higher nonce.
    harness.blocks = Some((30, vec![foreign_tx(0, 7, 30)]));
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(harness.nonces(), [Some(2), Some(3)], "{:?}", harness.result());
}

/// After a loss of commits, a nonce that is consumed by the count alone may be consumed by our own transaction (P1).
#[test]
fn lost_commits_forbid_adoption_of_unread_nonce() {
    let mut harness = LaneHarness::new(window(4));
    harness.ledger.regressed = true;
    harness.queue(1);
    harness.account = final_count(1);
    // Our transaction is in block 20. The block limit ended the scan at 30.
    harness.blocks = Some((30, Vec::new()));
    harness.crash();
    harness.run();
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!((harness.nonces(), harness.sending()), (vec![None], vec![]), "{:?}", harness.result());
}

/// One foreign transaction is final, the next one is not yet.
#[test]
fn scan_before_finality_is_repeated() {
    let mut harness = sent(adopting(2), 1);
    harness.finish(harness.hash(0, 0), block(1));
    harness.blocks = Some((1, vec![foreign_tx(1, 7, 20), foreign_tx(2, 8, 21)]));
    // One foreign transaction is final, the next one is not yet.
    harness.account = AccountFacts { finalized: Some(nonce(2)), ..final_count(3) };
    harness.queue(1);
    harness.advance_secs(20);
    assert_eq!(harness.scans.len(), 1);
    harness.account = final_count(3);
    (0..600).for_each(|_| harness.advance_secs(1));
    assert_eq!(harness.nonces(), [Some(0), Some(3)], "ten minutes and {} scans later", harness.scans.len());
}

#[test]
fn lost_intent_is_requeued_when_loss_is_final() {
    let mut setup = adopting(1);
    setup.policy.resubmit.enabled = false;
    let mut harness = sent(setup, 1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    for _ in 0..60 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
    }
    harness.account = final_count(1);
    for _ in 0..600 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
    }
    assert_eq!(harness.nonces(), [Some(1)], "ten minutes and {} scans later", harness.scans.len());
}

#[test]
fn lane_is_released_after_a_needless_scan() {
    let mut harness = sent(window(1), 1);
    harness.blocks = Some((1, Vec::new()));
    harness.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    harness.hold.insert(Hold::Scan);
    harness.advance_secs(20);
    for _ in 0..3 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
    }
    assert!(harness.unanswered.iter().any(|effect| matches!(effect, Effect::Scan(_))));
    harness.account = final_count(1);
    harness.finish(harness.hash(0, 0), block(20));
    assert_eq!(harness.state(1), StateName::Confirmed);
    harness.give(Fact::Scanned(Ok(gapless_domain::ScanResult {
        account: harness.account,
        head: block(100),
        oldest: 2,
        is_whole: true,
        sent: Vec::new(),
    })));
    harness.unanswered.clear();
    (0..600).for_each(|_| harness.advance_secs(1));
    assert!(harness.unanswered.is_empty(), "an effect is unanswered");
    assert!(harness.released, "the lane had no work for ten minutes");
}

/// No intent may end before the loss is reconciled, so the reservation does not end. The caller has sent its
/// transaction without submitting it.
#[test]
fn resync_succeeds_although_a_reservation_timed_out() {
    let mut harness = LaneHarness::new(window(2));
    harness.queue_reservation("a", Duration::from_secs(30));
    harness.run();
    harness.ledger.regressed = true;
    harness.crash();
    harness.run();
    assert_eq!(harness.protect_code(), Some("store_regressed"));
    harness.advance_secs(60);
    harness.account = final_count(1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(harness.protect_code(), None);
}

/// The scan ends between the end of the reservation and the lane's grace time.
#[test]
fn reservation_in_grace_time_is_not_used() {
    let mut harness = LaneHarness::new(window(2));
    harness.queue_reservation("a", Duration::from_secs(30));
    harness.run();
    harness.account = final_count(1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.hold.insert(Hold::Scan);
    (0..29).for_each(|_| harness.advance_secs(1));
    harness.advance(Duration::from_millis(1050));
    assert!(harness.unanswered.iter().any(|effect| matches!(effect, Effect::Scan(_))));
    harness.give(Fact::Scanned(Ok(gapless_domain::ScanResult {
        account: harness.account,
        head: block(100),
        oldest: 2,
        is_whole: true,
        sent: vec![foreign_tx(0, 7, 20)],
    })));
}

/// The ledger still says mined when the scan finds a foreign transaction at the nonce.
#[test]
fn lost_nonce_with_unwritten_reorg_does_not_block_lane() {
    let mut harness = sent(window(2), 1);
    harness.sight(mined(harness.hash(0, 0), block(40)));
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 41)]));
    harness.account = final_count(1);
    // The commit in flight binds another intent.
    harness.hold.insert(Hold::Commit);
    harness.queue(1);
    harness.advance_secs(3);
    assert!(!harness.pending_commit().slots().is_empty());
    // Meanwhile block 40 is orphaned, and an operator runs resync.
    harness.sight(Sighting::Unmined { hash: harness.hash(0, 0), block: block(40) });
    harness.command(resync(LostRule::Requeue));
    harness.hold.remove(&Hold::Commit);
    harness.commit_done(true);
    for _ in 0..10 {
        harness.advance_secs(61);
        answer_all(&mut harness, SendOutcome::NonceTooLow);
    }
    assert_eq!(harness.ledger.results.len(), 1, "notices: {:?}", harness.notices);
}

/// Number of sends within some seconds; every send is accepted.
fn sends_within(harness: &mut LaneHarness, seconds: u64) -> usize {
    let mut sends = 0;
    for _ in 0..seconds {
        harness.advance_secs(1);
        if !harness.broadcasts.is_empty() {
            sends += 1;
            harness.answer(SendOutcome::Accepted);
        }
    }
    sends
}

/// The watcher has not seen the transaction mined, so no sighting says that it is orphaned.
///
/// proves N14
#[test]
fn attached_transaction_after_reorg_is_sent_again() {
    let mut harness = sent(window(1), 1);
    harness.blocks = Some((1, vec![foreign_tx(0, 1, 80)]));
    missing(&mut harness, AccountFacts { finalized: Some(nonce(0)), ..final_count(1) });
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(kinds(&harness, 0).len(), 2, "the foreign transaction matches the intent: {:?}", harness.result());
    answer_all(&mut harness, SendOutcome::NonceTooLow);
    // The block is orphaned before a lookup found the transaction.
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    harness.blocks = Some((1, Vec::new()));
    harness.sight(Sighting::NotFound { hash: foreign_tx(0, 1, 80).tx.signed.hash });
    assert!(sends_within(&mut harness, 600) > 0, "nonce 0 is open, and nothing was sent for ten minutes");
}

/// The nonce was reserved, and no command is involved.
#[test]
fn unsubmitted_transaction_after_reorg_is_sent_again() {
    let mut harness = LaneHarness::new(window(2));
    harness.queue_reservation("a", Duration::from_secs(600));
    harness.run();
    harness.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 80)]));
    (0..60).for_each(|_| harness.advance_secs(1));
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original]);
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    harness.blocks = Some((1, Vec::new()));
    harness.sight(Sighting::NotFound { hash: foreign_tx(0, 7, 80).tx.signed.hash });
    assert!(sends_within(&mut harness, 3600) > 0, "nonce 0 is open, and nothing was sent for an hour");
}

/// proves N15
#[test]
fn rejected_intent_with_lost_nonce_is_reconciled() {
    let mut harness = LaneHarness::with_intents(adopting(1), 1);
    harness.answer(SendOutcome::Rejected);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Original, AttemptKind::Cancel]);
    harness.account = final_count(1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    for _ in 0..300 {
        for at in 0..2 {
            harness.sight(Sighting::NotFound { hash: harness.hash(0, at) });
        }
        harness.advance_secs(1);
        answer_all(&mut harness, SendOutcome::NonceTooLow);
    }
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(refusals(&harness), Vec::<&str>::new());
    assert_eq!(harness.state(1), StateName::Canceled, "nodes reject the intent, so it is not sent again");
}

/// The usual way out of `cannot_fill`.
#[test]
fn nonce_filled_by_operator_is_reconciled() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Rejected);
    harness.answer(SendOutcome::Rejected);
    assert_eq!(harness.protect_code(), Some("cannot_fill"));
    harness.account = final_count(1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.advance_secs(20);
    answer_all(&mut harness, SendOutcome::NonceTooLow);
    harness.command(resync(LostRule::Fail));
    harness.advance_secs(1);
    assert_eq!(refusals(&harness), Vec::<&str>::new());
}

/// proves N11
#[test]
fn lost_intent_keeps_queue_position_over_takeover() {
    let mut harness = sent(window(4), 2);
    harness.sight(mined(harness.hash(0, 0), block(40)));
    harness.blocks = Some((1, vec![foreign_tx(1, 7, 41)]));
    harness.account = final_count(2);
    harness.hold.insert(Hold::Commit);
    harness.command(resync(LostRule::Requeue));
    harness.commit_done(true);
    assert_eq!(harness.nonces(), [Some(0), None], "{:?}", harness.result());
    // The owner crashes. Its successor has slot 0 not final, and slot 1 lost.
    harness.queue(1);
    harness.crash();
    harness.run();
    harness.advance_secs(3);
    answer_all(&mut harness, SendOutcome::Accepted);
    harness.advance_secs(3);
    assert_eq!(harness.nonces(), [Some(0), Some(2), Some(3)]);
}

/// proves S13
#[test]
fn moved_intent_is_canceled_after_takeover() {
    let mut harness = sent(window(4), 2);
    harness.sight(mined(harness.hash(0, 0), block(40)));
    harness.blocks = Some((1, vec![foreign_tx(1, 7, 41)]));
    harness.account = final_count(2);
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(3);
    answer_all(&mut harness, SendOutcome::Accepted);
    assert_eq!(harness.nonces(), [Some(0), Some(2)], "{:?}", harness.result());
    // After the takeover slot 0 is final, and is closed together with slot 1, which is lost.
    harness.crash();
    harness.run();
    harness.finish(harness.hash(0, 0), block(40));
    assert_eq!((harness.state(1), harness.state(2)), (StateName::Confirmed, StateName::Tracking));
    harness.cancel(2);
    harness.advance_secs(1);
    assert_eq!(refusals(&harness), Vec::<&str>::new());
}

/// proves S13
#[test]
fn cancel_survives_the_loss_of_the_nonce() {
    let mut harness = sent(window(1), 1);
    harness.cancel(1);
    answer_all(&mut harness, SendOutcome::Accepted);
    assert!(harness.result().0);
    harness.account = final_count(1);
    harness.blocks = Some((1, vec![foreign_tx(0, 7, 20)]));
    harness.advance_secs(20);
    harness.command(resync(LostRule::Requeue));
    harness.advance_secs(1);
    assert_eq!(harness.state(1), StateName::Canceled, "nonces: {:?}", harness.nonces());
}

/// A peek begins while the commit that adopts the intent is in flight.
#[test]
fn intent_being_adopted_is_no_candidate() {
    let mut harness = LaneHarness::new(window(4));
    harness.ledger.regressed = true;
    harness.queue(1);
    harness.account = final_count(1);
    harness.blocks = Some((0, vec![foreign_tx(0, 1, 20)]));
    harness.crash();
    harness.run();
    harness.hold.insert(Hold::Commit);
    harness.command(resync(LostRule::Requeue));
    assert!(!harness.pending_commit().slots().is_empty());
    harness.give(Fact::Woken);
    harness.hold.remove(&Hold::Commit);
    harness.commit_done(true);
    // The ledger rejects a change of another version of the intent.
    harness.advance_secs(1);
    assert_eq!(harness.nonces(), [Some(0)]);
}

#[test]
fn intent_at_signer_is_matched_with_foreign_transactions() {
    let mut harness = LaneHarness::new(adopting(1));
    harness.queue(1);
    harness.queue_call(EvmCall { to: Some(Address::repeat_byte(9)), ..EvmCall::default() }, None);
    harness.hold.insert(Hold::Sign);
    harness.run();
    harness.account = final_count(1);
    harness.blocks = Some((0, vec![foreign_tx(0, 1, 20)]));
    (0..30).for_each(|_| harness.advance_secs(1));
    harness.hold.clear();
    let signing = harness.unanswered.iter().position(|effect| matches!(effect, Effect::Sign(_)));
    if let Some(at) = signing
        && let Effect::Sign(requests) = harness.unanswered.remove(at)
    {
        harness.give(Fact::Signed(requests.iter().map(|request| Ok(sign(request))).collect()));
    }
    (0..30).for_each(|_| harness.advance_secs(1));
    assert!(!harness.scans.is_empty());
    assert_eq!(harness.nonces()[0], Some(0), "the intent took effect at nonce 0");
}

/// The account's nonce was lower in between.
#[test]
fn lookups_before_a_reorg_do_not_count_after_it() {
    let mut harness = sent(window(1), 1);
    harness.blocks = Some((1, Vec::new()));
    harness.account = AccountFacts { finalized: Some(nonce(0)), ..final_count(1) };
    harness.advance_secs(20);
    for _ in 0..8 {
        harness.sight(Sighting::NotFound { hash: harness.hash(0, 0) });
        harness.advance_secs(1);
        answer_all(&mut harness, SendOutcome::Accepted);
    }
    assert_eq!(harness.protect_code(), None);
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(0) };
    for _ in 0..60 {
        harness.advance_secs(1);
        answer_all(&mut harness, SendOutcome::Accepted);
    }
    harness.account = final_count(1);
    (0..20).for_each(|_| harness.advance_secs(1));
    assert_eq!(harness.protect_code(), None, "the hash was not looked up since the reorg");
}

/// proves S15
#[test]
fn resync_without_readable_blocks_does_not_block_lane() {
    let mut harness = sent(window(2), 1);
    harness.blocks = None;
    harness.command(resync(LostRule::Requeue));
    harness.queue(1);
    (0..600).for_each(|_| harness.advance_secs(1));
    assert_eq!(harness.nonces(), [Some(0), Some(1)]);
}

/// The refusal names the reason of the last failed scan.
#[test]
fn resync_after_failed_scans_is_refused_with_reason() {
    let mut harness = sent(window(2), 1);
    harness.blocks = None;
    harness.scan_failure = text("this node is at block 7, below the final block 9");
    harness.command(resync(LostRule::Requeue));
    (0..600).for_each(|_| harness.advance_secs(1));
    let why = "the blocks could not be scanned: this node is at block 7, below the final block 9; nothing was changed, \
        try again later";
    assert_eq!(refusals(&harness), [why]);
}

/// Scans fail before the command is issued, and once after. The command waits for its own scans.
#[test]
fn resync_is_not_refused_for_earlier_failed_scans() {
    let mut harness = sent(window(2), 1);
    harness.blocks = None;
    missing(&mut harness, final_count(1));
    (0..600).for_each(|_| harness.advance_secs(1));
    let failed = harness.scans.len();
    assert!(failed > 5, "{failed} scans");
    harness.command(resync(LostRule::Requeue));
    while harness.scans.len() == failed {
        harness.advance_secs(1);
    }
    harness.advance_secs(1);
    assert_eq!(refusals(&harness), [""; 0], "one scan of the command failed");
    harness.blocks = Some((0, vec![foreign_tx(0, 7, 20)]));
    (0..60).for_each(|_| harness.advance_secs(1));
    assert_eq!((refusals(&harness), harness.ledger.results.len()), (Vec::new(), 1));
}

#[test]
fn lost_filler_of_a_reservation_stays_lost() {
    let mut harness = LaneHarness::new(window(2));
    harness.queue_reservation("a", Duration::from_secs(5));
    harness.run();
    harness.advance_secs(6);
    harness.advance_secs(1);
    answer_all(&mut harness, SendOutcome::Accepted);
    assert_eq!(kinds(&harness, 0), [AttemptKind::Fill]);
    harness.blocks = Some((1, Vec::new()));
    missing(&mut harness, final_count(1));
    assert_eq!(harness.protect_code(), Some("foreign_transaction"));
    harness.hold.insert(Hold::Commit);
    harness.command(resync(LostRule::Requeue));
    harness.commit_done(true);
    assert_eq!(harness.protect_code(), None, "{:?}", harness.result());
    harness.crash();
    missing(&mut harness, final_count(1));
    assert_eq!(harness.protect_code(), None);
}
