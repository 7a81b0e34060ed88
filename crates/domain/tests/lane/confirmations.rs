//! Confirmation notices.

use std::sync::Arc;

use gapless_domain::{
    BlockLink, BlockRef, ChainFacts, ConfirmationNotice, Fact, LaneSetup, ProtectCode, Protection, SendOutcome,
    Sighting, StateName, Tail,
};

use crate::harness::{LaneHarness, block, fork, mined, text, window};

/// The chain from block 1 on. From `forked` on, the blocks belong to branch `b`.
fn tail(upto: u64, forked: u64) -> Tail {
    let at = |number: u64| if number >= forked { fork(number, "b") } else { block(number) };
    let link = |number: u64| BlockLink { block: at(number), parent_hash: at(number - 1).hash };
    Tail::of((1..=upto).map(link)).unwrap()
}

const NEVER: u64 = u64::MAX;

fn heads(harness: &mut LaneHarness, tail: Tail) {
    assert!(harness.lane.follows_heads());
    harness.give(Fact::Chain(Arc::new(ChainFacts { tail, finality_violation: None })));
}

fn mined_at(tail: &Tail, hash: gapless_domain::B256, number: u64) -> Sighting {
    let link = tail.get(number).unwrap();
    match mined(hash, link.block) {
        Sighting::Mined(mined) => Sighting::Mined(gapless_domain::MinedTx { parent_hash: link.parent_hash, ..mined }),
        other => other,
    }
}

fn settled_at(tail: &Tail, hash: gapless_domain::B256, number: u64, required: u32) -> Sighting {
    let block = tail.get(number).unwrap().block;
    Sighting::Final { hash, block, list: tail.list_from(block, required).into() }
}

/// The list of a consumer of the first intent's events, and the notices it received as (new fork, number of blocks).
fn follow(harness: &LaneHarness) -> (Vec<BlockRef>, Vec<(bool, usize)>) {
    let id = harness.ledger.txs[&1].id;
    let mut list = Vec::new();
    let mut kinds = Vec::new();
    for change in harness.commits.iter().flat_map(|commit| commit.changes()).filter(|change| change.tx_id() == id) {
        if let Some(ConfirmationNotice { new_fork, links }) = change.notice() {
            kinds.push((*new_fork, links.len()));
        }
        change.notice().into_iter().for_each(|notice| notice.apply(&mut list));
    }
    (list.iter().map(|link| link.block).collect(), kinds)
}

fn tracked(setup: LaneSetup, intents: u64) -> LaneHarness {
    let mut harness = LaneHarness::with_intents(setup, intents);
    harness.answer(SendOutcome::Accepted);
    harness
}

fn requiring(confirmations: u32, notices: usize) -> LaneSetup {
    let mut setup = window(8);
    setup.policy.confirmations.required = confirmations;
    setup.limits.notices_per_head = notices;
    setup
}

/// proves R03
#[test]
fn notices_extend_the_list_from_inclusion_to_finality() {
    let mut harness = tracked(requiring(5, 100), 1);
    let hash = harness.hash(0, 0);
    harness.sight(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut harness, tail(3, NEVER));
    heads(&mut harness, tail(4, NEVER));
    heads(&mut harness, tail(6, NEVER));
    heads(&mut harness, tail(6, NEVER));
    harness.sight(settled_at(&tail(9, NEVER), hash, 3, 5));
    let (list, kinds) = follow(&harness);
    assert_eq!(kinds, [(true, 1), (false, 1), (false, 2), (false, 1)]);
    assert_eq!(list, (3..=7).map(block).collect::<Vec<_>>());
    assert_eq!(harness.state(1), StateName::Confirmed);
}

/// proves R03
#[test]
fn reorg_of_notified_blocks_makes_a_new_fork_notice() {
    let mut harness = tracked(requiring(9, 100), 1);
    let hash = harness.hash(0, 0);
    harness.sight(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut harness, tail(6, NEVER));
    heads(&mut harness, tail(6, 5));
    let (list, kinds) = follow(&harness);
    assert_eq!(kinds, [(true, 1), (false, 3), (true, 4)]);
    assert_eq!(list, [block(3), block(4), fork(5, "b"), fork(6, "b")]);
}

/// The fork happens while no notice is due. Two heads later the list has the expected length, but other blocks.
///
/// proves R04
#[test]
fn unnotified_fork_is_reported_with_the_next_notice() {
    let mut harness = tracked(requiring(9, 1), 2);
    let (first, second) = (harness.hash(0, 0), harness.hash(1, 0));
    harness.sight(mined_at(&tail(3, NEVER), first, 3));
    harness.sight(mined_at(&tail(3, NEVER), second, 3));
    // One notice per head: the slots take turns.
    heads(&mut harness, tail(5, NEVER));
    heads(&mut harness, tail(6, 5));
    heads(&mut harness, tail(7, 5));
    let (list, kinds) = follow(&harness);
    assert_eq!(kinds, [(true, 1), (false, 2), (true, 5)]);
    assert_eq!(list, [block(3), block(4), fork(5, "b"), fork(6, "b"), fork(7, "b")]);
}

/// proves R04
#[test]
fn fork_before_finality_is_reported_with_the_end() {
    let mut harness = tracked(requiring(4, 100), 1);
    let hash = harness.hash(0, 0);
    harness.sight(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut harness, tail(5, NEVER));
    harness.sight(settled_at(&tail(6, 5), hash, 3, 4));
    let (list, kinds) = follow(&harness);
    assert_eq!(kinds, [(true, 1), (false, 2), (true, 4)]);
    assert_eq!(list, [block(3), block(4), fork(5, "b"), fork(6, "b")]);
}

/// The new owner continues from the last notice in the ledger.
///
/// proves R04
#[test]
fn fork_during_takeover_is_reported() {
    let mut harness = tracked(requiring(9, 100), 1);
    let hash = harness.hash(0, 0);
    harness.sight(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut harness, tail(5, NEVER));
    harness.crash();
    harness.run();
    harness.sight(Sighting::StillMined { hash, block: block(3) });
    heads(&mut harness, tail(5, 4));
    let (list, kinds) = follow(&harness);
    assert_eq!(kinds, [(true, 1), (false, 2), (true, 3)]);
    assert_eq!(list, [block(3), fork(4, "b"), fork(5, "b")]);
}

/// proves R01
#[test]
fn notices_per_head_are_limited() {
    let mut harness = tracked(requiring(99, 3), 8);
    for nonce in 0..8 {
        harness.sight(mined_at(&tail(3, NEVER), harness.hash(nonce, 0), 3));
    }
    for upto in 4..12 {
        let before = harness.commits.iter().map(|commit| commit.changes().len()).sum::<usize>();
        heads(&mut harness, tail(upto, NEVER));
        let after = harness.commits.iter().map(|commit| commit.changes().len()).sum::<usize>();
        assert_eq!(after - before, 3);
    }
}

/// A tail from before the block, or of another branch, makes no notice.
#[test]
fn chain_without_the_block_makes_no_notice() {
    let mut harness = tracked(requiring(9, 100), 1);
    let hash = harness.hash(0, 0);
    harness.sight(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut harness, tail(2, NEVER));
    heads(&mut harness, tail(5, 3));
    assert_eq!(follow(&harness).1, [(true, 1)]);
}

/// proves R09
#[test]
fn finality_violation_protects_lane_and_keeps_ended_state() {
    let mut harness = tracked(requiring(1, 100), 2);
    let hash = harness.hash(0, 0);
    harness.sight(mined_at(&tail(3, NEVER), hash, 3));
    harness.sight(settled_at(&tail(3, NEVER), hash, 3, 1));
    let ended = harness.ledger.txs[&1].clone();
    let finality_violation = Some(Protection { code: ProtectCode::DeepReorg, detail: text("block 3 is gone") });
    harness.give(Fact::Chain(Arc::new(ChainFacts { tail: tail(4, 3), finality_violation })));
    assert_eq!(harness.protect_code(), Some("deep_reorg"));
    assert_eq!(harness.ledger.txs[&1], ended);
    let (_, _, event_text) = harness.commits.last().unwrap().lane_events().last().unwrap();
    assert_eq!(event_text.as_str(), "deep_reorg: block 3 is gone");
    harness.queue(1);
    harness.give(Fact::Woken);
    assert_eq!(harness.state(3), StateName::Queued, "nothing more is bound");
}
