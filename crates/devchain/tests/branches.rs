//! Endpoints that show an orphaned branch.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use alloy_primitives::{B256, Bytes, TxKind, U256};
use gapless_devchain::{BlockSelector, CallRequest, ChainEvent, DevChain, Remine, View};
use support::*;

/// Mines blocks 1 to 3 with one transfer of alice each. Returns the transaction hashes.
fn with_blocks(chain: &DevChain) -> Vec<B256> {
    (0..3)
        .map(|nonce| {
            let hash = send(chain, &alice().sign(transfer(nonce)).unwrap());
            chain.mine(0).unwrap();
            hash
        })
        .collect()
}

fn nonce(view: &View, at: BlockSelector) -> u64 {
    view.nonce(alice().address, at).unwrap()
}

#[test]
fn stuck_head_stays_while_chain_advances() {
    let chain = chain();
    let txs = with_blocks(&chain);
    let node = chain.endpoint("stuck");
    node.freeze_head(true);
    let head = chain.view().head();
    send(&chain, &alice().sign(transfer(3)).unwrap());
    let next = chain.mine(0).unwrap();
    assert_eq!(node.view().head().hash, head.hash);
    assert_eq!(nonce(&node.view(), BlockSelector::Latest), 3);
    assert!(node.view().block(BlockSelector::Number(4)).is_none());
    assert!(node.view().block(BlockSelector::Hash(next.hash)).is_none());
    assert!(node.view().receipt(txs[2]).is_some());
    assert!(node.visible_event(ChainEvent::NewHead(next)).is_none(), "its subscribers get no event");
    node.freeze_head(false);
    assert_eq!(node.view().head().number(), 4);
}

#[test]
fn stuck_head_stays_when_its_block_is_orphaned() {
    let chain = chain();
    let txs = with_blocks(&chain);
    let node = chain.endpoint("stuck");
    node.freeze_head(true);
    let (head, below) = (chain.view().head(), chain.view().block(BlockSelector::Number(2)).unwrap());
    let new_head = chain.reorg(2, Remine::Drop).unwrap();
    let view = node.view();
    assert_eq!((view.head().hash, view.block(BlockSelector::Number(2)).unwrap().hash), (head.hash, below.hash));
    assert_eq!(view.receipt(txs[2]).unwrap().block.hash, head.hash);
    assert_eq!(view.transaction(txs[2]).unwrap().mined.unwrap().block.hash, head.hash);
    assert!(view.block(BlockSelector::Hash(new_head.header.parent_hash)).is_none(), "the new branch is not visible");
    // The state is that of the branch, at each of its blocks.
    let at =
        [BlockSelector::Number(1), BlockSelector::Number(2), BlockSelector::Latest, BlockSelector::Hash(below.hash)];
    assert_eq!(at.map(|at| nonce(&view, at)), [1, 2, 3, 2]);
    assert_eq!(view.balance(unfunded_account(), BlockSelector::Latest), Ok(U256::from(3)));
    assert_eq!((nonce(&chain.view(), BlockSelector::Latest), chain.view().receipt(txs[2]).is_some()), (1, false));
    assert_eq!(view.fee_history(2, BlockSelector::Latest, &[]).unwrap().oldest_block, 2);
    node.faults().clear();
    assert_eq!(node.view().head().hash, new_head.hash);
}

#[test]
fn call_on_branch_uses_branch_state() {
    let chain = chain();
    let contract = deploy(&chain, alice(), 0, &counter());
    for nonce in 1..3 {
        send(&chain, &alice().sign(invoke(nonce, TxKind::Call(contract), Bytes::new())).unwrap());
        chain.mine(0).unwrap();
    }
    let node = chain.endpoint("stuck");
    node.freeze_head(true);
    chain.reorg(2, Remine::Drop).unwrap();
    let request = CallRequest { to: Some(contract), ..CallRequest::default() };
    let count = |view: View, at| U256::from_be_slice(&view.call(&request, at).unwrap());
    assert_eq!(count(node.view(), BlockSelector::Latest), U256::from(3));
    assert_eq!(count(node.view(), BlockSelector::Number(2)), U256::from(2));
    assert_eq!(count(chain.view(), BlockSelector::Latest), U256::from(1));
    assert_eq!(node.view().storage(contract, U256::ZERO, BlockSelector::Latest), Ok(U256::from(2)));
}

#[test]
fn flipping_endpoint_switches_on_reads_of_latest() {
    let chain = chain();
    let txs = with_blocks(&chain);
    let node = chain.endpoint("torn");
    node.faults().flip_every(1);
    let old = chain.view().head();
    assert_eq!([(); 3].map(|()| node.view().head().hash), [old.hash; 3], "no orphaned branch exists yet");
    node.faults().flip_every(1);
    let new = chain.reorg(1, Remine::Drop).unwrap();
    assert_eq!([(); 4].map(|()| node.view().head().hash), [new.hash, old.hash, new.hash, old.hash]);
    // Other reads use the branch of the last read of `latest`.
    assert_eq!(node.view().receipt(txs[2]).unwrap().block.hash, old.hash);
    assert_eq!(node.view().block(BlockSelector::Number(3)).unwrap().hash, old.hash);
    assert_eq!(nonce(&node.view(), BlockSelector::Latest), 2, "a read of the state at latest also switches branches");
    assert!(node.view().receipt(txs[2]).is_none());
    assert_eq!(node.view().block(BlockSelector::Number(3)).unwrap().hash, new.header.parent_hash);

    node.faults().flip_every(2);
    assert_eq!([(); 5].map(|()| node.view().head().hash), [new.hash, new.hash, old.hash, old.hash, new.hash]);
    node.faults().flip_every(0);
    assert_eq!([(); 3].map(|()| node.view().head().hash), [new.hash; 3]);
    assert_eq!(chain.view().head().hash, new.hash, "the chain itself is not affected");
}

#[test]
fn dropped_branch_is_no_longer_shown() {
    let mut genesis = gapless_devchain::Genesis::dev();
    genesis.limits.orphans = 1;
    let chain = DevChain::new(genesis);
    with_blocks(&chain);
    let node = chain.endpoint("stuck");
    node.freeze_head(true);
    let new = chain.reorg(2, Remine::Drop).unwrap();
    assert_eq!(node.view().head().hash, new.hash);
}
