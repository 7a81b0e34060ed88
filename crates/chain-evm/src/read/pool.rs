//! What an endpoint's pool shows of one account.

use alloy_primitives::{Address, B256};
use gapless_chain::Classified;
use gapless_domain::Nonce;
use serde::Deserialize;
use serde_json::json;

use super::{count, nonce, says_not_found};
use crate::endpoint::{Answer, Endpoint, now};
use crate::rpc::Call;

/// What came back; `None` is no answer, for whatever reason.
#[derive(Clone, Debug)]
pub(crate) struct PoolAnswers {
    pub(crate) pending: Option<Nonce>,
    /// Is it known, pending or mined? In the order of the hashes.
    pub(crate) known: Vec<Option<bool>>,
}

/// Only what says that it is the right one.
#[derive(Deserialize)]
struct TransactionRow {
    hash: B256,
}

/// The account's count and the hashes, in as few requests as they fit into. None of them is begun after the time for one is over.
pub(crate) async fn pool(endpoint: &Endpoint, account: Address, hashes: &[B256]) -> PoolAnswers {
    let by_hash = |hash: &B256| Call::new("eth_getTransactionByHash", json!([hash]));
    let calls: Vec<Call> = [count(&account, json!("pending"))].into_iter().chain(hashes.iter().map(by_hash)).collect();
    let until = now() + endpoint.timeout();
    let mut answers = endpoint.ask_few(&calls, usize::MAX, Some(until)).await.into_iter();
    let pending = answers.next().and_then(|answer| nonce(endpoint, answer).ok());
    let known = hashes.iter().zip(answers).map(|(hash, answer)| is_known(endpoint, *hash, answer).ok()).collect();
    PoolAnswers { pending, known }
}

fn is_known(endpoint: &Endpoint, hash: B256, answer: Answer) -> Result<bool, Classified> {
    match answer {
        Ok(raw) => match endpoint.read::<Option<TransactionRow>>(&raw)? {
            None => Ok(false),
            Some(row) if row.hash == hash => Ok(true),
            Some(_) => Err(endpoint.unreadable(raw.get())),
        },
        Err(classified) if says_not_found(&classified) => Ok(false),
        Err(classified) => Err(classified),
    }
}
