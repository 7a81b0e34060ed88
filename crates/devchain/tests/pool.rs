//! The rules of the pool, with geth's error texts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap fails the test")]

mod support;

use alloy_consensus::TxEip1559;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use gapless_devchain::{
    BlockSelector, DEV_CHAIN_ID, DevAccount, DevChain, GWEI, Genesis, PoolError, PoolLimits, PoolStatus, ether,
};
use support::*;

fn status(chain: &DevChain) -> (usize, usize) {
    let PoolStatus { pending, queued } = chain.view().pool_status();
    (pending, queued)
}

fn chain_with(limits: impl FnOnce(&mut PoolLimits)) -> DevChain {
    let mut genesis = Genesis::dev();
    limits(&mut genesis.limits.pool);
    DevChain::new(genesis)
}

/// An account with exactly this balance.
fn account_with(chain: &DevChain, balance: U256) -> DevAccount {
    let account = gapless_devchain::dev_account(50).unwrap();
    chain.set_balance(account.address, balance).unwrap();
    account
}

#[test]
fn invalid_transaction_is_refused_with_geth_text() {
    let cases: Vec<(TxEip1559, &str)> = vec![
        (TxEip1559 { gas_limit: 20_999, ..transfer(0) }, "intrinsic gas too low: gas 20999, minimum needed 21000"),
        (TxEip1559 { gas_limit: 0, ..transfer(0) }, "intrinsic gas too low: gas 0, minimum needed 21000"),
        (
            TxEip1559 { input: vec![1; 100].into(), gas_limit: 24_000, ..transfer(0) },
            "insufficient gas for floor data gas cost: gas 24000, minimum needed 25000",
        ),
        (TxEip1559 { gas_limit: 30_000_001, max_fee_per_gas: GWEI, ..transfer(0) }, "exceeds block gas limit"),
        (
            TxEip1559 { max_priority_fee_per_gas: 21 * GWEI, ..transfer(0) },
            "max priority fee per gas higher than max fee per gas",
        ),
        (TxEip1559 { chain_id: 1, ..transfer(0) }, "invalid sender: invalid chain id for signer: have 1 want 31337"),
        (TxEip1559 { nonce: u64::MAX, ..transfer(0) }, "nonce has max value"),
        (
            TxEip1559 { max_priority_fee_per_gas: 0, ..transfer(0) },
            "transaction gas price below minimum: gas tip cap 0, minimum needed 1",
        ),
        (
            TxEip1559 { to: TxKind::Create, input: vec![0; 49_153].into(), gas_limit: 2_000_000, ..transfer(0) },
            "max initcode size exceeded: code size 49153, limit 49152",
        ),
        (
            TxEip1559 { gas_limit: 1_100_000, max_fee_per_gas: 1_000 * GWEI, ..transfer(0) },
            "tx fee (1.10 ether) exceeds the configured cap (1.00 ether)",
        ),
    ];
    let chain = chain();
    for (tx, text) in cases {
        let error = chain.send_raw(&alice().sign(tx).unwrap()).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (-32000, text));
    }
    assert_eq!(status(&chain), (0, 0));
}

#[test]
fn data_over_128_kib_is_refused_as_oversized() {
    let raw = alice().sign(invoke(0, TxKind::Call(unfunded_account()), vec![0; 131_072].into())).unwrap();
    let text = format!("oversized data: transaction size {}, limit 131072", raw.len());
    assert_eq!(refusal(&chain(), &raw), text);
}

#[test]
fn undecodable_bytes_are_refused() {
    let chain = chain();
    assert_eq!(refusal(&chain, &[]), "typed transaction too short");
    assert_eq!(refusal(&chain, &[3, 1, 2, 3]), "transaction type not supported: tx type 3 not supported by this pool");
    assert_eq!(refusal(&chain, &[9, 1, 2, 3]), "transaction type not supported");
    assert!(refusal(&chain, &[0xc0]).starts_with("rlp: "));
    let good = alice().sign(transfer(0)).unwrap();
    let longer = [good.to_vec(), vec![0]].concat();
    assert_eq!(refusal(&chain, &longer), "rlp: input contains more than one value");
    assert!(refusal(&chain, &good[..good.len() - 1]).starts_with("rlp: "));
    let unprotected = alice().sign(alloy_consensus::TxLegacy { chain_id: None, ..legacy(0) }).unwrap();
    assert_eq!(refusal(&chain, &unprotected), "only replay-protected (EIP-155) transactions allowed over RPC");
}

#[test]
fn repeated_send_is_known_then_nonce_too_low() {
    let chain = chain();
    let raw = alice().sign(transfer(0)).unwrap();
    send(&chain, &raw);
    assert_eq!(refusal(&chain, &raw), "already known");
    chain.mine(0).unwrap();
    assert_eq!(refusal(&chain, &raw), "nonce too low: next nonce 1, tx nonce 0");
}

#[test]
fn nonce_gap_queues_until_closed() {
    let chain = chain();
    for nonce in [3, 1, 2] {
        send(&chain, &alice().sign(transfer(nonce)).unwrap());
    }
    assert_eq!(status(&chain), (0, 3));
    assert_eq!(chain.mine(0).unwrap().txs.len(), 0);
    assert_eq!(chain.view().nonce(alice().address, BlockSelector::Pending), Ok(0));
    send(&chain, &alice().sign(transfer(0)).unwrap());
    assert_eq!(status(&chain), (4, 0));
    assert_eq!(chain.view().nonce(alice().address, BlockSelector::Pending), Ok(4));
    assert_eq!(chain.view().nonce(alice().address, BlockSelector::Latest), Ok(0));
    let nonces: Vec<u64> = chain.mine(0).unwrap().txs.iter().map(|tx| tx.nonce()).collect();
    assert_eq!(nonces, [0, 1, 2, 3]);
}

#[test]
fn replacement_needs_ten_percent_on_both_fees() {
    let chain = chain();
    let fees = |fee_cap, tip| {
        let tx = TxEip1559 { max_fee_per_gas: fee_cap, max_priority_fee_per_gas: tip, ..transfer(0) };
        alice().sign(tx).unwrap()
    };
    let first = send(&chain, &fees(20 * GWEI, GWEI));
    for (fee_cap, tip) in [
        (22 * GWEI, GWEI),
        (20 * GWEI, 2 * GWEI),
        (22 * GWEI - 1, 2 * GWEI),
        (30 * GWEI, GWEI * 11 / 10 - 1),
        (19 * GWEI, GWEI / 2),
    ] {
        assert_eq!(refusal(&chain, &fees(fee_cap, tip)), "replacement transaction underpriced", "{fee_cap} {tip}");
    }
    let second = send(&chain, &fees(22 * GWEI, GWEI * 11 / 10));
    assert_eq!(status(&chain), (1, 0));
    assert!(chain.view().transaction(first).is_none());
    assert!(chain.view().transaction(second).unwrap().mined.is_none());
    // Queued transactions follow the same rule.
    let waiting = |fee_cap| alice().sign(TxEip1559 { max_fee_per_gas: fee_cap, ..transfer(5) }).unwrap();
    send(&chain, &waiting(20 * GWEI));
    assert_eq!(refusal(&chain, &waiting(30 * GWEI)), "replacement transaction underpriced");
    assert_eq!(chain.mine(0).unwrap().txs[0].hash, second);
}

#[test]
fn gas_price_counts_as_both_replacement_fees() {
    let chain = chain();
    let priced = |gas_price| alice().sign(alloy_consensus::TxLegacy { gas_price, ..legacy(0) }).unwrap();
    send(&chain, &priced(20 * GWEI));
    assert_eq!(refusal(&chain, &priced(22 * GWEI - 1)), "replacement transaction underpriced");
    send(&chain, &priced(22 * GWEI));
}

#[test]
fn pending_costs_above_balance_are_refused() {
    let chain = chain();
    let gas = U256::from(TRANSFER_GAS) * U256::from(20 * GWEI);
    let account_with = account_with(&chain, ether(1));
    let worth = |nonce, value, fee_cap| {
        let tx = TxEip1559 { value, max_fee_per_gas: fee_cap, max_priority_fee_per_gas: fee_cap, ..transfer(nonce) };
        account_with.sign(tx).unwrap()
    };
    let cost = ether(1) + gas;
    assert_eq!(
        refusal(&chain, &worth(0, ether(1), 20 * GWEI)),
        format!("insufficient funds for gas * price + value: balance {}, tx cost {cost}, overshot {gas}", ether(1))
    );
    let half = ether(1) / U256::from(2);
    send(&chain, &worth(0, half, 20 * GWEI));
    let (queued, cost) = (half + gas, half + gas);
    assert_eq!(
        refusal(&chain, &worth(1, half, 20 * GWEI)),
        format!(
            "insufficient funds for gas * price + value: balance {}, queued cost {queued}, tx cost {cost}, overshot {}",
            ether(1),
            queued + cost - ether(1)
        )
    );
    // The balance covers the replacement alone, and its additional cost alone, but not together with the other
    // transaction.
    send(&chain, &worth(1, ether(1) / U256::from(4), 20 * GWEI));
    let text = refusal(&chain, &worth(1, half, 30 * GWEI));
    assert!(text.starts_with("insufficient funds for gas * price + value: balance"), "{text}");
    assert!(text.contains("tx bumped"), "{text}");
    assert_eq!(chain.mine(0).unwrap().txs.len(), 2);
}

#[test]
fn unpayable_transaction_is_dropped_and_later_ones_queue() {
    let chain = chain();
    let account_with = account_with(&chain, ether(1));
    for nonce in 0..3 {
        send(&chain, &account_with.sign(transfer(nonce)).unwrap());
    }
    assert_eq!(status(&chain), (3, 0));
    chain.set_balance(account_with.address, U256::ZERO).unwrap();
    assert_eq!(status(&chain), (0, 0));
}

#[test]
fn fee_cap_below_base_fee_blocks_only_its_account() {
    let chain = chain();
    let cheap = TxEip1559 { max_fee_per_gas: GWEI / 10, max_priority_fee_per_gas: 1, ..transfer(0) };
    let cheap = send(&chain, &alice().sign(cheap).unwrap());
    send(&chain, &alice().sign(transfer(1)).unwrap());
    let other = send(&chain, &bob().sign(transfer(0)).unwrap());
    let block = chain.mine(0).unwrap();
    assert_eq!(block.txs.iter().map(|tx| tx.hash).collect::<Vec<_>>(), [other]);
    assert_eq!(status(&chain), (2, 0));
    chain.set_next_base_fee(GWEI as u64 / 100);
    let block = chain.mine(0).unwrap();
    assert_eq!(block.txs[0].hash, cheap);
    assert_eq!(block.txs.len(), 2);
}

#[test]
fn block_orders_by_tip_then_arrival() {
    let chain = chain();
    let tipped =
        |who: DevAccount, nonce, tip| who.sign(TxEip1559 { max_priority_fee_per_gas: tip, ..transfer(nonce) }).unwrap();
    let a0 = send(&chain, &tipped(alice(), 0, GWEI));
    let b0 = send(&chain, &tipped(bob(), 0, GWEI));
    let c0 = send(&chain, &tipped(carol(), 0, 3 * GWEI));
    let a1 = send(&chain, &tipped(alice(), 1, 5 * GWEI));
    let order: Vec<B256> = chain.mine(0).unwrap().txs.iter().map(|tx| tx.hash).collect();
    assert_eq!(order, [c0, a0, a1, b0]);
}

#[test]
fn account_queue_is_bounded() {
    let chain = chain_with(|limits| limits.account_queue = 3);
    for nonce in 1..=5 {
        send(&chain, &alice().sign(transfer(nonce)).unwrap());
    }
    assert_eq!(status(&chain), (0, 3));
    let content = chain.view().pool_content();
    assert_eq!(content.queued[&alice().address].keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn full_pool_accepts_only_higher_tips() {
    let chain = chain_with(|limits| (limits.global_slots, limits.global_queue) = (2, 1));
    let tipped =
        |who: DevAccount, nonce, tip| who.sign(TxEip1559 { max_priority_fee_per_gas: tip, ..transfer(nonce) }).unwrap();
    let poorest = send(&chain, &tipped(alice(), 0, GWEI));
    send(&chain, &tipped(bob(), 0, 2 * GWEI));
    send(&chain, &tipped(carol(), 0, 3 * GWEI));
    let dave = gapless_devchain::DEV_ACCOUNTS[3];
    assert_eq!(refusal(&chain, &tipped(dave, 0, GWEI)), "transaction underpriced");
    assert_eq!(refusal(&chain, &tipped(dave, 7, 4 * GWEI)), "future transaction tries to replace pending");
    send(&chain, &tipped(dave, 0, 4 * GWEI));
    assert!(chain.view().transaction(poorest).is_none());
    assert_eq!(status(&chain), (3, 0));
    let long = invoke(1, TxKind::Call(unfunded_account()), vec![0; 100_000].into());
    let long = TxEip1559 { gas_limit: 2_000_000, max_priority_fee_per_gas: 3 * GWEI, ..long };
    assert_eq!(refusal(&chain, &dave.sign(long).unwrap()), "txpool is full");
}

#[test]
fn access_list_adds_intrinsic_gas() {
    let chain = chain();
    let list = AccessList(vec![AccessListItem { address: Address::ZERO, storage_keys: vec![B256::ZERO; 2] }]);
    let needed = 21_000 + 2_400 + 2 * 1_900;
    let short = alloy_consensus::TxEip2930 { gas_limit: needed - 1, ..with_access_list(0, list.clone()) };
    assert_eq!(
        refusal(&chain, &alice().sign(short).unwrap()),
        format!("intrinsic gas too low: gas {}, minimum needed {needed}", needed - 1)
    );
    send(&chain, &alice().sign(with_access_list(0, list)).unwrap());
    let block = chain.mine(0).unwrap();
    assert_eq!(block.receipts[0].gas_used, needed);
}

#[test]
fn delegated_account_has_one_transaction_in_flight() {
    let chain = chain();
    let target = deploy(&chain, carol(), 0, &counter());
    let raw = bob().sign(set_code(0, unfunded_account(), vec![authorization(alice(), target, 0)])).unwrap();
    send(&chain, &raw);
    // While the authorization is in the pool.
    send(&chain, &alice().sign(transfer(0)).unwrap());
    let limit = "in-flight transaction limit reached for delegated accounts";
    assert_eq!(refusal(&chain, &alice().sign(transfer(1)).unwrap()), limit);
    let better = TxEip1559 { max_fee_per_gas: 40 * GWEI, max_priority_fee_per_gas: 2 * GWEI, ..transfer(0) };
    chain.drop_all_txs().unwrap();
    // After the authorization is mined.
    send(&chain, &raw);
    chain.mine(0).unwrap();
    assert_eq!(refusal(&chain, &alice().sign(transfer(3)).unwrap()), "gapped-nonce tx from delegated accounts");
    send(&chain, &alice().sign(transfer(1)).unwrap());
    assert_eq!(refusal(&chain, &alice().sign(transfer(2)).unwrap()), limit);
    send(&chain, &alice().sign(TxEip1559 { nonce: 1, ..better }).unwrap());
    assert_eq!(chain.mine(0).unwrap().txs.len(), 1);
}

#[test]
fn authority_with_transactions_in_flight_is_reserved() {
    let chain = chain();
    for nonce in 0..2 {
        send(&chain, &alice().sign(transfer(nonce)).unwrap());
    }
    let delegation = set_code(0, unfunded_account(), vec![authorization(alice(), unfunded_account(), 0)]);
    assert_eq!(refusal(&chain, &bob().sign(delegation).unwrap()), "authority already reserved");
    let empty = set_code(0, unfunded_account(), Vec::new());
    assert_eq!(refusal(&chain, &bob().sign(empty).unwrap()), "set code tx must have at least one authorization tuple");
}

#[test]
fn dropped_transaction_leaves_nonce_gap() {
    let chain = chain();
    let first = send(&chain, &alice().sign(transfer(0)).unwrap());
    send(&chain, &alice().sign(transfer(1)).unwrap());
    assert!(chain.drop_tx(first).unwrap());
    assert!(!chain.drop_tx(first).unwrap());
    assert_eq!(status(&chain), (0, 1));
}

#[test]
fn unrecoverable_signature_is_invalid_sender() {
    let raw = alice().sign(transfer(0)).unwrap();
    let mut bytes = raw.to_vec();
    let end = bytes.len();
    // The last 32 bytes are `s`. The maximum value is not a valid signature.
    bytes[end - 32..].fill(0xff);
    let error = chain().send_raw(&bytes).unwrap_err();
    assert!(matches!(error, PoolError::InvalidSender { .. }), "{error}");
    assert_eq!(error.to_string(), "invalid sender: invalid transaction v, r, s values");
}

#[test]
fn custom_pool_limits_apply() {
    assert_eq!(PoolLimits::default().price_bump_percent, 10);
    let chain = chain_with(|limits| *limits = PoolLimits { min_tip: 2 * GWEI, ..PoolLimits::for_benchmarks() });
    assert_eq!(
        refusal(&chain, &alice().sign(transfer(0)).unwrap()),
        format!("transaction gas price below minimum: gas tip cap {GWEI}, minimum needed {}", 2 * GWEI)
    );
    let raws: Vec<Bytes> = (1..200)
        .map(|nonce| {
            bob()
                .sign(TxEip1559 { max_priority_fee_per_gas: 2 * GWEI, chain_id: DEV_CHAIN_ID, ..transfer(nonce) })
                .unwrap()
        })
        .collect();
    for raw in &raws {
        send(&chain, raw);
    }
    assert_eq!(status(&chain), (0, 199));
}
