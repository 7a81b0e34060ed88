//! A signed transaction as the chain holds it: decoded once, its sender recovered once, its bytes kept.

use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{EthereumTxEnvelope, Transaction, TxEip4844, Typed2718};
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, U256};

use crate::pool::PoolError;

/// What a transaction is inside. The blob variant is part of the type but never of the chain: such transactions are refused
/// before they are decoded.
pub type Envelope = EthereumTxEnvelope<TxEip4844>;

const LEGACY_TYPE: u8 = 0;
const BLOB_TYPE: u8 = 3;
const HIGHEST_KNOWN_TYPE: u8 = 4;
/// Bytes below this one begin a typed transaction; from here on they begin an RLP list (EIP-2718).
const FIRST_RLP_LIST_BYTE: u8 = 0xc0;

/// A transaction of the pool or of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tx {
    pub hash: B256,
    pub from: Address,
    pub envelope: Envelope,
    /// The bytes as they were sent.
    pub raw: Bytes,
    /// Who signed its authorizations, where that can be told. Recovered once, because the pool asks often.
    pub authorities: Vec<Address>,
}

impl Tx {
    /// Decodes bytes and recovers their sender. The errors are the ones that geth gives for the same bytes.
    pub fn decode(raw: &[u8]) -> Result<Self, PoolError> {
        let envelope = decode_envelope(raw)?;
        let from = envelope
            .recover_signer()
            .map_err(|_| PoolError::InvalidSender { why: "invalid transaction v, r, s values".to_owned() })?;
        Ok(Self::assemble(envelope, from, raw))
    }

    /// Decodes bytes whose sender was recovered before, as when a journal is read back.
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

    /// The most that a unit of gas may cost; for a transaction without it, its gas price.
    pub fn fee_cap(&self) -> u128 {
        self.envelope.max_fee_per_gas()
    }

    /// The most that goes to the block's producer; for a transaction without it, its gas price.
    pub fn tip_cap(&self) -> u128 {
        self.envelope.priority_fee_or_price()
    }

    /// What the producer of a block with this base fee gets for a unit of gas; `None` if the transaction does not pay it.
    pub fn effective_tip(&self, base_fee: u64) -> Option<u128> {
        let above = self.fee_cap().checked_sub(u128::from(base_fee))?;
        Some(above.min(self.tip_cap()))
    }

    /// The contract that it makes: its address follows from sender and nonce, whatever comes of it.
    pub fn created_contract(&self) -> Option<Address> {
        self.envelope.is_create().then(|| self.from.create(self.nonce()))
    }

    /// The most that this transaction can take from its account. It saturates: no balance is that high.
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
    // A signature covers the fields and not the bytes after them, which would otherwise get the same hash.
    if !rest.is_empty() || envelope.encode_2718_len() != raw.len() {
        return Err(PoolError::TrailingBytes);
    }
    Ok(envelope)
}
