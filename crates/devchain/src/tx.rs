//! A signed transaction as the chain stores it: decoded once, sender recovered once, original bytes kept.

use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844, Typed2718};
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, U256};

use crate::pool::PoolError;

/// A decoded transaction. The type has a blob variant, but the chain never contains one: blob transactions are refused
/// before they are decoded.
pub type Envelope = EthereumTxEnvelope<TxEip4844>;

const LEGACY_TYPE: u8 = 0;
const BLOB_TYPE: u8 = 3;
const HIGHEST_KNOWN_TYPE: u8 = 4;
/// First bytes below this value begin a typed transaction. Other first bytes begin an RLP list (EIP-2718).
const FIRST_RLP_LIST_BYTE: u8 = 0xc0;

/// A transaction of the pool or of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tx {
    pub hash: B256,
    pub from: Address,
    pub envelope: Envelope,
    /// The bytes as they were sent.
    pub raw: Bytes,
    /// The signers of the authorizations that can be recovered. Recovered once, because the pool reads them often.
    pub authorities: Vec<Address>,
}

impl Tx {
    /// Decodes bytes and recovers the sender. The errors are those that geth returns for the same bytes.
    pub fn decode(raw: &[u8]) -> Result<Self, PoolError> {
        let envelope = decode_envelope(raw)?;
        let from = envelope
            .recover_signer()
            .map_err(|_| PoolError::InvalidSender { why: "invalid transaction v, r, s values".to_owned() })?;
        Ok(Self::assemble(envelope, from, raw))
    }

    /// Decodes bytes whose sender is already known, for instance when a journal is replayed.
    pub(crate) fn decode_known(raw: &[u8], from: Address) -> Result<Self, PoolError> {
        Ok(Self::assemble(decode_envelope(raw)?, from, raw))
    }

    fn assemble(envelope: Envelope, from: Address, raw: &[u8]) -> Self {
        let authorities = envelope
            .authorization_list()
            .unwrap_or_default()
            .iter()
            .filter_map(|authorization| authorization.recover_authority().ok())
            .collect();
        Self { hash: *envelope.tx_hash(), from, envelope, raw: Bytes::copy_from_slice(raw), authorities }
    }

    pub fn nonce(&self) -> u64 {
        self.envelope.nonce()
    }

    pub fn gas_limit(&self) -> u64 {
        self.envelope.gas_limit()
    }

    pub fn ty(&self) -> u8 {
        self.envelope.ty()
    }

    /// Maximum fee per gas. For a transaction type without this field, the gas price.
    pub fn fee_cap(&self) -> u128 {
        self.envelope.max_fee_per_gas()
    }

    /// Maximum tip per gas for the block producer. For a transaction type without this field, the gas price.
    pub fn tip_cap(&self) -> u128 {
        self.envelope.priority_fee_or_price()
    }

    /// The tip per gas in a block with this base fee. `None` if the fee cap is below the base fee.
    pub fn effective_tip(&self, base_fee: u64) -> Option<u128> {
        let above = self.fee_cap().checked_sub(u128::from(base_fee))?;
        Some(above.min(self.tip_cap()))
    }

    /// The address of the contract that the transaction creates. The address follows from sender and nonce, and does
    /// not depend on the result of the execution.
    pub fn created_contract(&self) -> Option<Address> {
        self.envelope.is_create().then(|| self.from.create(self.nonce()))
    }

    /// Maximum cost of the transaction for its sender. The sum saturates, because no balance is that high.
    pub fn cost(&self) -> U256 {
        let gas = U256::from(self.fee_cap()).saturating_mul(U256::from(self.gas_limit()));
        gas.saturating_add(self.envelope.value())
    }
}

fn decode_envelope(raw: &[u8]) -> Result<Envelope, PoolError> {
    match raw.first() {
        None | Some(&LEGACY_TYPE) if raw.len() <= 1 => return Err(PoolError::TypedTxTooShort),
        Some(&BLOB_TYPE) => return Err(PoolError::TypeNotInPool { ty: BLOB_TYPE }),
        Some(&ty) if ty < FIRST_RLP_LIST_BYTE && (ty == LEGACY_TYPE || ty > HIGHEST_KNOWN_TYPE) => {
            return Err(PoolError::TypeNotSupported);
        }
        _ => {}
    }
    let mut rest = raw;
    let envelope =
        Envelope::decode_2718(&mut rest).map_err(|error| PoolError::Undecodable { why: error.to_string() })?;
    // A signature covers the fields but not trailing bytes, so the same hash would stand for different bytes.
    if !rest.is_empty() || envelope.encode_2718_len() != raw.len() {
        return Err(PoolError::TrailingBytes);
    }
    Ok(envelope)
}
