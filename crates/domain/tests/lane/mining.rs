//! What the chain shows.

use gapless_domain::{Execution, Fact, Progress, SendOutcome, Sighting, StateName};

use crate::bench::{Bench, block, finalized, fork, mined, window};

fn tracked() -> Bench {
    let mut bench = Bench::busy(window(1), 1);
    bench.answer(SendOutcome::Accepted);
    bench
}

fn progress(bench: &Bench) -> Progress {
    bench.ledger.txs[&1].state.bound().unwrap().progress.clone()
}

#[test]
fn final_and_not_before_it_is_confirmed_and_the_slot_is_closed() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    assert_eq!(bench.state(1), StateName::Tracking);
    bench.see(finalized(hash, block(3)));
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.ledger.cursor.as_ref().unwrap().open_nonce.get(), 1);
    assert_eq!(bench.unwatched, [hash]);
}

#[test]
fn a_revert_is_told_when_it_is_final() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    let Sighting::Mined(mut reverted) = mined(hash, block(3)) else { panic!() };
    reverted.execution = Execution::Reverted { reason: None, data: gapless_domain::Bytes::new() };
    bench.see(Sighting::Mined(reverted));
    assert_eq!(bench.state(1), StateName::Tracking);
    bench.see(finalized(hash, block(3)));
    assert_eq!(bench.state(1), StateName::FailedFinal);
}

/// proves R05
#[test]
fn orphaned_it_goes_back_is_sent_again_and_ends_where_it_is_mined_next() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    bench.see(Sighting::Unmined { hash, block: block(3) });
    assert_eq!(bench.state(1), StateName::Tracking);
    assert_eq!(progress(&bench), Progress::Pending);
    assert_eq!(bench.answer(SendOutcome::Accepted)[0].tx.hash, hash);
    bench.see(mined(hash, fork(4, "b")));
    bench.see(finalized(hash, fork(4, "b")));
    let TxEnd { number } = end(&bench);
    assert_eq!((bench.state(1), number), (StateName::Confirmed, 4));
}

struct TxEnd {
    number: u64,
}

fn end(bench: &Bench) -> TxEnd {
    match &bench.ledger.txs[&1].state {
        gapless_domain::TxState::Confirmed(settled) => TxEnd { number: settled.inclusion.block.number },
        other => panic!("{other:?}"),
    }
}

/// Mined in another block is told without the orphan, too.
#[test]
fn the_newest_block_counts() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    bench.see(mined(hash, fork(3, "b")));
    bench.see(Sighting::Unmined { hash, block: block(3) });
    assert!(matches!(progress(&bench), Progress::Mined(mined) if mined.inclusion.block == fork(3, "b")));
    bench.see(finalized(hash, fork(3, "b")));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// proves S05
#[test]
fn that_nobody_knows_a_hash_changes_nothing() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    let before = bench.ledger.txs[&1].clone();
    for _ in 0..10 {
        bench.see(Sighting::NotFound { hash });
        bench.pass_secs(20);
        if !bench.broadcasts.is_empty() {
            bench.answer(SendOutcome::AlreadyKnown);
        }
    }
    assert_eq!(bench.ledger.txs[&1], before);
    assert_eq!(bench.protect_code(), None);
}

#[test]
fn facts_that_come_twice_are_one() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    let twice = |sighting: Sighting| Fact::Seen(vec![sighting.clone(), sighting]);
    bench.tell(twice(mined(hash, block(3))));
    let version = bench.ledger.txs[&1].version;
    bench.tell(twice(mined(hash, block(3))));
    assert_eq!(bench.ledger.txs[&1].version, version);
    bench.tell(twice(finalized(hash, block(3))));
    bench.tell(twice(finalized(hash, block(3))));
    bench.tell(twice(mined(hash, block(3))));
    assert_eq!(bench.state(1), StateName::Confirmed);
    assert_eq!(bench.ledger.txs[&1].version, version + 1);
}

/// A final block that we did not see it in: what is in there has to be asked, or it would stand still for ever.
#[test]
fn final_elsewhere_is_looked_up() {
    let mut bench = tracked();
    let hash = bench.hash(0, 0);
    bench.see(mined(hash, block(3)));
    bench.watched.clear();
    bench.see(finalized(hash, fork(3, "b")));
    assert_eq!(bench.state(1), StateName::Tracking);
    assert_eq!(bench.looked_up(), [hash]);
    bench.finish(hash, fork(3, "b"));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// Mined without any node ever having said that it took it.
#[test]
fn what_was_never_acknowledged_may_still_be_mined() {
    let mut bench = Bench::busy(window(1), 1);
    let hash = bench.hash(0, 0);
    bench.answer(SendOutcome::Unavailable);
    bench.finish(hash, block(1));
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// Slots end in any order; they are closed in theirs.
#[test]
fn slots_are_closed_from_the_lowest_up() {
    let mut bench = Bench::busy(window(3), 3);
    bench.answer(SendOutcome::Accepted);
    let open = |bench: &Bench| bench.ledger.cursor.as_ref().unwrap().open_nonce.get();
    bench.finish(bench.hash(1, 0), block(1));
    assert_eq!((bench.state(2), open(&bench)), (StateName::Confirmed, 0));
    bench.finish(bench.hash(0, 0), block(1));
    assert_eq!(open(&bench), 2);
    bench.finish(bench.hash(2, 0), block(2));
    assert_eq!(open(&bench), 3);
}

/// What is over is over: a word about it that comes late takes no place in the window.
#[test]
fn a_late_word_about_what_is_over_changes_nothing() {
    let mut bench = Bench::busy(window(2), 2);
    bench.answer(SendOutcome::Accepted);
    let hash = bench.hash(1, 0);
    bench.finish(hash, block(1));
    bench.crash();
    bench.run();
    bench.see(Sighting::NotFound { hash });
    bench.see(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(bench.lane.in_flight(), 1);
    assert_eq!(bench.state(2), StateName::Confirmed);
}
