//! Transactions for reserved nonces that the caller sent without submitting them here.

use gapless_domain::{
    AccountFacts, AttemptKind, Cancellation, CommandKind, Effect, ExternalNoncePolicy, Fact, ScannedTx, SendOutcome,
    Sighting, StateName, TxState,
};

use crate::harness::{Hold, LaneHarness, account, block, foreign_tx, kinds, mined, nonce, window};

use crate::reservations::{HOLD, is_recyclable, is_reserved, release, reserved, use_of};

/// The account's final nonce is `count`, and a scan from block 2 on finds `sent`.
fn blocks_show(harness: &mut LaneHarness, count: u64, sent: Vec<ScannedTx>) {
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(count) };
    harness.blocks = Some((2, sent));
    harness.advance_secs(20);
    for _ in 0..3 {
        harness.advance_secs(1);
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::NonceTooLow);
        }
        let hashes: Vec<_> = harness.ledger.attempts.values().map(|attempt| attempt.hash).collect();
        hashes.into_iter().for_each(|hash| harness.sight(Sighting::NotFound { hash }));
    }
}

/// The nonce was reserved for the caller, so the transaction is not foreign.
///
/// proves N18
#[test]
fn transaction_sent_without_submit_counts_as_submitted() {
    let mut harness = reserved(2, &["a", "b"]);
    let theirs = foreign_tx(0, 9, 20);
    blocks_show(&mut harness, 1, vec![theirs.clone()]);
    assert_eq!((harness.protect_code(), kinds(&harness, 0)), (None, vec![AttemptKind::Original]));
    harness.command(release(0, "a"));
    assert_eq!(harness.result(), (false, "a transaction for nonce 0 was already submitted"));
    harness.crash();
    harness.run();
    harness.finish(theirs.tx.signed.hash, theirs.block);
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
    assert!(is_reserved(&harness, 1));
}

/// proves N18
#[test]
fn transaction_sent_after_release_fills_the_nonce() {
    for filled in [true, false] {
        let mut harness = reserved(1, &["a"]);
        if !filled {
            harness.hold.insert(Hold::Prepare);
        }
        harness.command(release(0, "a"));
        assert_eq!(kinds(&harness, 0).len(), usize::from(filled));
        let theirs = foreign_tx(0, 9, 20);
        blocks_show(&mut harness, 1, vec![theirs.clone()]);
        assert_eq!(harness.protect_code(), None);
        assert!(kinds(&harness, 0).iter().all(|kind| *kind == AttemptKind::Fill));
        let hash = theirs.tx.signed.hash;
        harness.sight(mined(hash, theirs.block));
        harness.crash();
        harness.run();
        assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(0), "the inclusion is not final");
        harness.finish(hash, theirs.block);
        assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
        assert_eq!(harness.ledger.txs[&1].state, TxState::Canceled(Cancellation::Released));
    }
}

/// The reservation ends in the commit that would have explained the transaction.
#[test]
fn transaction_found_at_timeout_is_explained_afterwards() {
    let mut harness = reserved(1, &["a"]);
    harness.hold.insert(Hold::Scan);
    let theirs = foreign_tx(0, 9, 20);
    blocks_show(&mut harness, 1, vec![theirs.clone()]);
    let Some(Effect::Scan(_)) = harness.unanswered.pop() else { panic!() };
    harness.hold.clear();
    harness.now = harness.now.saturating_add(HOLD);
    harness.ledger.now_micros += i64::try_from(HOLD.as_micros()).unwrap();
    let (account, head, sent) = (harness.account, block(100), vec![theirs.clone()]);
    harness.give(Fact::Scanned(Ok(gapless_domain::ScanResult { account, head, oldest: 2, is_whole: true, sent })));
    assert_eq!(harness.ledger.txs[&1].state, TxState::Canceled(Cancellation::Released));
    blocks_show(&mut harness, 1, vec![theirs.clone()]);
    assert_eq!(harness.protect_code(), None);
    harness.finish(theirs.tx.signed.hash, theirs.block);
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
}

/// The account's code consumed the nonce without a transaction. The caller gets another nonce.
///
/// proves N25
#[test]
fn lost_reserved_nonce_is_replaced_by_another() {
    let mut setup = window(3);
    setup.policy.nonce.on_external_nonce = ExternalNoncePolicy::Adopt;
    let mut harness = LaneHarness::new(setup);
    harness.queue(1);
    harness.queue_reservation("a", HOLD);
    harness.run();
    harness.answer(SendOutcome::Accepted);
    harness.command(CommandKind::Pause);
    harness.queue_reservation("b", HOLD);
    harness.sight(mined(harness.hash(0, 0), block(3)));
    harness.account = AccountFacts { final_block: Some(block(50)), ..account(2) };
    harness.blocks = Some((1, Vec::new()));
    harness.advance_secs(20);
    (0..4).for_each(|_| harness.advance_secs(1));
    assert_eq!(harness.nonces()[1], None, "the request is queued again");
    assert_eq!(harness.protect_code(), None);
    harness.crash();
    harness.run();
    harness.command(CommandKind::Resume);
    assert_eq!(harness.nonces(), [Some(0), Some(2), Some(3)]);
    assert!(is_reserved(&harness, 2) && is_reserved(&harness, 3) && !is_recyclable(&harness, 1));
    harness.command(use_of(1, "a", 1));
    assert!(!harness.result().0, "the nonce is lost");
    harness.finish(harness.hash(0, 0), block(3));
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce, nonce(2));
}
