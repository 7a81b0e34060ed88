//! Keys for transactions that no node signs: of another account, of a caller with a reserved nonce, or of a foreign
//! sender with the key of a submitter.

use alloy_consensus::{TxEip7702, TxLegacy};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use gapless_chain_evm::{LocalSigner, MnemonicOptions, Secret, UnsignedTx};
use gapless_domain::{Address, U256};
use serde_json::json;

use super::TestChain;
use super::node::MNEMONIC;

const CHAIN_ID: u64 = 31_337;
/// Above the price of every block on these chains.
const GAS_PRICE: u128 = 10_000_000_000;

#[derive(Debug)]
pub(crate) struct AccountKey(LocalSigner);

impl AccountKey {
    /// The key of a submitter's account: number 3 is the account of `s3`.
    pub(crate) fn of(account: u32) -> Self {
        let options = MnemonicOptions::account(Secret::new(MNEMONIC.to_owned()), account);
        AccountKey(LocalSigner::from_mnemonic(&options).unwrap())
    }

    pub(crate) fn address(&self) -> String {
        self.0.address().to_string()
    }

    /// The signed bytes of a transfer of one wei.
    pub(crate) async fn transfer(&self, nonce: u64, to: &str) -> Vec<u8> {
        self.sign(UnsignedTx::Legacy(TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce,
            gas_price: GAS_PRICE,
            gas_limit: 21_000,
            to: to.parse::<Address>().unwrap().into(),
            value: U256::from(1),
            input: Default::default(),
        }))
        .await
    }

    /// An authorization that delegates the account to the code of `code` (EIP-7702). It consumes a nonce without a
    /// transaction.
    pub(crate) async fn authorize(&self, nonce: u64, code: &str) -> SignedAuthorization {
        let authorization = Authorization { chain_id: U256::from(CHAIN_ID), address: code.parse().unwrap(), nonce };
        let signature = self.0.sign_hash(authorization.signature_hash());
        authorization.into_signed(signature)
    }

    /// A transaction that only carries an authorization.
    pub(crate) async fn carry(&self, nonce: u64, authorization: SignedAuthorization) -> Vec<u8> {
        self.sign(UnsignedTx::Eip7702(TxEip7702 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: GAS_PRICE,
            max_priority_fee_per_gas: 1_000_000_000,
            to: self.0.address(),
            value: U256::ZERO,
            access_list: Default::default(),
            authorization_list: vec![authorization],
            input: Default::default(),
        }))
        .await
    }

    async fn sign(&self, unsigned: UnsignedTx) -> Vec<u8> {
        self.0.sign_transaction(&unsigned).to_vec()
    }
}

impl TestChain {
    /// Sends signed bytes to the chain without a node of Gapless, and returns their hash.
    pub(crate) async fn send_raw(&self, raw: &[u8]) -> String {
        self.call("eth_sendRawTransaction", json!([hex(raw)])).await.as_str().unwrap().to_owned()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("0x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}
