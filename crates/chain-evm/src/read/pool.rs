//! The mempool of one endpoint, for one account.

use alloy_primitives::{Address, B256};
use gapless_chain::Classified;
use gapless_domain::Nonce;
use serde::Deserialize;
use serde_json::json;

use super::{count, is_not_found, nonce};
use crate::endpoint::{CallResult, Endpoint, now};
use crate::rpc::RpcCall;

/// The answers of one endpoint. `None` is a missing answer.
#[derive(Clone, Debug)]
pub(crate) struct PoolAnswers {
    pub(crate) pending: Option<Nonce>,
    /// Whether each transaction is known, pending or mined, in the order of the hashes.
    pub(crate) known: Vec<Option<bool>>,
}

/// The hash of a returned transaction, to check that it is the right one.
#[derive(Deserialize)]
struct PoolTransactionRow {
    hash: B256,
}

/// Reads the pending count of an account and looks up hashes. No request is begun after the time-out of one request.
pub(crate) async fn pool(endpoint: &Endpoint, account: Address, hashes: &[B256]) -> PoolAnswers {
    let by_hash = |hash: &B256| RpcCall::new("eth_getTransactionByHash", json!([hash]));
    let calls: Vec<RpcCall> =
        [count(&account, json!("pending"))].into_iter().chain(hashes.iter().map(by_hash)).collect();
    let until = now() + endpoint.timeout();
    let mut answers = endpoint.ask_limited(&calls, usize::MAX, Some(until)).await.into_iter();
    let pending = answers.next().and_then(|answer| nonce(endpoint, answer).ok());
    let known = hashes.iter().zip(answers).map(|(hash, answer)| is_known(endpoint, *hash, answer).ok()).collect();
    PoolAnswers { pending, known }
}

fn is_known(endpoint: &Endpoint, hash: B256, answer: CallResult) -> Result<bool, Classified> {
    match answer {
        Ok(raw) => match endpoint.read::<Option<PoolTransactionRow>>(&raw)? {
            None => Ok(false),
            Some(row) if row.hash == hash => Ok(true),
            Some(_) => Err(endpoint.unreadable(raw.get())),
        },
        Err(classified) if is_not_found(&classified) => Ok(false),
        Err(classified) => Err(classified),
    }
}
