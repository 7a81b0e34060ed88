//! Traces of mined transactions, and calls at older blocks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use alloy_consensus::TxEip1559;
use alloy_primitives::{B256, Bytes, TxKind, U256};
use gapless_devchain::{BlockSelector, CallRequest, DevChain, Genesis, ReadError, TopCall};
use support::*;

fn top_call(chain: &DevChain, tx: B256) -> TopCall {
    chain.view().top_call(tx).unwrap()
}

#[test]
fn trace_uses_state_before_transaction() {
    let chain = chain();
    let contract = deploy(&chain, alice(), 0, &counter());
    let call = |nonce| invoke(nonce, TxKind::Call(contract), Bytes::new());
    // Three transactions of two accounts in one block, and one in the next.
    let txs =
        [alice().sign(call(1)), bob().sign(call(0)), alice().sign(call(2))].map(|raw| send(&chain, &raw.unwrap()));
    let block = chain.mine(0).unwrap();
    let later = send(&chain, &alice().sign(call(3)).unwrap());
    chain.mine(0).unwrap();
    assert_eq!(block.txs.len(), 3);
    for (index, tx) in block.txs.iter().enumerate() {
        let traced = top_call(&chain, tx.hash);
        assert_eq!(
            U256::from_be_slice(&traced.output),
            U256::from(index + 1),
            "the trace sees the counter before the transaction"
        );
        assert_eq!(traced.gas_used, block.receipts[index].gas_used);
        assert_eq!((traced.from, traced.to, traced.gas), (tx.from, Some(contract), 1_000_000));
        assert_eq!((traced.error, traced.creates), (None, false));
    }
    assert!(txs.iter().all(|tx| chain.view().receipt(*tx).is_some()));
    assert_eq!(U256::from_be_slice(&top_call(&chain, later).output), U256::from(4));
    assert_eq!(
        chain.view().storage(contract, U256::ZERO, BlockSelector::Latest),
        Ok(U256::from(4)),
        "a trace does not change the state"
    );
}

#[test]
fn trace_includes_only_edits_before_the_block() {
    let chain = chain();
    let contract = deploy(&chain, alice(), 0, &counter());
    chain.set_storage(contract, U256::ZERO, U256::from(10)).unwrap();
    let tx = send(&chain, &alice().sign(invoke(1, TxKind::Call(contract), Bytes::new())).unwrap());
    chain.mine(0).unwrap();
    chain.set_storage(contract, U256::ZERO, U256::from(99)).unwrap();
    assert_eq!(U256::from_be_slice(&top_call(&chain, tx).output), U256::from(11));
}

#[test]
fn failed_transaction_trace_has_reason() {
    let chain = chain();
    let reverts = deploy(&chain, alice(), 0, &reverter());
    let loops = deploy(&chain, alice(), 1, &[0x5b, 0x60, 0x00, 0x56]);
    let reverted = send(&chain, &alice().sign(invoke(2, TxKind::Call(reverts), Bytes::new())).unwrap());
    let exhausted = send(&chain, &alice().sign(invoke(3, TxKind::Call(loops), Bytes::new())).unwrap());
    // A contract creation whose init code is the reverter.
    let unmade = send(&chain, &alice().sign(invoke(4, TxKind::Create, reverter().into())).unwrap());
    chain.mine(0).unwrap();
    let traced = top_call(&chain, reverted);
    assert_eq!(traced.error.as_deref(), Some("execution reverted"));
    assert_eq!(traced.revert_reason.as_deref(), Some("nope"));
    assert_eq!(traced.output[..4], [0x08, 0xc3, 0x79, 0xa0]);
    let traced = top_call(&chain, exhausted);
    assert_eq!((traced.error.as_deref(), traced.gas_used), (Some("out of gas"), traced.gas));
    assert_eq!((traced.output.len(), traced.revert_reason), (0, None));
    let traced = top_call(&chain, unmade);
    assert_eq!((traced.creates, traced.to, traced.revert_reason.as_deref()), (true, None, Some("nope")));
}

#[test]
fn trace_has_created_contract_and_value() {
    let chain = chain();
    let made = send(&chain, &alice().sign(invoke(0, TxKind::Create, deployer(&counter()))).unwrap());
    let paid = send(&chain, &alice().sign(TxEip1559 { value: U256::from(5), ..transfer(1) }).unwrap());
    chain.mine(0).unwrap();
    let traced = top_call(&chain, made);
    assert_eq!((traced.creates, traced.to), (true, Some(alice().address.create(0))));
    assert_eq!(traced.output, counter(), "the output of a creation is the contract's code");
    let traced = top_call(&chain, paid);
    assert_eq!((traced.value, traced.gas_used, traced.output.len()), (U256::from(5), TRANSFER_GAS, 0));
}

#[test]
fn unmined_or_old_transaction_has_no_trace() {
    let mut genesis = Genesis::dev();
    genesis.limits.history_blocks = 3;
    let chain = DevChain::new(genesis);
    let tx = send(&chain, &alice().sign(transfer(0)).unwrap());
    assert_eq!(chain.view().top_call(tx), Err(ReadError::UnknownTx));
    chain.mine(0).unwrap();
    chain.mine_many(1, 1).unwrap();
    assert!(chain.view().top_call(tx).is_ok());
    chain.mine_many(1, 1).unwrap();
    assert_eq!(
        chain.view().top_call(tx),
        Err(ReadError::NoStateToTrace),
        "the block is kept, but the state of its parent is not"
    );
}

#[test]
fn call_at_block_sees_its_state() {
    let chain = chain();
    let contract = deploy(&chain, alice(), 0, &counter());
    for nonce in 1..4 {
        send(&chain, &alice().sign(invoke(nonce, TxKind::Call(contract), Bytes::new())).unwrap());
        chain.mine(0).unwrap();
    }
    let request = CallRequest { to: Some(contract), ..CallRequest::default() };
    let count = |at| U256::from_be_slice(&chain.view().call(&request, at).unwrap());
    for number in 1..=4 {
        let hash = chain.view().block(BlockSelector::Number(number)).unwrap().hash;
        assert_eq!([count(BlockSelector::Number(number)), count(BlockSelector::Hash(hash))], [U256::from(number); 2]);
    }
    assert!(
        chain.view().call(&request, BlockSelector::Number(0)).unwrap().is_empty(),
        "the contract does not exist in block 0"
    );
}
