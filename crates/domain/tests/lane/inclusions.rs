//! Inclusions, finality and reorgs.

use gapless_domain::{Execution, Fact, Progress, SendOutcome, Sighting, StateName};

use crate::harness::{LaneHarness, block, finalized, fork, mined, window};

fn tracked() -> LaneHarness {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    harness.answer(SendOutcome::Accepted);
    harness
}

fn progress(harness: &LaneHarness) -> Progress {
    harness.ledger.txs[&1].state.bound().unwrap().progress.clone()
}

#[test]
fn intent_is_confirmed_when_its_block_is_final() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    assert_eq!(harness.state(1), StateName::Tracking);
    harness.sight(finalized(hash, block(3)));
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.ledger.cursor.as_ref().unwrap().open_nonce.get(), 1);
    assert_eq!(harness.unwatched, [hash]);
}

#[test]
fn reverted_intent_fails_when_its_block_is_final() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    let Sighting::Mined(mut reverted) = mined(hash, block(3)) else { panic!() };
    reverted.execution = Execution::Reverted { reason: None, data: gapless_domain::Bytes::new() };
    harness.sight(Sighting::Mined(reverted));
    assert_eq!(harness.state(1), StateName::Tracking);
    harness.sight(finalized(hash, block(3)));
    assert_eq!(harness.state(1), StateName::FailedFinal);
}

/// proves R05
#[test]
fn orphaned_intent_is_sent_again_and_ends_in_new_block() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    harness.sight(Sighting::Unmined { hash, block: block(3) });
    assert_eq!(harness.state(1), StateName::Tracking);
    assert_eq!(progress(&harness), Progress::Pending);
    assert_eq!(harness.answer(SendOutcome::Accepted)[0].tx.hash, hash);
    harness.sight(mined(hash, fork(4, "b")));
    harness.sight(finalized(hash, fork(4, "b")));
    let TxEnd { number } = end(&harness);
    assert_eq!((harness.state(1), number), (StateName::Confirmed, 4));
}

struct TxEnd {
    number: u64,
}

fn end(harness: &LaneHarness) -> TxEnd {
    match &harness.ledger.txs[&1].state {
        gapless_domain::TxState::Confirmed(settled) => TxEnd { number: settled.inclusion.block.number },
        other => panic!("{other:?}"),
    }
}

/// The new inclusion is reported before the old block is reported as orphaned.
#[test]
fn newest_inclusion_counts() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    harness.sight(mined(hash, fork(3, "b")));
    harness.sight(Sighting::Unmined { hash, block: block(3) });
    assert!(matches!(progress(&harness), Progress::Mined(mined) if mined.inclusion.block == fork(3, "b")));
    harness.sight(finalized(hash, fork(3, "b")));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// proves S05
#[test]
fn unknown_hash_changes_nothing() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    let before = harness.ledger.txs[&1].clone();
    for _ in 0..10 {
        harness.sight(Sighting::NotFound { hash });
        harness.advance_secs(20);
        if !harness.broadcasts.is_empty() {
            harness.answer(SendOutcome::AlreadyKnown);
        }
    }
    assert_eq!(harness.ledger.txs[&1], before);
    assert_eq!(harness.protect_code(), None);
}

#[test]
fn repeated_sightings_change_nothing() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    let twice = |sighting: Sighting| Fact::Sightings(vec![sighting.clone(), sighting]);
    harness.give(twice(mined(hash, block(3))));
    let version = harness.ledger.txs[&1].version;
    harness.give(twice(mined(hash, block(3))));
    assert_eq!(harness.ledger.txs[&1].version, version);
    harness.give(twice(finalized(hash, block(3))));
    harness.give(twice(finalized(hash, block(3))));
    harness.give(twice(mined(hash, block(3))));
    assert_eq!(harness.state(1), StateName::Confirmed);
    assert_eq!(harness.ledger.txs[&1].version, version + 1);
}

/// The final block is not the known one. The transaction must be looked up there, or the intent would never end.
#[test]
fn finality_in_another_block_triggers_a_lookup() {
    let mut harness = tracked();
    let hash = harness.hash(0, 0);
    harness.sight(mined(hash, block(3)));
    harness.watched.clear();
    harness.sight(finalized(hash, fork(3, "b")));
    assert_eq!(harness.state(1), StateName::Tracking);
    assert_eq!(harness.looked_up(), [hash]);
    harness.finish(hash, fork(3, "b"));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// No node has acknowledged the transaction.
#[test]
fn unacknowledged_intent_may_be_mined() {
    let mut harness = LaneHarness::with_intents(window(1), 1);
    let hash = harness.hash(0, 0);
    harness.answer(SendOutcome::Unavailable);
    harness.finish(hash, block(1));
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// Slots end in any order, but are closed in nonce order.
#[test]
fn slots_are_closed_from_the_lowest_up() {
    let mut harness = LaneHarness::with_intents(window(3), 3);
    harness.answer(SendOutcome::Accepted);
    let open = |harness: &LaneHarness| harness.ledger.cursor.as_ref().unwrap().open_nonce.get();
    harness.finish(harness.hash(1, 0), block(1));
    assert_eq!((harness.state(2), open(&harness)), (StateName::Confirmed, 0));
    harness.finish(harness.hash(0, 0), block(1));
    assert_eq!(open(&harness), 2);
    harness.finish(harness.hash(2, 0), block(2));
    assert_eq!(open(&harness), 3);
}

/// A late sighting of an ended slot takes no space in the window.
#[test]
fn late_sighting_of_ended_slot_changes_nothing() {
    let mut harness = LaneHarness::with_intents(window(2), 2);
    harness.answer(SendOutcome::Accepted);
    let hash = harness.hash(1, 0);
    harness.finish(hash, block(1));
    harness.crash();
    harness.run();
    harness.sight(Sighting::NotFound { hash });
    harness.sight(Sighting::Unmined { hash, block: block(1) });
    assert_eq!(harness.lane.in_flight(), 1);
    assert_eq!(harness.state(2), StateName::Confirmed);
}
