//! A transaction, decoded only as far as the null chain needs it.

use alloy_primitives::{Address, B256, keccak256};
use alloy_rlp::{Decodable as _, Header};

use crate::error::{RpcError, SERVER_ERROR_CODE};
use crate::pool::PoolError;

/// The base fee of every block.
pub(super) const BASE_FEE: u64 = 1_000_000_000;
/// Gas of any transaction, and gas per byte of call data. At least as much as any hard fork requires, so that estimates
/// suffice.
const TX_GAS: u64 = 21_000;
const DATA_BYTE_GAS: u64 = 40;
/// Minimum fees of a replacement, in percent of the old fees, as in geth.
const REPLACEMENT_PERCENT: u128 = 110;
/// Maximum bytes of one transaction, as in geth.
const MAX_TX_BYTES: usize = 128 * 1024;

const LEGACY: u8 = 0;
const ACCESS_LIST: u8 = 1;
const DYNAMIC_FEE: u8 = 2;
/// First bytes below this value begin a typed transaction. Other first bytes begin an RLP list (EIP-2718).
const FIRST_RLP_LIST_BYTE: u8 = 0xc0;
/// The first `v` of a legacy transaction that contains a chain id (EIP-155).
const FIRST_PROTECTED_V: u64 = 35;

/// The reason why a transaction is refused. `Display` is geth's text where geth has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SendError {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error("contract creation is not possible on the null chain: the recipient is taken as the sender")]
    Creation,
    #[error("max fee per gas less than block base fee: maxFeePerGas: {fee_cap}, baseFee: {BASE_FEE}")]
    FeeCapBelowBaseFee { fee_cap: u128 },
}

impl From<SendError> for RpcError {
    fn from(error: SendError) -> Self {
        Self::new(SERVER_ERROR_CODE, error.to_string())
    }
}

/// The fields of a transaction that the chain needs.
#[derive(Debug)]
pub(super) struct NullTx {
    pub(super) hash: B256,
    /// The recipient, which the null chain takes as the sender.
    pub(super) from: Address,
    pub(super) nonce: u64,
    pub(super) gas_used: u64,
    pub(super) tip_cap: u128,
    pub(super) fee_cap: u128,
    pub(super) ty: u8,
    pub(super) raw: Box<[u8]>,
}

impl NullTx {
    pub(super) fn read(raw: Box<[u8]>, chain_id: u64) -> Result<Self, SendError> {
        if raw.len() > MAX_TX_BYTES {
            return Err(PoolError::Oversized { size: raw.len(), limit: MAX_TX_BYTES }.into());
        }
        let (ty, mut rest) = match *raw {
            [] => return Err(PoolError::TypedTxTooShort.into()),
            [first, ..] if first >= FIRST_RLP_LIST_BYTE => (LEGACY, &raw[..]),
            [ty @ (ACCESS_LIST | DYNAMIC_FEE), ref rest @ ..] => (ty, rest),
            _ => return Err(PoolError::TypeNotSupported.into()),
        };
        let mut fields = Header::decode_bytes(&mut rest, true).map_err(undecodable)?;
        if !rest.is_empty() {
            return Err(PoolError::TrailingBytes.into());
        }
        let fields = TxFields::read(&mut fields, ty).map_err(undecodable)?;
        match fields.chain_id {
            None => return Err(PoolError::Unprotected.into()),
            Some(have) if have != chain_id => return Err(PoolError::WrongChainId { have, want: chain_id }.into()),
            Some(_) => {}
        }
        let TxFields { nonce, tip_cap, fee_cap, gas, to, data_bytes, .. } = fields;
        let from = to.ok_or(SendError::Creation)?;
        let gas_used = gas_of(data_bytes);
        if gas < gas_used {
            return Err(PoolError::IntrinsicGas { gas, needed: gas_used }.into());
        }
        if tip_cap > fee_cap {
            return Err(PoolError::TipAboveFeeCap.into());
        }
        // geth would keep the transaction until the base fee falls. The base fee of the null chain never falls.
        if fee_cap < u128::from(BASE_FEE) {
            return Err(SendError::FeeCapBelowBaseFee { fee_cap });
        }
        Ok(Self { hash: keccak256(&raw), from, nonce, gas_used, tip_cap, fee_cap, ty, raw })
    }

    pub(super) fn is_bump_of(&self, other: &NullTx) -> bool {
        let enough = |new: u128, old: u128| new > old && new >= old.saturating_mul(REPLACEMENT_PERCENT) / 100;
        enough(self.fee_cap, other.fee_cap) && enough(self.tip_cap, other.tip_cap)
    }

    pub(super) fn gas_price(&self) -> u128 {
        self.fee_cap.min(self.tip_cap.saturating_add(u128::from(BASE_FEE)))
    }
}

/// Gas used by a transaction with this much call data.
pub(super) fn gas_of(data_bytes: usize) -> u64 {
    (data_bytes as u64).saturating_mul(DATA_BYTE_GAS).saturating_add(TX_GAS)
}

struct TxFields {
    chain_id: Option<u64>,
    nonce: u64,
    tip_cap: u128,
    fee_cap: u128,
    gas: u64,
    to: Option<Address>,
    data_bytes: usize,
}

impl TxFields {
    /// Decodes the fields up to the call data, and `v` of a legacy transaction, which contains the chain id.
    fn read(buf: &mut &[u8], ty: u8) -> alloy_rlp::Result<Self> {
        let typed_chain = if ty == LEGACY { None } else { Some(u64::decode(buf)?) };
        let nonce = u64::decode(buf)?;
        let tip_cap = u128::decode(buf)?;
        let fee_cap = if ty == DYNAMIC_FEE { u128::decode(buf)? } else { tip_cap };
        let gas = u64::decode(buf)?;
        let to = match Header::decode_bytes(buf, false)? {
            [] => None,
            bytes => Some(Address::try_from(bytes).map_err(|_| alloy_rlp::Error::UnexpectedLength)?),
        };
        let _value = Header::decode_bytes(buf, false)?;
        let data_bytes = Header::decode_bytes(buf, false)?.len();
        let chain_id = match typed_chain {
            Some(id) => Some(id),
            None => u64::decode(buf)?.checked_sub(FIRST_PROTECTED_V).map(|doubled| doubled / 2),
        };
        Ok(Self { chain_id, nonce, tip_cap, fee_cap, gas, to, data_bytes })
    }
}

fn undecodable(error: alloy_rlp::Error) -> SendError {
    PoolError::Undecodable { why: error.to_string() }.into()
}
