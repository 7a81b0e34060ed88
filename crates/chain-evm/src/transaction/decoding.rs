//! Decoding signed transactions.
//!
//! No statement about a transaction is trusted. It is encoded as bytes, and hash and sender are computed from these.

use alloy_consensus::Transaction as _;
use alloy_consensus::transaction::SignerRecoverable as _;
use alloy_eips::eip2718::Encodable2718 as _;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use gapless_chain::UnreadableTx;
use gapless_domain::{
    AccessListItem, Action, Amount, Authorization, ChainId, ChainRules as _, EvmCall, EvmRules, Fees, NodeText, Nonce,
    Outline, SignedPlan, SignedTx, TxPlan, Work,
};

use super::{Envelope, decode};

/// Decodes the bytes that a caller submits. Transactions that a plan cannot express are refused: blobs, a missing chain
/// id (the transaction would be valid on any chain), invalid authorizations.
pub(crate) fn read_signed(raw: &Bytes, chain: &ChainId) -> Result<SignedPlan, UnreadableTx> {
    let envelope = decode(raw).ok_or_else(|| unreadable("the type is unknown, or the length is wrong"))?;
    match (envelope.chain_id(), chain.evm_number()) {
        (Some(chain_id), Some(ours)) if chain_id == ours => {}
        (Some(chain_id), _) => return Err(unreadable(&format!("the transaction is for chain {chain_id}"))),
        (None, _) => return Err(unreadable("the transaction has no chain id")),
    }
    if envelope.is_eip4844() {
        return Err(unreadable("transactions with blobs are not supported"));
    }
    if envelope.authorization_list().unwrap_or_default().iter().any(|signed| signed.y_parity() > 1) {
        return Err(unreadable("the signature of an authorization has an invalid parity"));
    }
    plan_of(&envelope, raw.clone(), chain)
}

/// Decodes a mined transaction from the fields that a node returned. Every transaction that the chain accepted is read,
/// also of a kind that Gapless does not send. `None` unless the fields encode to the transaction with this hash, signed
/// by `sender`.
pub(crate) fn read_mined(fields: &str, hash: B256, sender: Address, chain: &ChainId) -> Option<SignedPlan> {
    let envelope: Envelope = serde_json::from_str(fields).ok()?;
    let raw = Bytes::from(envelope.encoded_2718());
    // The hash in the envelope may come from the fields, so the bytes are decoded again.
    let read = plan_of(&decode(&raw)?, raw, chain).ok()?;
    (read.signed.hash == hash && read.plan.submitter.evm_address() == Some(sender)).then_some(read)
}

/// The outline of signed bytes of our own. The signer is not recovered, because there may be thousands.
pub(crate) fn outline_of(raw: &Bytes) -> Option<Outline> {
    let envelope = decode(raw)?;
    // Blobs cost more than gas, and Gapless sends none.
    if envelope.is_eip4844() {
        return None;
    }
    let (action, work) = (Action::Evm(call_of(&envelope)), Work::new(envelope.gas_limit()));
    let cost = EvmRules.worst_cost(&action, work, fees(&envelope), Amount::ZERO);
    Some(Outline { action, work, cost })
}

fn call_of(envelope: &Envelope) -> EvmCall {
    EvmCall {
        to: envelope.kind().to().copied(),
        value: Amount::new(envelope.value()),
        data: envelope.input().clone(),
        gas_limit: None,
        fees: None,
        access_list: access_list(envelope),
        authorizations: authorizations(envelope),
    }
}

fn plan_of(envelope: &Envelope, raw: Bytes, chain: &ChainId) -> Result<SignedPlan, UnreadableTx> {
    // An s in the upper half is refused too (EIP-2).
    let sender = envelope.recover_signer().map_err(|_| unreadable("the signature is invalid"))?;
    let submitter = format!("{chain}:{sender}").parse().map_err(|_| unreadable("the sender is no valid submitter"))?;
    let nonce = Nonce::new(envelope.nonce()).map_err(|_| unreadable("the nonce is out of range"))?;
    let (action, work) = (Action::Evm(call_of(envelope)), Work::new(envelope.gas_limit()));
    let plan = TxPlan { submitter, nonce, action, work, fees: fees(envelope) };
    Ok(SignedPlan { plan, signed: SignedTx { hash: keccak256(&raw), raw } })
}

fn fees(envelope: &Envelope) -> Fees {
    match (envelope.gas_price(), envelope.max_priority_fee_per_gas()) {
        (Some(gas_price), _) => Fees::Legacy { gas_price },
        (None, tip) => Fees::Eip1559 { max_fee: envelope.max_fee_per_gas(), max_priority_fee: tip.unwrap_or_default() },
    }
}

fn access_list(envelope: &Envelope) -> Vec<AccessListItem> {
    let items = envelope.access_list().map(|list| list.0.as_slice()).unwrap_or_default();
    let item = |item: &alloy_eips::eip2930::AccessListItem| AccessListItem {
        address: item.address,
        storage_keys: item.storage_keys.clone(),
    };
    items.iter().map(item).collect()
}

fn authorizations(envelope: &Envelope) -> Vec<Authorization> {
    let signed = |signed: &alloy_eips::eip7702::SignedAuthorization| Authorization {
        chain_id: *signed.chain_id(),
        address: *signed.address(),
        nonce: signed.nonce(),
        y_parity: signed.y_parity() != 0,
        r: signed.r(),
        s: signed.s(),
    };
    envelope.authorization_list().unwrap_or_default().iter().map(signed).collect()
}

fn unreadable(why: &str) -> UnreadableTx {
    UnreadableTx(NodeText::new(why))
}
