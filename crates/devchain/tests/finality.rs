//! `safe` and `finalized`: the tags follow the head, and move back only with a deeper reorg.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use gapless_devchain::{BlockSelector, ChainError, DevChain, Finality, Remine};
use support::*;

/// The block numbers of `safe` and `finalized`.
fn tags(chain: &DevChain) -> (u64, u64) {
    let number = |at| chain.view().block(at).unwrap().number();
    (number(BlockSelector::Safe), number(BlockSelector::Finalized))
}

fn with_depths(safe: u64, finalized: u64) -> DevChain {
    let chain = chain();
    chain.set_finality(Finality { safe, finalized }).unwrap();
    chain
}

#[test]
fn finality_depths_default_to_ethereum() {
    let chain = chain();
    chain.mine_many(100, 1).unwrap();
    assert_eq!(tags(&chain), (68, 36));
    chain.set_finality(Finality { safe: 1, finalized: 5 }).unwrap();
    assert_eq!(tags(&chain), (99, 95), "the new depths apply without a new block");
    chain.mine(0).unwrap();
    assert_eq!(tags(&chain), (100, 96));
    assert_eq!(chain.finality(), Finality { safe: 1, finalized: 5 });
}

#[test]
fn greater_depth_keeps_tags_until_head_catches_up() {
    let chain = with_depths(1, 2);
    chain.mine_many(10, 1).unwrap();
    chain.set_finality(Finality { safe: 4, finalized: 8 }).unwrap();
    assert_eq!(tags(&chain), (9, 8));
    chain.mine_many(4, 1).unwrap();
    assert_eq!(tags(&chain), (10, 8));
    chain.mine_many(3, 1).unwrap();
    assert_eq!(tags(&chain), (13, 9));
    // A depth that is never reached stalls finality.
    chain.set_finality(Finality { safe: 4, finalized: u64::MAX }).unwrap();
    chain.mine_many(100, 1).unwrap();
    assert_eq!(tags(&chain), (113, 9));
}

#[test]
fn only_deeper_reorg_moves_tags_back() {
    let chain = with_depths(2, 4);
    chain.mine_many(10, 1).unwrap();
    let (safe, finalized) =
        (chain.view().block(BlockSelector::Safe).unwrap(), chain.view().block(BlockSelector::Finalized).unwrap());
    chain.revert_to(9).unwrap();
    assert_eq!(tags(&chain), (8, 6), "the tags stay when the head moves back");
    chain.reorg(1, Remine::Same).unwrap();
    assert_eq!(chain.view().block(BlockSelector::Safe).unwrap().hash, safe.hash);
    // A reorg below `safe`, but not below `finalized`.
    chain.revert_to(7).unwrap();
    assert_eq!(tags(&chain), (7, 6));
    chain.mine_many(2, 1).unwrap();
    assert_ne!(chain.view().block(BlockSelector::Number(8)).unwrap().hash, safe.hash);
    assert_eq!(chain.view().block(BlockSelector::Finalized).unwrap().hash, finalized.hash);
    // A reorg below both: the finalized block is orphaned.
    chain.reorg(4, Remine::Drop).unwrap();
    assert_eq!(chain.view().head().number(), 10);
    assert_eq!(tags(&chain), (8, 6));
    assert_ne!(chain.view().block(BlockSelector::Finalized).unwrap().hash, finalized.hash);
    chain.reset().unwrap();
    assert_eq!(tags(&chain), (0, 0));
    assert_eq!(chain.finality(), Finality { safe: 2, finalized: 4 });
}

#[test]
fn lagging_endpoint_lags_in_finality() {
    let chain = with_depths(1, 3);
    let node = chain.endpoint("behind");
    node.faults().set_lag(4);
    chain.mine_many(10, 1).unwrap();
    let number = |at| node.view().block(at).unwrap().number();
    assert_eq!(
        (number(BlockSelector::Latest), number(BlockSelector::Safe), number(BlockSelector::Finalized)),
        (6, 5, 3)
    );
}

#[test]
fn safe_depth_above_finalized_depth_is_refused() {
    let error = chain().set_finality(Finality { safe: 3, finalized: 2 }).unwrap_err();
    assert!(matches!(error, ChainError::SafeBehindFinalized { safe: 3, finalized: 2 }), "{error}");
}
