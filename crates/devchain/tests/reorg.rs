//! Reorgs: dropped and remined transactions, and the events for subscribers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use alloy_primitives::{B256, U256};
use gapless_devchain::{BlockSelector, ChainError, ChainEvent, DevChain, Remine};
use support::*;

/// Mines three blocks with one transfer of alice each. Returns the transaction hashes, oldest first.
fn with_blocks(chain: &DevChain) -> Vec<B256> {
    (0..3)
        .map(|nonce| {
            let hash = send(chain, &alice().sign(transfer(nonce)).unwrap());
            chain.mine(0).unwrap();
            hash
        })
        .collect()
}

fn nonces(chain: &DevChain) -> (u64, u64) {
    let view = chain.view();
    (
        view.nonce(alice().address, BlockSelector::Latest).unwrap(),
        view.nonce(alice().address, BlockSelector::Pending).unwrap(),
    )
}

#[test]
fn remine_same_puts_transactions_in_new_blocks() {
    let chain = chain();
    let txs = with_blocks(&chain);
    let old: Vec<_> = txs.iter().map(|tx| chain.view().receipt(*tx).unwrap().block).collect();
    let head = chain.reorg(2, Remine::Same).unwrap();
    assert_eq!(head.number(), 4, "the longer chain wins");
    let new: Vec<_> = txs.iter().map(|tx| chain.view().receipt(*tx).unwrap().block).collect();
    assert_eq!(new[0].hash, old[0].hash);
    for index in [1, 2] {
        assert_eq!(new[index].number(), old[index].number());
        assert_ne!(new[index].hash, old[index].hash);
        assert_eq!(new[index].header.transactions_root, old[index].header.transactions_root);
        assert_eq!(new[index].header.parent_hash, new[index - 1].hash);
    }
    assert_eq!(nonces(&chain), (3, 3));
    assert_eq!(chain.view().balance(unfunded_account(), BlockSelector::Latest), Ok(U256::from(3)));
    // An orphan is still readable by its hash, as in geth, and only by its hash.
    assert_eq!(chain.view().block(BlockSelector::Hash(old[2].hash)).unwrap().number(), 3);
    assert!(chain.view().balance(unfunded_account(), BlockSelector::Hash(old[2].hash)).is_err());
}

#[test]
fn remine_to_pool_returns_transactions_to_pool() {
    let chain = chain();
    let txs = with_blocks(&chain);
    send(&chain, &alice().sign(transfer(3)).unwrap());
    chain.reorg(2, Remine::ToPool).unwrap();
    assert!(chain.view().receipt(txs[0]).is_some());
    assert!(chain.view().receipt(txs[1]).is_none());
    assert!(chain.view().transaction(txs[1]).unwrap().mined.is_none());
    assert_eq!(nonces(&chain), (1, 4));
    let block = chain.mine(0).unwrap();
    assert_eq!(block.txs.iter().map(|tx| tx.nonce()).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn remine_drop_removes_transactions_and_queues_later() {
    let chain = chain();
    let txs = with_blocks(&chain);
    send(&chain, &alice().sign(transfer(3)).unwrap());
    chain.reorg(2, Remine::Drop).unwrap();
    for tx in &txs[1..] {
        assert!(chain.view().transaction(*tx).is_none());
    }
    assert_eq!(nonces(&chain), (1, 1));
    assert_eq!(chain.view().pool_status().queued, 1);
    assert_eq!(chain.view().balance(unfunded_account(), BlockSelector::Latest), Ok(U256::from(1)));
    // Dropped transactions can be sent again with the same bytes.
    for nonce in 1..3 {
        send(&chain, &alice().sign(transfer(nonce)).unwrap());
    }
    assert_eq!(chain.mine(0).unwrap().txs.len(), 3);
}

#[test]
fn remine_shuffle_keeps_all_in_nonce_order() {
    let chain = chain();
    for nonce in 0..10 {
        for account in [alice(), bob(), carol()] {
            send(&chain, &account.sign(transfer(nonce)).unwrap());
        }
        chain.mine(0).unwrap();
    }
    let before: Vec<usize> =
        (1..=10).map(|number| chain.view().block(BlockSelector::Number(number)).unwrap().txs.len()).collect();
    chain.reorg(8, Remine::Shuffle).unwrap();
    let after: Vec<usize> =
        (1..=10).map(|number| chain.view().block(BlockSelector::Number(number)).unwrap().txs.len()).collect();
    assert_ne!(before, after);
    assert_eq!(after.iter().sum::<usize>(), 30);
    for account in [alice(), bob(), carol()] {
        assert_eq!(chain.view().nonce(account.address, BlockSelector::Latest), Ok(10));
    }
}

#[test]
fn reorg_publishes_removed_then_new_heads() {
    let chain = chain();
    with_blocks(&chain);
    let mut events = chain.subscribe();
    chain.reorg(2, Remine::Same).unwrap();
    let mut heads = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event {
            ChainEvent::Removed(block) => heads.push(format!("-{}", block.number())),
            ChainEvent::NewHead(block) => heads.push(format!("+{}", block.number())),
            ChainEvent::Pending(_) => {}
        }
    }
    assert_eq!(heads, ["-3", "-2", "+2", "+3", "+4"]);
}

#[test]
fn reorg_below_genesis_is_refused() {
    let chain = chain();
    with_blocks(&chain);
    let error = chain.reorg(4, Remine::Same).unwrap_err();
    assert!(matches!(error, ChainError::TooDeep { depth: 4, possible: 3 }), "{error}");
    assert_eq!(chain.view().head().number(), 3);
    chain.reorg(3, Remine::Drop).unwrap();
    assert_eq!(nonces(&chain), (0, 0));
}

#[test]
fn revert_returns_transactions_to_pool() {
    let chain = chain();
    with_blocks(&chain);
    assert_eq!(chain.revert_to(1).unwrap().number(), 1);
    assert_eq!(nonces(&chain), (1, 3));
    assert!(matches!(chain.revert_to(9), Err(ChainError::NoSuchBlock(9))));
}

#[test]
fn reset_restores_genesis() {
    let chain = chain();
    let genesis = chain.view().head().hash;
    let txs = with_blocks(&chain);
    let old = chain.view().receipt(txs[0]).unwrap().block.hash;
    send(&chain, &alice().sign(transfer(3)).unwrap());
    chain.reset().unwrap();
    assert_eq!(chain.view().head().hash, genesis);
    assert_eq!(nonces(&chain), (0, 0));
    assert!(chain.view().transaction(txs[0]).is_none());
    // Blocks after the reset have other hashes, even with the same transactions.
    let again = with_blocks(&chain);
    assert_eq!(txs, again);
    assert_ne!(chain.view().receipt(txs[0]).unwrap().block.hash, old);
}
