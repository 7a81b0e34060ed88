//! Results of transactions in blocks, and reads of blocks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use std::sync::Arc;

use alloy_consensus::TxEip1559;
use alloy_eips::eip7702::Authorization;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex, keccak256};
use gapless_devchain::{
    Block, BlockSelector, CallError, CallRequest, DEV_ACCOUNTS, DevChain, GWEI, Genesis, LogBlocks, LogFilter,
    ReadError, ether,
};
use support::*;

fn word(number: u64) -> Bytes {
    B256::from(U256::from(number)).to_vec().into()
}

#[test]
fn transfer_moves_value_pays_tip_and_burns_base_fee() {
    let mut genesis = Genesis::dev();
    genesis.coinbase = Address::repeat_byte(0xcc);
    let chain = DevChain::new(genesis);
    let hash = send(&chain, &alice().sign(TxEip1559 { value: ether(1), ..transfer(0) }).unwrap());
    let block = chain.mine(0).unwrap();
    let view = chain.view();
    let mined = view.receipt(hash).unwrap();
    let receipt = mined.receipt().unwrap();
    assert!(receipt.success);
    assert_eq!((receipt.gas_used, block.header.gas_used), (TRANSFER_GAS, TRANSFER_GAS));
    let price = u128::from(block.base_fee()) + GWEI;
    assert_eq!(receipt.effective_gas_price, price);
    let fee = U256::from(price) * U256::from(TRANSFER_GAS);
    assert_eq!(view.balance(unfunded_account(), BlockSelector::Latest), Ok(ether(1)));
    assert_eq!(view.balance(alice().address, BlockSelector::Latest), Ok(ether(10_000) - ether(1) - fee));
    assert_eq!(
        view.balance(block.header.beneficiary, BlockSelector::Latest),
        Ok(U256::from(GWEI) * U256::from(TRANSFER_GAS))
    );
    assert_eq!(view.nonce(alice().address, BlockSelector::Latest), Ok(1));
    // The state of the previous block is unchanged.
    assert_eq!(view.balance(alice().address, BlockSelector::Number(0)), Ok(ether(10_000)));
    assert_eq!(view.balance(unfunded_account(), BlockSelector::Earliest), Ok(U256::ZERO));
    assert_eq!(view.nonce(alice().address, BlockSelector::Hash(block.header.parent_hash)), Ok(0));
}

#[test]
fn every_transaction_type_is_mined() {
    let chain = chain();
    send(&chain, &alice().sign(legacy(0)).unwrap());
    send(&chain, &alice().sign(with_access_list(1, Default::default())).unwrap());
    send(&chain, &alice().sign(transfer(2)).unwrap());
    send(
        &chain,
        &alice().sign(set_code(3, unfunded_account(), vec![authorization(bob(), unfunded_account(), 0)])).unwrap(),
    );
    let block = chain.mine(0).unwrap();
    assert_eq!(block.txs.iter().map(|tx| tx.ty()).collect::<Vec<_>>(), [0, 1, 2, 4]);
    assert!(block.receipts.iter().all(|receipt| receipt.success));
    assert_eq!(block.receipts[3].cumulative_gas_used, block.header.gas_used);
}

#[test]
fn headers_are_valid_and_linked() {
    let chain = chain();
    let genesis = chain.view().head();
    send(&chain, &alice().sign(transfer(0)).unwrap());
    let first = chain.mine(genesis.timestamp() + 12).unwrap();
    let second = chain.mine(0).unwrap();
    for block in [&genesis, &first, &second] {
        assert_eq!(block.hash, keccak256(alloy_rlp::encode(&block.header)));
    }
    assert_eq!(first.header.parent_hash, genesis.hash);
    assert_eq!(second.header.parent_hash, first.hash);
    assert_eq!(first.timestamp(), genesis.timestamp() + 12);
    assert_eq!(second.timestamp(), first.timestamp() + 1, "the timestamp always increases");
    assert_ne!(first.header.transactions_root, second.header.transactions_root);
    assert_ne!(first.header.state_root, genesis.header.state_root);
}

#[test]
fn base_fee_follows_eip_1559() {
    // Parent base fee, gas limit, gas used, base fee: the test vectors of geth and EIP-1559.
    let vectors = [
        (1_000_000_000_u64, 20_000_000_u64, 10_000_000_u64, 1_000_000_000_u64),
        (1_000_000_000, 20_000_000, 9_000_000, 987_500_000),
        (1_000_000_000, 20_000_000, 11_000_000, 1_012_500_000),
    ];
    for (base_fee, gas_limit, gas_used, expected) in vectors {
        // Burns a chosen amount of gas: data of a chosen length to an unused account, at its floor price.
        let mut genesis = Genesis::dev();
        (genesis.base_fee, genesis.gas_limit) = (base_fee, gas_limit);
        let chain = DevChain::new(genesis);
        // An account whose code is INVALID burns all of the gas.
        chain.set_code(unfunded_account(), Bytes::from_static(&[0xfe])).unwrap();
        let tx = TxEip1559 { gas_limit: gas_used, max_fee_per_gas: 50 * GWEI, ..transfer(0) };
        send(&chain, &alice().sign(tx).unwrap());
        chain.set_next_base_fee(base_fee);
        let block = chain.mine(0).unwrap();
        assert_eq!((block.header.gas_used, block.base_fee()), (gas_used, base_fee));
        assert_eq!(chain.view().next_base_fee(), expected);
        assert_eq!(chain.mine(0).unwrap().base_fee(), expected);
    }
}

#[test]
fn contract_creation_and_call_emit_logs() {
    let chain = chain();
    let address = deploy(&chain, alice(), 0, &counter());
    let view = chain.view();
    assert_eq!(address, alice().address.create(0));
    assert_eq!(view.code(address, BlockSelector::Latest).unwrap(), Bytes::from(counter()));
    assert!(view.code(address, BlockSelector::Number(0)).unwrap().is_empty());
    let mut blocks = Vec::new();
    for nonce in 1..=3 {
        send(&chain, &alice().sign(invoke(nonce, TxKind::Call(address), Bytes::new())).unwrap());
        blocks.push(chain.mine(0).unwrap());
    }
    assert_eq!(view.storage(address, U256::ZERO, BlockSelector::Latest), Ok(U256::from(3)));
    assert_eq!(view.storage(address, U256::ZERO, BlockSelector::Hash(blocks[0].hash)), Ok(U256::from(1)));
    let log = &blocks[1].receipts[0].logs[0];
    assert_eq!((log.address, log.data.data.clone()), (address, word(2)));
    assert_eq!(log.topics(), [B256::from(U256::from(7))]);
    assert!(blocks[1].header.logs_bloom.contains_raw_log(address, log.topics()));

    let filter =
        |from, to, topics| LogFilter { blocks: LogBlocks::Range { from, to }, addresses: vec![address], topics };
    let seven = vec![vec![B256::from(U256::from(7))]];
    let found = view.logs(&filter(BlockSelector::Earliest, BlockSelector::Latest, seven.clone())).unwrap();
    assert_eq!(found.iter().map(|entry| entry.block_number).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(view.logs(&filter(BlockSelector::Number(3), BlockSelector::Number(99), seven)).unwrap().len(), 2);
    assert!(
        view.logs(&filter(BlockSelector::Earliest, BlockSelector::Latest, vec![vec![B256::ZERO]])).unwrap().is_empty()
    );
    assert_eq!(
        view.logs(&filter(BlockSelector::Number(3), BlockSelector::Number(2), Vec::new())),
        Err(ReadError::InvalidRange)
    );
}

#[test]
fn revert_uses_gas_and_changes_no_state() {
    let chain = chain();
    let address = deploy(&chain, alice(), 0, &reverter());
    let tx = TxEip1559 { value: U256::from(5), ..invoke(1, TxKind::Call(address), Bytes::new()) };
    send(&chain, &alice().sign(tx).unwrap());
    let block = chain.mine(0).unwrap();
    let receipt = &block.receipts[0];
    assert!(!receipt.success);
    assert!(receipt.logs.is_empty());
    assert!((TRANSFER_GAS..1_000_000).contains(&receipt.gas_used), "{}", receipt.gas_used);
    assert_eq!(chain.view().balance(address, BlockSelector::Latest), Ok(U256::ZERO));
    assert_eq!(chain.view().nonce(alice().address, BlockSelector::Latest), Ok(2));
}

#[test]
fn out_of_gas_uses_all_gas() {
    let chain = chain();
    // JUMPDEST, PUSH1 0, JUMP: an endless loop.
    let address = deploy(&chain, alice(), 0, &hex!("5b600056"));
    send(&chain, &alice().sign(invoke(1, TxKind::Call(address), Bytes::new())).unwrap());
    let receipt = chain.mine(0).unwrap().receipts[0].clone();
    assert_eq!((receipt.success, receipt.gas_used), (false, 1_000_000));
}

#[test]
fn call_reads_block_state_and_changes_nothing() {
    let chain = chain();
    let address = deploy(&chain, alice(), 0, &counter());
    let request = CallRequest { to: Some(address), ..CallRequest::default() };
    let view = chain.view();
    assert_eq!(view.call(&request, BlockSelector::Latest), Ok(word(1)));
    assert_eq!(view.call(&request, BlockSelector::Latest), Ok(word(1)));
    send(&chain, &alice().sign(invoke(1, TxKind::Call(address), Bytes::new())).unwrap());
    assert_eq!(view.call(&request, BlockSelector::Pending), Ok(word(2)), "the pending state includes the pool");
    assert_eq!(view.storage(address, U256::ZERO, BlockSelector::Pending), Ok(U256::from(1)));
    chain.mine(0).unwrap();
    assert_eq!(view.call(&request, BlockSelector::Latest), Ok(word(2)));
    assert_eq!(view.call(&request, BlockSelector::Number(1)), Ok(word(1)));
    assert_eq!(view.call(&request, BlockSelector::Number(9)), Err(CallError::Read(ReadError::UnknownBlock)));
}

#[test]
fn failed_call_has_geth_error_text() {
    let chain = chain();
    let reverts = deploy(&chain, alice(), 0, &reverter());
    let invalid = deploy(&chain, alice(), 1, &hex!("fe"));
    let view = chain.view();
    let to = |to| CallRequest { to: Some(to), ..CallRequest::default() };
    for error in [
        view.call(&to(reverts), BlockSelector::Latest).map(drop),
        view.estimate_gas(&to(reverts), BlockSelector::Latest).map(drop),
    ] {
        let error = error.unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (3, "execution reverted: nope"));
        let CallError::Reverted { data, .. } = error else { panic!("{error}") };
        assert_eq!(data[..4], hex!("08c379a0"));
    }
    let error = view.call(&to(invalid), BlockSelector::Latest).unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (-32000, "invalid opcode: INVALID"));
    let broke = CallRequest { from: Some(unfunded_account()), value: U256::from(1), ..to(alice().address) };
    let text = view.call(&broke, BlockSelector::Latest).unwrap_err().to_string();
    let wanted = format!(
        "err: insufficient funds for gas * price + value: address {} have 0 want 1 (supplied gas",
        unfunded_account()
    );
    assert!(text.starts_with(&wanted), "{text}");
}

#[test]
fn gas_estimate_suffices_and_is_close() {
    let chain = chain();
    let address = deploy(&chain, alice(), 0, &counter());
    let view = chain.view();
    let plain = CallRequest {
        from: Some(alice().address),
        to: Some(unfunded_account()),
        value: ether(1),
        ..CallRequest::default()
    };
    assert_eq!(view.estimate_gas(&plain, BlockSelector::Latest), Ok(21_000));
    let call = CallRequest { from: Some(alice().address), to: Some(address), ..CallRequest::default() };
    let estimate = view.estimate_gas(&call, BlockSelector::Latest).unwrap();
    send(
        &chain,
        &alice().sign(TxEip1559 { gas_limit: estimate, ..invoke(1, TxKind::Call(address), Bytes::new()) }).unwrap(),
    );
    let receipt = chain.mine(0).unwrap().receipts[0].clone();
    assert!(receipt.success, "the estimate {estimate} does not suffice");
    assert!(
        estimate < receipt.gas_used + receipt.gas_used / 10,
        "the estimate {estimate} is too far above {}",
        receipt.gas_used
    );
    let endless = deploy(&chain, alice(), 2, &hex!("5b600056"));
    let error = view.estimate_gas(&CallRequest { to: Some(endless), ..call }, BlockSelector::Latest).unwrap_err();
    assert_eq!(error.to_string(), "gas required exceeds allowance (30000000)");
}

#[test]
fn authorization_delegates_and_revokes() {
    let chain = chain();
    let target = deploy(&chain, carol(), 0, &counter());
    send(&chain, &bob().sign(set_code(0, alice().address, vec![authorization(alice(), target, 0)])).unwrap());
    let block = chain.mine(0).unwrap();
    assert!(block.receipts[0].success);
    let view = chain.view();
    assert_eq!(view.code(alice().address, BlockSelector::Latest).unwrap()[..3], hex!("ef0100"));
    assert_eq!(view.nonce(alice().address, BlockSelector::Latest), Ok(1), "an authorization uses a nonce");
    assert_eq!(
        view.storage(alice().address, U256::ZERO, BlockSelector::Latest),
        Ok(U256::from(1)),
        "the code ran on the delegated account"
    );
    // The delegated account can still send.
    send(&chain, &alice().sign(transfer(1)).unwrap());
    assert!(chain.mine(0).unwrap().receipts[0].success);
    // An authorization with an old nonce has no effect, and its transaction still succeeds.
    let stale = alice().authorize(Authorization { chain_id: U256::ZERO, address: Address::ZERO, nonce: 0 }).unwrap();
    send(&chain, &bob().sign(set_code(1, unfunded_account(), vec![stale])).unwrap());
    assert!(chain.mine(0).unwrap().receipts[0].success);
    assert!(!view.code(alice().address, BlockSelector::Latest).unwrap().is_empty());
    send(&chain, &bob().sign(set_code(2, unfunded_account(), vec![authorization(alice(), Address::ZERO, 2)])).unwrap());
    chain.mine(0).unwrap();
    assert!(view.code(alice().address, BlockSelector::Latest).unwrap().is_empty());
}

#[test]
fn block_is_full_at_its_gas_limit() {
    let chain = chain();
    chain.set_gas_limit(21_000 * 3 + 20_000).unwrap();
    for nonce in 0..5 {
        send(&chain, &alice().sign(transfer(nonce)).unwrap());
    }
    assert_eq!(chain.mine(0).unwrap().txs.len(), 3);
    assert_eq!(chain.mine(0).unwrap().txs.len(), 2);
}

#[test]
fn automine_mines_each_executable_transaction() {
    let chain = chain();
    // A transaction below the base fee keeps the pool from being empty.
    let cheap = TxEip1559 { max_fee_per_gas: 1, max_priority_fee_per_gas: 1, ..transfer(0) };
    send(&chain, &bob().sign(cheap).unwrap());
    chain.set_automine(true);
    let hash = send(&chain, &alice().sign(transfer(0)).unwrap());
    assert_eq!(chain.view().receipt(hash).unwrap().block.number(), 1);
    send(&chain, &alice().sign(transfer(2)).unwrap());
    assert_eq!(chain.view().head().number(), 1, "a queued transaction makes no block");
    send(&chain, &alice().sign(transfer(1)).unwrap());
    assert_eq!(chain.view().head().txs.len(), 2);
}

#[test]
fn block_tags_follow_the_head() {
    let mut genesis = Genesis::dev();
    (genesis.limits.finalized_depth, genesis.limits.safe_depth) = (4, 2);
    let chain = DevChain::new(genesis);
    let number = |at| chain.view().block(at).map(|block| block.number());
    assert_eq!(number(BlockSelector::Finalized), Some(0));
    chain.mine_many(10, 2).unwrap();
    let all = [
        BlockSelector::Earliest,
        BlockSelector::Finalized,
        BlockSelector::Safe,
        BlockSelector::Latest,
        BlockSelector::Pending,
        BlockSelector::Number(7),
        BlockSelector::Number(11),
    ];
    assert_eq!(all.map(number), [Some(0), Some(6), Some(8), Some(10), Some(11), Some(7), None]);
    assert_eq!(chain.view().head().timestamp(), chain.view().block(BlockSelector::Number(9)).unwrap().timestamp() + 2);
}

#[test]
fn old_blocks_are_dropped_with_state() {
    let mut genesis = Genesis::dev();
    genesis.limits.history_blocks = 3;
    let chain = DevChain::new(genesis);
    let first = send(&chain, &alice().sign(transfer(0)).unwrap());
    chain.mine_many(5, 1).unwrap();
    let view = chain.view();
    assert!(view.receipt(first).is_none());
    assert!(view.block(BlockSelector::Number(2)).is_none());
    let oldest = 3;
    assert_eq!(
        view.balance(alice().address, BlockSelector::Number(2)),
        Err(ReadError::StateGone { number: 2, oldest })
    );
    assert_eq!(view.nonce(alice().address, BlockSelector::Number(3)), Ok(1));
    assert_eq!(view.balance(unfunded_account(), BlockSelector::Number(5)), Ok(U256::from(1)));
}

#[test]
fn fee_history_and_suggestions_reflect_paid_fees() {
    let chain = chain();
    assert_eq!(chain.view().max_priority_fee(), GWEI);
    for (index, account) in (1..=4).zip(DEV_ACCOUNTS) {
        let tx = TxEip1559 { max_priority_fee_per_gas: u128::from(index * 1_000_000_000_u64), ..transfer(0) };
        send(&chain, &account.sign(tx).unwrap());
    }
    let block: Arc<Block> = chain.mine(0).unwrap();
    chain.mine(0).unwrap();
    let history = chain.view().fee_history(2, BlockSelector::Latest, &[0.0, 50.0, 100.0]).unwrap();
    assert_eq!(history.oldest_block, 1);
    assert_eq!(history.base_fee_per_gas.len(), 3);
    assert_eq!(history.base_fee_per_gas[0], u128::from(block.base_fee()));
    assert_eq!(history.base_fee_per_gas[2], u128::from(chain.view().next_base_fee()));
    assert_eq!(history.reward, [[GWEI, 2 * GWEI, 4 * GWEI], [0, 0, 0]]);
    let ratio = 84_000.0 / 30_000_000.0;
    assert_eq!(history.gas_used_ratio, [ratio, 0.0]);
    assert_eq!(chain.view().max_priority_fee(), 2 * GWEI);
    assert!(matches!(
        chain.view().fee_history(1, BlockSelector::Latest, &[101.0]),
        Err(ReadError::InvalidPercentile(_))
    ));
    assert!(matches!(
        chain.view().fee_history(1, BlockSelector::Latest, &[50.0, 10.0]),
        Err(ReadError::InvalidPercentile(_))
    ));
    assert_eq!(
        chain.view().fee_history(1, BlockSelector::Number(9), &[]),
        Err(ReadError::BeyondHead { requested: 9, head: 2 })
    );
    let all = chain.view().fee_history(u64::MAX, BlockSelector::Latest, &[]).unwrap();
    assert_eq!((all.oldest_block, all.reward.len()), (0, 0));
}

#[test]
fn edits_change_state_at_head() {
    let chain = chain();
    chain.set_nonce(alice().address, 9).unwrap();
    chain.set_storage(unfunded_account(), U256::from(1), U256::from(2)).unwrap();
    let view = chain.view();
    assert_eq!(view.nonce(alice().address, BlockSelector::Latest), Ok(9));
    assert_eq!(view.storage(unfunded_account(), U256::from(1), BlockSelector::Latest), Ok(U256::from(2)));
    assert_eq!(refusal(&chain, &alice().sign(transfer(8)).unwrap()), "nonce too low: next nonce 9, tx nonce 8");
    send(&chain, &alice().sign(transfer(9)).unwrap());
    assert_eq!(chain.mine(0).unwrap().txs.len(), 1);
}
