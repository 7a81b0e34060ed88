//! The environment of a case: a node, and accounts that no other case uses.

use std::cell::RefCell;

use alloy_consensus::TxEip1559;
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use gapless_devchain::{DEV_CHAIN_ID, DevAccount};
use serde_json::{Value, json};

use crate::node::{CallFailure, Node, Socket};

pub(crate) const GWEI: u128 = 1_000_000_000;
/// Initial balance of the funded account: 100 ether, enough for every case.
pub(crate) const BALANCE: u128 = 100_000_000_000 * GWEI;
pub(crate) const FEE_CAP: u128 = 100 * GWEI;
pub(crate) const TIP: u128 = 2 * GWEI;

pub(crate) struct CaseEnv<'a> {
    node: &'a Node,
    /// An account with funds.
    pub(crate) account: DevAccount,
    /// An account without funds.
    pub(crate) poor: DevAccount,
    sent: RefCell<Vec<B256>>,
}

/// Removes the case's transactions from the pool, so that the next case starts with an empty pool. Hardhat would
/// otherwise make no more blocks once it has accepted a transaction that its sender cannot pay for.
impl Drop for CaseEnv<'_> {
    fn drop(&mut self) {
        for hash in self.sent.take() {
            // Most transactions are mined, which some nodes report as an error.
            let _ = self.call("hardhat_dropTransaction", json!([hash]));
        }
    }
}

impl<'a> CaseEnv<'a> {
    pub(crate) fn new(node: &'a Node, name: &str) -> Self {
        let account = |role: &str| DevAccount::from_key(keccak256(format!("{name} {role}"))).unwrap();
        let env = Self { node, account: account("rich"), poor: account("poor"), sent: RefCell::default() };
        env.ok("hardhat_setBalance", json!([env.account.address, U256::from(BALANCE)]));
        env
    }

    pub(crate) fn call(&self, method: &str, params: Value) -> Result<Value, CallFailure> {
        self.node.call(method, params)
    }

    /// The result of a call that must succeed.
    pub(crate) fn ok(&self, method: &str, params: Value) -> Value {
        let described = format!("{method} {params}");
        self.call(method, params).unwrap_or_else(|error| panic!("{described}: {error:?}"))
    }

    /// The outcome of a call, in the form of the table.
    pub(crate) fn show(&self, method: &str, params: Value) -> String {
        show(&self.call(method, params))
    }

    pub(crate) fn post(&self, body: &str) -> String {
        self.node.post(body)
    }

    pub(crate) fn socket(&self) -> Socket {
        self.node.socket()
    }

    pub(crate) fn mine(&self) {
        self.ok("evm_mine", json!([]));
    }

    pub(crate) fn send(&self, raw: &Bytes) -> Result<Value, CallFailure> {
        self.sent.borrow_mut().push(keccak256(raw));
        self.call("eth_sendRawTransaction", json!([raw]))
    }

    /// Sends a transaction that must be accepted.
    pub(crate) fn sent(&self, raw: &Bytes) -> B256 {
        let answer = self.send(raw).unwrap_or_else(|error| panic!("send: {error:?}"));
        assert_eq!(answer, json!(keccak256(raw)));
        keccak256(raw)
    }

    /// A payment of one wei to an unused account. Cases change the fields that they need.
    pub(crate) fn payment(&self, nonce: u64) -> TxEip1559 {
        TxEip1559 {
            chain_id: DEV_CHAIN_ID,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: FEE_CAP,
            max_priority_fee_per_gas: TIP,
            to: TxKind::Call(Address::repeat_byte(0xee)),
            value: U256::ONE,
            access_list: AccessList::default(),
            input: Bytes::new(),
        }
    }

    pub(crate) fn signed(&self, tx: TxEip1559) -> Bytes {
        self.account.sign(tx).unwrap()
    }

    /// Signs and sends a transaction, and returns the outcome. Success is shown as `accepted`.
    pub(crate) fn try_send(&self, tx: TxEip1559) -> String {
        accepted(&self.send(&self.signed(tx)))
    }

    /// A contract with this code, created by the account's first transaction.
    pub(crate) fn contract(&self, code: &[u8]) -> Address {
        let made = self.account.address.create(0);
        let init = crate::contracts::deploy(code);
        self.sent(&self.signed(TxEip1559 {
            to: TxKind::Create,
            value: U256::ZERO,
            gas_limit: 200_000,
            input: init,
            ..self.payment(0)
        }));
        self.mine();
        made
    }

    pub(crate) fn receipt(&self, hash: B256) -> Value {
        self.ok("eth_getTransactionReceipt", json!([hash]))
    }

    pub(crate) fn count(&self, account: Address, at: &str) -> String {
        show(&self.call("eth_getTransactionCount", json!([account, at])))
    }

    pub(crate) fn head(&self) -> u64 {
        number(&self.ok("eth_blockNumber", json!([])))
    }
}

/// The number of a JSON-RPC quantity.
pub(crate) fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("no quantity: {value}"));
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

/// A result, or the code and the text of an error on one line, without hashes.
pub(crate) fn show(result: &Result<Value, CallFailure>) -> String {
    match result {
        Ok(Value::String(text)) => text.clone(),
        Ok(value) => value.to_string(),
        Err(error) => {
            // The position in the text of a JSON library's error is left out.
            let message = error.message.split(" at line ").next().unwrap_or_default();
            let words: Vec<_> = message.split_whitespace().map(without_hash).collect();
            format!("{}: {}", error.code, words.join(" "))
        }
    }
}

/// A result as `accepted`, or the code and the text of an error.
pub(crate) fn accepted(result: &Result<Value, CallFailure>) -> String {
    if result.is_ok() { "accepted".to_owned() } else { show(result) }
}

/// The text without the head's number, which differs between runs.
pub(crate) fn without_head(text: &str, head: u64) -> String {
    let head = head.to_string();
    let is_head = |word: &str| word.trim_end_matches(['.', ',']) == head;
    text.split(' ').map(|word| if is_head(word) { "HEAD" } else { word }).collect::<Vec<_>>().join(" ")
}

fn without_hash(word: &str) -> String {
    let digits = word.trim_end_matches(['.', ',']).strip_prefix("0x").unwrap_or_default();
    let is_hash = digits.len() == 64 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    if is_hash { word.replace(digits, "HASH").replacen("0x", "", 1) } else { word.to_owned() }
}
