//! Gas estimates, in as few requests as possible.
//!
//! The estimates of one batch go out in one request. A plain transfer (value to an account without code) costs the
//! intrinsic gas of a transaction and nothing else. Once an estimate has shown that the chain charges exactly this, a
//! plain transfer needs no estimate: only the code of its recipient is read, once for each block. On a chain with
//! another price of a transfer (Arbitrum, zkSync, Hedera, Frontier) every transfer is estimated.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use gapless_chain::{ChainError, Classified, Verdict};
use gapless_domain::{BlockRef, EvmCall};
use tokio::time::Instant;

use crate::classify::Family;
use crate::endpoint::{Endpoint, now};
use crate::endpoints::Endpoints;
use crate::read;

/// The gas of every transaction without data, access list and authorizations.
const INTRINSIC_GAS: u64 = 21_000;
/// The cost of a plain transfer is estimated again after this time, because a fork may change it.
const COST_FOR: Duration = Duration::from_secs(10 * 60);
/// The number of plain recipients that are remembered.
const MAX_RECIPIENTS: usize = 10_000;
/// Addresses with so many leading zero bytes may be precompiled contracts, which have no code and cost gas.
const PRECOMPILE_ZEROS: usize = 16;

/// The estimates of one chain.
#[derive(Debug)]
pub(crate) struct Estimates {
    /// By configuration, the gas of a transfer includes a price of data that changes.
    varies: bool,
    transfers: Mutex<PlainTransfers>,
}

#[derive(Debug, Default)]
struct PlainTransfers {
    /// The time until which a plain transfer is known to cost [`INTRINSIC_GAS`].
    cost_until: Option<Instant>,
    /// Recipients without code, and the block at which they had none. In a later block a recipient may have code: a
    /// contract, or a delegation (EIP-7702).
    plain_at: HashMap<Address, BlockRef>,
}

/// The request for the gas of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GasRequest {
    /// No request: the cost is known.
    Known,
    /// The code of the recipient. A recipient with code needs an estimate.
    Code(Address),
    Estimate,
}

impl Estimates {
    pub(crate) fn new(varies: bool) -> Self {
        Estimates { varies, transfers: Mutex::default() }
    }

    /// The gas of each call on top of `at`. A call that fails at one endpoint for another reason than a revert is asked
    /// again at another one.
    pub(crate) async fn of(
        &self,
        endpoints: &Endpoints,
        from: Address,
        calls: &[&EvmCall],
        at: BlockRef,
    ) -> Vec<Result<u64, ChainError>> {
        let is_known = |call: &&EvmCall| self.request(call, at) == GasRequest::Known;
        if calls.iter().all(is_known) {
            return vec![Ok(INTRINSIC_GAS); calls.len()];
        }
        let answers: Mutex<Vec<Option<Result<u64, Classified>>>> = Mutex::new(vec![None; calls.len()]);
        let ask = |endpoint: Arc<Endpoint>| {
            let answers = &answers;
            async move {
                let is_open = |answer: &Option<Result<u64, Classified>>| match answer {
                    None => true,
                    Some(answer) => answer.as_ref().is_err_and(|failed| failed.verdict != Verdict::Reverted),
                };
                let open: Vec<usize> =
                    locked(answers).iter().enumerate().filter(|(_, a)| is_open(a)).map(|(at, _)| at).collect();
                let asked: Vec<&EvmCall> = open.iter().filter_map(|at| calls.get(*at).copied()).collect();
                let given = self.ask(&endpoint, from, &asked, at).await;
                let mut answers = locked(answers);
                for (at, answer) in open.into_iter().zip(given) {
                    if let Some(slot) = answers.get_mut(at) {
                        *slot = Some(answer);
                    }
                }
                match answers.iter().find(|answer| is_open(answer)) {
                    Some(Some(Err(failed))) => Err(failed.clone()),
                    _ => Ok(()),
                }
            }
        };
        let read = endpoints.read(ask).await;
        let unasked = || read.clone().err().unwrap_or_else(|| ChainError { classified: endpoints.no_endpoint() });
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let conclude = |answer: Option<Result<u64, Classified>>| match answer {
            Some(answer) => answer.map_err(|classified| ChainError { classified }),
            None => Err(unasked()),
        };
        answers.into_iter().map(conclude).collect()
    }

    /// Asks one endpoint: codes and estimates together, then the estimates of recipients that have code.
    async fn ask(
        &self,
        endpoint: &Endpoint,
        from: Address,
        calls: &[&EvmCall],
        at: BlockRef,
    ) -> Vec<Result<u64, Classified>> {
        let requests: Vec<GasRequest> = calls
            .iter()
            .map(|call| match self.request(call, at) {
                GasRequest::Code(_) if !endpoint.capabilities().code => GasRequest::Estimate,
                request => request,
            })
            .collect();
        let codes: BTreeSet<Address> = requests.iter().filter_map(GasRequest::recipient).collect();
        let codes: Vec<Address> = codes.into_iter().collect();
        let is_estimated = |(request, _): &(&GasRequest, &&EvmCall)| **request == GasRequest::Estimate;
        let estimated: Vec<&EvmCall> = requests.iter().zip(calls).filter(is_estimated).map(|(_, call)| *call).collect();
        let (codes, estimates) = read::codes_and_estimates(endpoint, &codes, from, &estimated, at).await;
        let mut estimates = estimates.into_iter();
        let mut answers: Vec<Option<Result<u64, Classified>>> = Vec::with_capacity(calls.len());
        for (request, call) in requests.iter().zip(calls) {
            answers.push(match request {
                GasRequest::Known => Some(Ok(INTRINSIC_GAS)),
                GasRequest::Estimate => Some(estimates.next().unwrap_or_else(|| Err(endpoint.unreadable("")))),
                GasRequest::Code(recipient) => match codes.get(recipient) {
                    Some(Ok(false)) => Some(Ok(INTRINSIC_GAS)),
                    // An estimate also answers for a recipient whose code could not be read.
                    Some(Ok(true) | Err(_)) | None => None,
                },
            });
            if let (Some(Some(Ok(gas))), GasRequest::Code(_) | GasRequest::Estimate) = (answers.last(), request)
                && !transfers_differ(endpoint.family())
            {
                self.note(call, *gas, at);
            }
        }
        let is_open = |(answer, _): &(&Option<_>, &&EvmCall)| answer.is_none();
        let open: Vec<&EvmCall> = answers.iter().zip(calls).filter(is_open).map(|(_, call)| *call).collect();
        if !open.is_empty() {
            let (_, estimates) = read::codes_and_estimates(endpoint, &[], from, &open, at).await;
            let mut estimates = estimates.into_iter();
            answers.iter_mut().filter(|answer| answer.is_none()).for_each(|answer| *answer = estimates.next());
        }
        answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(endpoint.unreadable("")))).collect()
    }

    fn request(&self, call: &EvmCall, at: BlockRef) -> GasRequest {
        let Some(recipient) = plain_recipient(call).filter(|_| !self.varies) else { return GasRequest::Estimate };
        let transfers = self.transfers();
        if transfers.cost_until.is_none_or(|until| until <= now()) {
            return GasRequest::Estimate;
        }
        if transfers.plain_at.get(&recipient) == Some(&at) { GasRequest::Known } else { GasRequest::Code(recipient) }
    }

    /// Notes the gas of a call on top of a block. Exactly the intrinsic gas means that no code was executed.
    fn note(&self, call: &EvmCall, gas: u64, at: BlockRef) {
        let Some(recipient) = plain_recipient(call).filter(|_| gas == INTRINSIC_GAS && !self.varies) else { return };
        let now = now();
        let mut transfers = self.transfers();
        if transfers.cost_until.is_none_or(|until| until <= now) {
            transfers.cost_until = Some(now + COST_FOR);
        }
        if transfers.plain_at.len() >= MAX_RECIPIENTS {
            transfers.plain_at.retain(|_, block| *block == at);
        }
        if transfers.plain_at.len() < MAX_RECIPIENTS {
            transfers.plain_at.insert(recipient, at);
        }
    }

    fn transfers(&self) -> MutexGuard<'_, PlainTransfers> {
        locked(&self.transfers)
    }
}

impl GasRequest {
    fn recipient(&self) -> Option<Address> {
        match self {
            GasRequest::Code(recipient) => Some(*recipient),
            GasRequest::Known | GasRequest::Estimate => None,
        }
    }
}

/// The clients of chains on which transfers differ in gas: by a price of data, which may be zero for a while (Arbitrum,
/// zkSync), or because a transfer to a new account creates the account (Hedera, Frontier).
fn transfers_differ(family: Option<Family>) -> bool {
    matches!(family, Some(Family::Arbitrum | Family::Zksync | Family::Hedera | Family::Frontier))
}

/// The recipient of a call that is a plain transfer if the recipient has no code.
fn plain_recipient(call: &EvmCall) -> Option<Address> {
    let is_bare = call.data.is_empty() && call.access_list.is_empty() && call.authorizations.is_empty();
    let may_be_precompile = |to: &Address| to.iter().take(PRECOMPILE_ZEROS).all(|byte| *byte == 0);
    call.to.filter(|to| is_bare && !may_be_precompile(to))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;

    #[test]
    fn plain_transfer_has_recipient_and_no_payload() {
        let recipient = Address::repeat_byte(7);
        let plain = EvmCall { to: Some(recipient), ..EvmCall::default() };
        assert_eq!(plain_recipient(&plain), Some(recipient));
        let precompile = EvmCall { to: Some(Address::with_last_byte(2)), ..EvmCall::default() };
        let with_data = EvmCall { data: Bytes::from_static(&[1]), ..plain };
        for call in [EvmCall::default(), precompile, with_data] {
            assert_eq!(plain_recipient(&call), None, "{call:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn known_cost_and_recipient_expire() {
        let call = EvmCall { to: Some(Address::repeat_byte(7)), ..EvmCall::default() };
        let estimates = Estimates::new(false);
        let block = |number| BlockRef { number, hash: alloy_primitives::B256::with_last_byte(number as u8) };
        assert_eq!(estimates.request(&call, block(1)), GasRequest::Estimate);
        estimates.note(&call, INTRINSIC_GAS + 1, block(1));
        assert_eq!(estimates.request(&call, block(1)), GasRequest::Estimate);
        estimates.note(&call, INTRINSIC_GAS, block(1));
        assert_eq!(estimates.request(&call, block(1)), GasRequest::Known);
        assert_eq!(estimates.request(&call, block(2)), GasRequest::Code(Address::repeat_byte(7)));
        // A code that was read renews the recipient and not the cost.
        estimates.note(&call, INTRINSIC_GAS, block(2));
        tokio::time::advance(COST_FOR).await;
        assert_eq!(estimates.request(&call, block(2)), GasRequest::Estimate);
        let varying = Estimates::new(true);
        varying.note(&call, INTRINSIC_GAS, block(1));
        assert_eq!(varying.request(&call, block(1)), GasRequest::Estimate);
    }

    #[test]
    fn remembered_recipients_are_bounded() {
        let estimates = Estimates::new(false);
        for number in 0..MAX_RECIPIENTS as u64 + 10 {
            let mut address = Address::repeat_byte(7);
            address[12..].copy_from_slice(&number.to_be_bytes());
            let call = EvmCall { to: Some(address), ..EvmCall::default() };
            estimates.note(&call, INTRINSIC_GAS, BlockRef { number: 1, hash: alloy_primitives::B256::ZERO });
        }
        assert_eq!(estimates.transfers().plain_at.len(), MAX_RECIPIENTS);
    }
}
