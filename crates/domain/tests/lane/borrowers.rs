//! What borrowers do with a nonce without telling us.

use gapless_domain::{
    AccountFacts, AttemptKind, Cancellation, CommandKind, Effect, Fact, OnChain, ReservationPolicy, SendOutcome,
    Sighting, StateName, TxState,
};

use crate::bench::{Bench, Hold, account, block, kinds, mined, nonce, stranger, window};

use crate::lending::{HOLD, is_lent, is_recyclable, lent, release, use_of};

/// The account has sent so many, finally, and blocks from the second one on show these.
fn blocks_show(bench: &mut Bench, count: u64, sent: Vec<OnChain>) {
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(count) };
    bench.blocks = Some((2, sent));
    bench.pass_secs(20);
    for _ in 0..3 {
        bench.pass_secs(1);
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::NonceTooLow);
        }
        let hashes: Vec<_> = bench.ledger.attempts.values().map(|attempt| attempt.hash).collect();
        hashes.into_iter().for_each(|hash| bench.see(Sighting::NotFound { hash }));
    }
}

/// It was not to do so, but the nonce was its own: no stranger has used it.
///
/// proves N18
#[test]
fn what_a_borrower_has_sent_by_itself_is_its_transaction() {
    let mut bench = lent(2, &["a", "b"]);
    let theirs = stranger(0, 9, 20);
    blocks_show(&mut bench, 1, vec![theirs.clone()]);
    assert_eq!((bench.protect_code(), kinds(&bench, 0)), (None, vec![AttemptKind::Original]));
    bench.command(release(0, "a"));
    assert_eq!(bench.result(), (false, "there is a transaction for nonce 0 already"));
    bench.crash();
    bench.run();
    bench.finish(theirs.tx.signed.hash, theirs.block);
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
    assert!(is_lent(&bench, 1));
}

/// proves N18
#[test]
fn what_comes_after_the_nonce_came_back_fills_it() {
    for filled in [true, false] {
        let mut bench = lent(1, &["a"]);
        if !filled {
            bench.hold.insert(Hold::Prepare);
        }
        bench.command(release(0, "a"));
        assert_eq!(kinds(&bench, 0).len(), usize::from(filled));
        let theirs = stranger(0, 9, 20);
        blocks_show(&mut bench, 1, vec![theirs.clone()]);
        assert_eq!(bench.protect_code(), None);
        assert!(kinds(&bench, 0).iter().all(|kind| *kind == AttemptKind::Fill));
        let hash = theirs.tx.signed.hash;
        bench.see(mined(hash, theirs.block));
        bench.crash();
        bench.run();
        assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(0), "not before it is final");
        bench.finish(hash, theirs.block);
        assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
        assert_eq!(bench.ledger.txs[&1].state, TxState::Canceled(Cancellation::Released));
    }
}

/// It comes back with the very commit that would have explained it.
#[test]
fn what_is_found_when_the_time_is_over_is_explained_once_it_is_back() {
    let mut bench = lent(1, &["a"]);
    bench.hold.insert(Hold::ScanResult);
    let theirs = stranger(0, 9, 20);
    blocks_show(&mut bench, 1, vec![theirs.clone()]);
    let Some(Effect::Scan(_)) = bench.held.pop() else { panic!() };
    bench.hold.clear();
    bench.now = bench.now.saturating_add(HOLD);
    bench.ledger.now_micros += i64::try_from(HOLD.as_micros()).unwrap();
    let (account, head, sent) = (bench.account, block(100), vec![theirs.clone()]);
    bench.tell(Fact::Scanned(Some(gapless_domain::ScanResult { account, head, oldest: 2, is_whole: true, sent })));
    assert_eq!(bench.ledger.txs[&1].state, TxState::Canceled(Cancellation::Released));
    blocks_show(&mut bench, 1, vec![theirs.clone()]);
    assert_eq!(bench.protect_code(), None);
    bench.finish(theirs.tx.signed.hash, theirs.block);
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(1));
}

/// Used up without any transaction, by the account's code: whoever had it is lent another one.
///
/// proves N25
#[test]
fn a_lent_nonce_that_is_gone_is_lent_anew_elsewhere() {
    let mut setup = window(3);
    setup.policy.nonce.on_external_nonce = ReservationPolicy::Adopt;
    let mut bench = Bench::new(setup);
    bench.queue(1);
    bench.queue_external("a", HOLD);
    bench.run();
    bench.answer(SendOutcome::Accepted);
    bench.command(CommandKind::Pause);
    bench.queue_external("b", HOLD);
    bench.see(mined(bench.hash(0, 0), block(3)));
    bench.account = AccountFacts { final_block: Some(block(50)), ..account(2) };
    bench.blocks = Some((1, Vec::new()));
    bench.pass_secs(20);
    (0..4).for_each(|_| bench.pass_secs(1));
    assert_eq!(bench.nonces()[1], None, "it is in line again");
    assert_eq!(bench.protect_code(), None);
    bench.crash();
    bench.run();
    bench.command(CommandKind::Resume);
    assert_eq!(bench.nonces(), [Some(0), Some(2), Some(3)]);
    assert!(is_lent(&bench, 2) && is_lent(&bench, 3) && !is_recyclable(&bench, 1));
    bench.command(use_of(1, "a", 1));
    assert!(!bench.result().0, "the nonce is gone");
    bench.finish(bench.hash(0, 0), block(3));
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce, nonce(2));
}
