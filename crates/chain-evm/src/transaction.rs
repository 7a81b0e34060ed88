//! Encoding plans as transactions, and verifying the output of signers.
//!
//! A signer is not trusted (S09). The final bytes are decoded and compared field by field with the plan. The sender is
//! recovered from the signature, unless the key is in the memory of this process. Only then it is a [`SignedTx`].

mod decoding;

use alloy_consensus::transaction::SignerRecoverable as _;
use alloy_consensus::{
    EthereumTxEnvelope, EthereumTypedTransaction, SignableTransaction as _, Transaction as _, TxEip1559, TxEip2930,
    TxEip4844, TxEip7702, TxLegacy, Typed2718 as _,
};
use alloy_eips::eip2718::{Decodable2718 as _, Encodable2718 as _};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use gapless_domain::{Action, EvmCall, Fees, SignedTx, TxPlan};
use gapless_signer::SignerError;

pub(crate) use decoding::{outline_of, read_mined, read_signed};

/// A transaction without its signature, as a signer gets it.
pub type UnsignedTx = EthereumTypedTransaction<TxEip4844>;

type Envelope = EthereumTxEnvelope<TxEip4844>;

/// Builds the transaction of a plan. Its type follows from the plan: authorizations, then the kind of fees, then an
/// access list.
pub(crate) fn build(plan: &TxPlan, chain_id: u64) -> Result<UnsignedTx, SignerError> {
    let refused = |why: &str| Err(SignerError::Refused(why.to_owned()));
    let Action::Evm(call) = &plan.action;
    let to = call.to.map_or(TxKind::Create, TxKind::Call);
    let (nonce, gas_limit, value, input) = (plan.nonce.get(), plan.work.units, call.value.get(), call.data.clone());
    let access_list = access_list(call);
    match (plan.fees, call.authorizations.is_empty()) {
        (Fees::Eip1559 { max_fee, max_priority_fee }, _) if max_priority_fee > max_fee => {
            refused("the priority fee is above the maximum fee")
        }
        (Fees::Legacy { .. }, false) => refused("a transaction with authorizations needs EIP-1559 fees"),
        (Fees::Eip1559 { max_fee, max_priority_fee }, false) => {
            let Some(to) = call.to else {
                return refused("a transaction with authorizations cannot create a contract");
            };
            Ok(UnsignedTx::Eip7702(TxEip7702 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: max_fee,
                max_priority_fee_per_gas: max_priority_fee,
                to,
                value,
                access_list,
                authorization_list: authorizations(call),
                input,
            }))
        }
        (Fees::Eip1559 { max_fee, max_priority_fee }, true) => Ok(UnsignedTx::Eip1559(TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: max_fee,
            max_priority_fee_per_gas: max_priority_fee,
            to,
            value,
            access_list,
            input,
        })),
        (Fees::Legacy { gas_price }, true) if call.access_list.is_empty() => {
            let chain_id = Some(chain_id);
            Ok(UnsignedTx::Legacy(TxLegacy { chain_id, nonce, gas_price, gas_limit, to, value, input }))
        }
        (Fees::Legacy { gas_price }, true) => {
            Ok(UnsignedTx::Eip2930(TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, access_list, input }))
        }
    }
}

/// The maximum size of a transaction for this call, without its signature. The fields of the call are counted as they
/// are. Nonce, gas limit and prices are not known yet and are counted at their widest. The type is the longest that the
/// call may get.
pub(crate) fn unsigned_size(call: &EvmCall, chain_id: u64) -> usize {
    let (nonce, gas_limit, price) = (u64::MAX, u64::MAX, u128::MAX);
    let (value, input, access_list) = (call.value.get(), call.data.clone(), access_list(call));
    let to = call.to.unwrap_or_default();
    let unsigned = if call.authorizations.is_empty() {
        UnsignedTx::Eip1559(TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: price,
            max_priority_fee_per_gas: price,
            to: TxKind::Call(to),
            value,
            access_list,
            input,
        })
    } else {
        UnsignedTx::Eip7702(TxEip7702 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: price,
            max_priority_fee_per_gas: price,
            to,
            value,
            access_list,
            authorization_list: authorizations(call),
            input,
        })
    };
    unsigned.payload_len_for_signature()
}

/// The bytes whose hash is signed.
pub(crate) fn signing_bytes(unsigned: &UnsignedTx) -> Bytes {
    unsigned.encoded_for_signing().into()
}

pub(crate) fn signing_hash(unsigned: &UnsignedTx) -> B256 {
    unsigned.signature_hash()
}

/// The raw bytes of a signed transaction.
pub(crate) fn with_signature(unsigned: &UnsignedTx, signature: Signature) -> Bytes {
    unsigned.clone().into_envelope(signature).encoded_2718().into()
}

/// Verifies that signed bytes carry exactly this plan, signed by the key of the submitter.
pub(crate) fn verify(plan: &TxPlan, unsigned: &UnsignedTx, raw: Bytes) -> Result<SignedTx, SignerError> {
    let (signed, envelope) = verify_plan(plan, unsigned, raw)?;
    let sender = plan.submitter.evm_address().ok_or(SignerError::Mismatch("sender"))?;
    // An s in the upper half is refused too (EIP-2).
    let signed_by = envelope.recover_signer().map_err(|_| SignerError::Mismatch("signature"))?;
    if signed_by == sender { Ok(signed) } else { Err(SignerError::Mismatch("sender")) }
}

/// Verifies signed bytes of a key in the memory of this process, whose account is `own`. The sender is not recovered:
/// the account was derived from the key, and recovery costs more than signing.
pub(crate) fn verify_own(
    plan: &TxPlan,
    unsigned: &UnsignedTx,
    raw: Bytes,
    own: Address,
) -> Result<SignedTx, SignerError> {
    let (signed, _) = verify_plan(plan, unsigned, raw)?;
    if plan.submitter.evm_address() == Some(own) { Ok(signed) } else { Err(SignerError::Mismatch("sender")) }
}

fn verify_plan(plan: &TxPlan, unsigned: &UnsignedTx, raw: Bytes) -> Result<(SignedTx, Envelope), SignerError> {
    let envelope = decode(&raw).ok_or(SignerError::Mismatch("encoding"))?;
    let Action::Evm(call) = &plan.action;
    let price = |tx: &dyn alloy_consensus::Transaction| {
        (tx.gas_price(), tx.max_fee_per_gas(), tx.max_priority_fee_per_gas(), tx.max_fee_per_blob_gas())
    };
    let fields = [
        ("type", unsigned.ty() == envelope.ty()),
        ("chain id", unsigned.chain_id() == envelope.chain_id()),
        ("nonce", plan.nonce.get() == envelope.nonce()),
        ("gas limit", plan.work.units == envelope.gas_limit()),
        ("fees", price(unsigned) == price(&envelope)),
        ("recipient", call.to == envelope.kind().to().copied()),
        ("value", call.value.get() == envelope.value()),
        ("data", call.data == *envelope.input()),
        ("access list", unsigned.access_list() == envelope.access_list()),
        ("authorizations", unsigned.authorization_list() == envelope.authorization_list()),
    ];
    if let Some((field, _)) = fields.iter().find(|(_, same)| !same) {
        return Err(SignerError::Mismatch(field));
    }
    Ok((SignedTx { hash: keccak256(&raw), raw }, envelope))
}

/// Decodes a transaction that encodes to the same bytes again. A second encoding would have a second hash.
fn decode(raw: &Bytes) -> Option<Envelope> {
    let envelope = Envelope::decode_2718_exact(raw).ok()?;
    (envelope.encoded_2718() == raw.as_ref()).then_some(envelope)
}

fn access_list(call: &EvmCall) -> AccessList {
    let item = |item: &gapless_domain::AccessListItem| AccessListItem {
        address: item.address,
        storage_keys: item.storage_keys.clone(),
    };
    AccessList(call.access_list.iter().map(item).collect())
}

fn authorizations(call: &EvmCall) -> Vec<SignedAuthorization> {
    let signed = |a: &gapless_domain::Authorization| {
        let inner = Authorization { chain_id: a.chain_id, address: a.address, nonce: a.nonce };
        SignedAuthorization::new_unchecked(inner, u8::from(a.y_parity), a.r, a.s)
    };
    call.authorizations.iter().map(signed).collect()
}

/// The call as parameter of `eth_estimateGas`. It has no price, because funds are checked by the lane.
pub(crate) fn call_object(from: Address, call: &EvmCall) -> serde_json::Value {
    let mut object = serde_json::json!({ "from": from, "value": quantity(call.value.get()), "data": call.data });
    if let Some(to) = call.to {
        object["to"] = serde_json::json!(to);
    }
    if !call.access_list.is_empty() {
        let item = |item: &gapless_domain::AccessListItem| {
            let (address, keys) = (item.address, &item.storage_keys);
            serde_json::json!({ "address": address, "storageKeys": keys })
        };
        object["accessList"] = call.access_list.iter().map(item).collect();
    }
    if !call.authorizations.is_empty() {
        let signed = |a: &gapless_domain::Authorization| {
            serde_json::json!({
                "chainId": quantity(a.chain_id), "address": a.address, "nonce": quantity(U256::from(a.nonce)),
                "yParity": quantity(U256::from(u8::from(a.y_parity))), "r": quantity(a.r), "s": quantity(a.s),
            })
        };
        object["authorizationList"] = call.authorizations.iter().map(signed).collect();
    }
    object
}

/// A number in the notation of JSON-RPC: hex without leading zeros.
pub(crate) fn quantity(value: U256) -> String {
    format!("{value:#x}")
}

#[cfg(test)]
mod tests;
