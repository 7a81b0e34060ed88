//! Who is told of confirmations, and how.

use std::sync::Arc;

use gapless_domain::{
    BlockLink, BlockRef, ChainFacts, ConfirmationNotice, Fact, LaneSetup, ProtectCode, Protection, SendOutcome,
    Sighting, StateName, Tail,
};

use crate::bench::{Bench, block, fork, mined, text, window};

/// The chain from block 1 on, on the branch `b` from `forked` on.
fn tail(upto: u64, forked: u64) -> Tail {
    let at = |number: u64| if number >= forked { fork(number, "b") } else { block(number) };
    let link = |number: u64| BlockLink { block: at(number), parent_hash: at(number - 1).hash };
    Tail::of((1..=upto).map(link)).unwrap()
}

const NEVER: u64 = u64::MAX;

fn heads(bench: &mut Bench, tail: Tail) {
    assert!(bench.lane.follows_heads());
    bench.tell(Fact::Chain(Arc::new(ChainFacts { tail, broken: None })));
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

/// What a consumer of the first intent's events has, and the kinds of notices it got.
fn follow(bench: &Bench) -> (Vec<BlockRef>, Vec<(bool, usize)>) {
    let id = bench.ledger.txs[&1].id;
    let mut list = Vec::new();
    let mut kinds = Vec::new();
    for change in bench.commits.iter().flat_map(|commit| commit.changes()).filter(|change| change.tx_id() == id) {
        if let Some(ConfirmationNotice { new_fork, links }) = change.notice() {
            kinds.push((*new_fork, links.len()));
        }
        change.notice().into_iter().for_each(|notice| notice.apply(&mut list));
    }
    (list.iter().map(|link| link.block).collect(), kinds)
}

fn tracked(setup: LaneSetup, intents: u64) -> Bench {
    let mut bench = Bench::busy(setup, intents);
    bench.answer(SendOutcome::Accepted);
    bench
}

fn requiring(confirmations: u32, notices: usize) -> LaneSetup {
    let mut setup = window(8);
    setup.policy.confirmations.required = confirmations;
    setup.limits.notices_per_head = notices;
    setup
}

/// proves R03
#[test]
fn the_first_is_a_new_fork_the_next_are_what_is_new_and_the_last_come_with_the_end() {
    let mut bench = tracked(requiring(5, 100), 1);
    let hash = bench.hash(0, 0);
    bench.see(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut bench, tail(3, NEVER));
    heads(&mut bench, tail(4, NEVER));
    heads(&mut bench, tail(6, NEVER));
    heads(&mut bench, tail(6, NEVER));
    bench.see(settled_at(&tail(9, NEVER), hash, 3, 5));
    let (list, kinds) = follow(&bench);
    assert_eq!(kinds, [(true, 1), (false, 1), (false, 2), (false, 1)]);
    assert_eq!(list, (3..=7).map(block).collect::<Vec<_>>());
    assert_eq!(bench.state(1), StateName::Confirmed);
}

/// proves R03
#[test]
fn when_what_was_told_is_orphaned_the_whole_list_is_told_as_a_new_fork() {
    let mut bench = tracked(requiring(9, 100), 1);
    let hash = bench.hash(0, 0);
    bench.see(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut bench, tail(6, NEVER));
    heads(&mut bench, tail(6, 5));
    let (list, kinds) = follow(&bench);
    assert_eq!(kinds, [(true, 1), (false, 3), (true, 4)]);
    assert_eq!(list, [block(3), block(4), fork(5, "b"), fork(6, "b")]);
}

/// A fork while nothing could be told: two heads later the list fits again by length, and not by its blocks.
///
/// proves R04
#[test]
fn a_fork_that_nobody_was_told_of_is_told_with_the_next_notice() {
    let mut bench = tracked(requiring(9, 1), 2);
    let (first, second) = (bench.hash(0, 0), bench.hash(1, 0));
    bench.see(mined_at(&tail(3, NEVER), first, 3));
    bench.see(mined_at(&tail(3, NEVER), second, 3));
    // One notice a head: they take turns.
    heads(&mut bench, tail(5, NEVER));
    heads(&mut bench, tail(6, 5));
    heads(&mut bench, tail(7, 5));
    let (list, kinds) = follow(&bench);
    assert_eq!(kinds, [(true, 1), (false, 2), (true, 5)]);
    assert_eq!(list, [block(3), block(4), fork(5, "b"), fork(6, "b"), fork(7, "b")]);
}

/// proves R04
#[test]
fn with_nothing_told_between_the_end_still_tells_of_the_fork() {
    let mut bench = tracked(requiring(4, 100), 1);
    let hash = bench.hash(0, 0);
    bench.see(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut bench, tail(5, NEVER));
    bench.see(settled_at(&tail(6, 5), hash, 3, 4));
    let (list, kinds) = follow(&bench);
    assert_eq!(kinds, [(true, 1), (false, 2), (true, 4)]);
    assert_eq!(list, [block(3), block(4), fork(5, "b"), fork(6, "b")]);
}

/// Another owner goes on from what the ledger says was told.
///
/// proves R04
#[test]
fn a_fork_while_the_owner_changed_is_told() {
    let mut bench = tracked(requiring(9, 100), 1);
    let hash = bench.hash(0, 0);
    bench.see(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut bench, tail(5, NEVER));
    bench.crash();
    bench.run();
    bench.see(Sighting::StillMined { hash, block: block(3) });
    heads(&mut bench, tail(5, 4));
    let (list, kinds) = follow(&bench);
    assert_eq!(kinds, [(true, 1), (false, 2), (true, 3)]);
    assert_eq!(list, [block(3), fork(4, "b"), fork(5, "b")]);
}

/// proves R01
#[test]
fn however_many_are_mined_a_head_makes_a_bounded_number_tell() {
    let mut bench = tracked(requiring(99, 3), 8);
    for nonce in 0..8 {
        bench.see(mined_at(&tail(3, NEVER), bench.hash(nonce, 0), 3));
    }
    for upto in 4..12 {
        let before = bench.commits.iter().map(|commit| commit.changes().len()).sum::<usize>();
        heads(&mut bench, tail(upto, NEVER));
        let after = bench.commits.iter().map(|commit| commit.changes().len()).sum::<usize>();
        assert_eq!(after - before, 3);
    }
}

/// A tail from before the block, or of another branch, says nothing about it.
#[test]
fn nothing_is_told_of_a_chain_that_does_not_have_the_block() {
    let mut bench = tracked(requiring(9, 100), 1);
    let hash = bench.hash(0, 0);
    bench.see(mined_at(&tail(3, NEVER), hash, 3));
    heads(&mut bench, tail(2, NEVER));
    heads(&mut bench, tail(5, 3));
    assert_eq!(follow(&bench).1, [(true, 1)]);
}

/// proves R09
#[test]
fn a_chain_that_contradicts_what_was_final_stops_the_lane_and_changes_no_end() {
    let mut bench = tracked(requiring(1, 100), 2);
    let hash = bench.hash(0, 0);
    bench.see(mined_at(&tail(3, NEVER), hash, 3));
    bench.see(settled_at(&tail(3, NEVER), hash, 3, 1));
    let ended = bench.ledger.txs[&1].clone();
    let broken = Some(Protection { code: ProtectCode::DeepReorg, detail: text("block 3 is gone") });
    bench.tell(Fact::Chain(Arc::new(ChainFacts { tail: tail(4, 3), broken })));
    assert_eq!(bench.protect_code(), Some("deep_reorg"));
    assert_eq!(bench.ledger.txs[&1], ended);
    let (_, _, told) = bench.commits.last().unwrap().lane_events().last().unwrap();
    assert_eq!(told.as_str(), "deep_reorg: block 3 is gone");
    bench.queue(1);
    bench.tell(Fact::Woken);
    assert_eq!(bench.state(3), StateName::Queued, "nothing more is bound");
}
