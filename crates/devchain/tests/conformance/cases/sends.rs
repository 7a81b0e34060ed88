//! Sends that the pool accepts or refuses.

use alloy_consensus::{TxEip1559, TxLegacy};
use alloy_primitives::{Bytes, TxKind, U256};
use gapless_devchain::DEV_CHAIN_ID;
use serde_json::json;

use crate::case::Case;
use crate::case_env::{BALANCE, CaseEnv, FEE_CAP, GWEI, TIP, accepted};

const BLOCK_GAS_LIMIT: u64 = 30_000_000;
/// One byte more than the maximum length of init code (EIP-3860).
const INIT_CODE_TOO_LONG: usize = 2 * 24_576 + 1;

pub(crate) fn cases() -> Vec<Case> {
    [nonces(), costs(), contents()].into_iter().flatten().collect()
}

fn nonces() -> Vec<Case> {
    vec![
        Case::new("send: nonce below the account's", too_low, "-32000: nonce too low: next nonce 1, tx nonce 0")
            .anvil("-32003: nonce too low")
            .hardhat("-32000: Transaction nonce too low. Expected nonce to be at least 1 but got 0."),
        Case::new("send: the same bytes again", twice, "-32000: already known")
            .anvil("-32003: transaction already imported")
            .hardhat("-32000: Known transaction: HASH"),
        Case::new(
            "send: the same bytes again, after they were mined",
            twice_mined,
            "-32000: nonce too low: next nonce 1, tx nonce 0",
        )
        .anvil("-32003: nonce too low")
        .hardhat("-32000: Transaction nonce too low. Expected nonce to be at least 1 but got 0."),
        Case::new("send: a nonce gap waits until it is closed", gap, "latest 0x0, pending 0x0; then latest 0x2"),
        Case::new("replace: 9 % more", |env| replace(env, 109, 109), "-32000: replacement transaction underpriced")
            .anvil("accepted")
            .hardhat(
                "-32000: Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 110000000000 is \
             necessary to replace the existing transaction with nonce 0.",
            ),
        Case::new("replace: 10 % more of both", |env| replace(env, 110, 110), "accepted"),
        Case::new(
            "replace: 10 % more of the cap only",
            |env| replace(env, 110, 100),
            "-32000: replacement transaction underpriced",
        )
        .anvil("accepted")
        .hardhat(
            "-32000: Replacement transaction underpriced. A gasPrice/maxPriorityFeePerGas of at least 2200000000 \
             is necessary to replace the existing transaction with nonce 0.",
        ),
        Case::new(
            "replace: 10 % more of the tip only",
            |env| replace(env, 100, 110),
            "-32000: replacement transaction underpriced",
        )
        .anvil("-32003: replacement transaction underpriced")
        .hardhat(
            "-32000: Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 110000000000 is \
             necessary to replace the existing transaction with nonce 0.",
        ),
        Case::new("replace: the replaced one is gone", replaced_is_gone, "old null, new mined 0x1"),
    ]
}

fn costs() -> Vec<Case> {
    vec![
        Case::new(
            "send: gas below the intrinsic cost",
            no_gas,
            "-32000: intrinsic gas too low: gas 20999, minimum needed 21000",
        )
        .anvil("-32000: intrinsic gas too low")
        .hardhat("-32000: Transaction requires at least 21000 gas but got 20999"),
        Case::new(
            "send: calldata below the floor cost",
            floor,
            "-32000: insufficient gas for floor data gas cost: gas 37000, minimum needed 61000",
        )
        .anvil("accepted")
        .hardhat("-32000: Transaction requires gas floor of 61000 but got limit of 37000"),
        Case::new("send: more gas than a block has", too_much_gas, "-32000: exceeds block gas limit")
            .anvil("-32000: intrinsic gas too high -- tx.gas_limit > env.block.gas_limit")
            .hardhat("accepted"),
        Case::new(
            "send: more value than there is",
            no_funds,
            "-32000: insufficient funds for gas * price + value: balance 100000000000000000000, tx cost \
             100002100000000000000, overshot 2100000000000000",
        )
        .anvil("-32003: Insufficient funds for gas * price + value")
        .hardhat(
            "-32000: Sender doesn't have enough funds to send tx. The max upfront cost is: 100002100000000000000 \
             and the sender's balance is: 100000000000000000000.",
        ),
        Case::new(
            "send: the second of two that together cost too much",
            no_funds_for_two,
            "-32000: insufficient funds for gas * price + value: balance 100000000000000000000, queued cost \
             60002100000000000000, tx cost 60002100000000000000, overshot 20004200000000000000",
        )
        .anvil("accepted")
        .hardhat("accepted"),
        Case::new(
            "send: tip above the cap",
            tip_above_cap,
            "-32000: max priority fee per gas higher than max fee per gas",
        )
        .anvil("-32003: max priority fee per gas higher than max fee per gas")
        .hardhat("-32000: maxPriorityFeePerGas (2000000000) is bigger than maxFeePerGas (1000000000)"),
        Case::new(
            "send: no tip at all",
            no_tip,
            "-32000: transaction gas price below minimum: gas tip cap 0, minimum needed 1",
        )
        .anvil("accepted")
        .hardhat("accepted"),
        Case::new("send: cap below the base fee", below_base_fee, "accepted, pending 0x1, mined null")
            .anvil("-32003: max fee per gas less than block base fee")
            .hardhat("accepted, pending 0x0, mined null"),
    ]
}

fn contents() -> Vec<Case> {
    vec![
        Case::new(
            "send: another chain's id",
            other_chain,
            "-32000: invalid sender: invalid chain id for signer: have 1 want 31337",
        )
        .anvil("-32003: invalid chain id for signer")
        .hardhat("-32602: Trying to send a raw transaction with an invalid chainId. The expected chainId is 31337"),
        Case::new(
            "send: no replay protection",
            unprotected,
            "-32000: only replay-protected (EIP-155) transactions allowed over RPC",
        )
        .anvil("accepted")
        .hardhat("accepted"),
        Case::new("send: no bytes", |env| accepted(&env.send(&Bytes::new())), "-32000: typed transaction too short")
            .anvil("-32602: Empty transaction data")
            .hardhat("-32602: input too short"),
        Case::new(
            "send: a type that nobody knows",
            |env| accepted(&env.send(&Bytes::from_static(&[0x7e, 1, 2]))),
            "-32000: transaction type not supported",
        )
        .anvil("-32602: Failed to decode transaction")
        .hardhat("-32602: Invalid transaction type 126."),
        Case::new(
            "send: init code that is too long",
            long_init_code,
            "-32000: max initcode size exceeded: code size 49153, limit 49152",
        )
        .anvil("-32003: max initcode size exceeded")
        .hardhat(
            "-32602: Trying to send a deployment transaction whose init code length is 49153. The max length \
             allowed by EIP-3860 is 49152. Enable the 'allowUnlimitedContractSize' option to allow \
             init codes of any length.",
        ),
        Case::new("send: bytes behind the transaction", trailing, "-32000").anvil("accepted").hardhat("accepted"),
    ]
}

fn too_low(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(0)));
    env.mine();
    env.try_send(TxEip1559 { value: U256::from(2), ..env.payment(0) })
}

fn twice(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(0)));
    env.try_send(env.payment(0))
}

fn twice_mined(env: &CaseEnv<'_>) -> String {
    env.sent(&env.signed(env.payment(0)));
    env.mine();
    env.try_send(env.payment(0))
}

fn gap(env: &CaseEnv<'_>) -> String {
    let account = env.account.address;
    env.sent(&env.signed(env.payment(1)));
    env.mine();
    let before = format!("latest {}, pending {}", env.count(account, "latest"), env.count(account, "pending"));
    env.sent(&env.signed(env.payment(0)));
    env.mine();
    format!("{before}; then latest {}", env.count(account, "latest"))
}

/// The fees of the second transaction, in percent of the first.
fn replace(env: &CaseEnv<'_>, cap: u128, tip: u128) -> String {
    env.sent(&env.signed(env.payment(0)));
    env.try_send(TxEip1559 {
        max_fee_per_gas: FEE_CAP * cap / 100,
        max_priority_fee_per_gas: TIP * tip / 100,
        ..env.payment(0)
    })
}

fn replaced_is_gone(env: &CaseEnv<'_>) -> String {
    let old = env.sent(&env.signed(env.payment(0)));
    let better = TxEip1559 { max_fee_per_gas: FEE_CAP * 2, max_priority_fee_per_gas: TIP * 2, ..env.payment(0) };
    let new = env.sent(&env.signed(better));
    let old = env.show("eth_getTransactionByHash", json!([old]));
    env.mine();
    format!("old {old}, new mined {}", env.receipt(new)["status"].as_str().unwrap_or_default())
}

fn no_gas(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { gas_limit: 20_999, ..env.payment(0) })
}

/// A thousand bytes that are not zero: 16 intrinsic gas each, 40 as a floor (EIP-7623).
fn floor(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { gas_limit: 37_000, input: vec![1; 1_000].into(), ..env.payment(0) })
}

fn too_much_gas(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { gas_limit: BLOCK_GAS_LIMIT + 1, max_fee_per_gas: 3 * GWEI, ..env.payment(0) })
}

fn no_funds(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { value: U256::from(BALANCE), ..env.payment(0) })
}

fn no_funds_for_two(env: &CaseEnv<'_>) -> String {
    let value = U256::from(BALANCE / 10 * 6);
    env.sent(&env.signed(TxEip1559 { value, ..env.payment(0) }));
    env.try_send(TxEip1559 { value, ..env.payment(1) })
}

fn tip_above_cap(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { max_fee_per_gas: GWEI, max_priority_fee_per_gas: 2 * GWEI, ..env.payment(0) })
}

fn no_tip(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { max_priority_fee_per_gas: 0, ..env.payment(0) })
}

fn below_base_fee(env: &CaseEnv<'_>) -> String {
    env.ok("hardhat_setNextBlockBaseFeePerGas", json!(["0x3b9aca00"]));
    let cheap = TxEip1559 { max_fee_per_gas: 1_000, max_priority_fee_per_gas: 1_000, ..env.payment(0) };
    let raw = env.signed(cheap);
    let sent = env.send(&raw);
    if sent.is_err() {
        env.mine();
        return accepted(&sent);
    }
    let pending = env.count(env.account.address, "pending");
    env.mine();
    format!("accepted, pending {pending}, mined {}", env.receipt(alloy_primitives::keccak256(&raw)))
}

fn other_chain(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 { chain_id: 1, ..env.payment(0) })
}

fn unprotected(env: &CaseEnv<'_>) -> String {
    let tx = TxLegacy {
        chain_id: None,
        nonce: 0,
        gas_price: FEE_CAP,
        gas_limit: 21_000,
        to: TxKind::Call(env.poor.address),
        value: U256::ONE,
        input: Bytes::new(),
    };
    accepted(&env.send(&env.account.sign(tx).unwrap()))
}

fn long_init_code(env: &CaseEnv<'_>) -> String {
    env.try_send(TxEip1559 {
        to: TxKind::Create,
        gas_limit: 10_000_000,
        input: vec![0; INIT_CODE_TOO_LONG].into(),
        value: U256::ZERO,
        ..env.payment(0)
    })
}

/// Only the code, because the text comes from a library.
fn trailing(env: &CaseEnv<'_>) -> String {
    let tx = TxLegacy {
        chain_id: Some(DEV_CHAIN_ID),
        gas_price: FEE_CAP,
        gas_limit: 21_000,
        to: TxKind::Call(env.poor.address),
        ..TxLegacy::default()
    };
    let mut raw = env.account.sign(tx).unwrap().to_vec();
    raw.push(0);
    match env.send(&raw.into()) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.code.to_string(),
    }
}
