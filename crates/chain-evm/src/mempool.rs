//! What all good endpoints' pools show of one account, as one signal for each nonce.

use alloy_primitives::{Address, B256};
use futures_util::future::join_all;
use gapless_chain::{PoolSight, mempool_signal};
use gapless_domain::{DiagnoseRequest, MempoolSignal};

use crate::endpoints::Endpoints;
use crate::read::{self, PoolAnswers};

/// Hashes that are looked for at once. Whatever comes after so many is not asked about, and unknown.
const MAX_HASHES: usize = 1_000;

/// Asks all of them at the same time: a look takes as long as the slowest of them, and at most about two time-outs.
pub(crate) async fn diagnose(endpoints: &Endpoints, account: Address, asked: &[DiagnoseRequest]) -> Vec<MempoolSignal> {
    if asked.is_empty() {
        return Vec::new();
    }
    let mut hashes: Vec<B256> = Vec::new();
    let mut spans = Vec::with_capacity(asked.len());
    for request in asked {
        let start = hashes.len();
        if start + request.hashes.len() <= MAX_HASHES {
            hashes.extend(&request.hashes);
            spans.push(Some(start..hashes.len()));
        } else {
            spans.push(None);
        }
    }
    let hashes = hashes.as_slice();
    let looks = endpoints.good().await.into_iter().map(async |endpoint| read::pool(&endpoint, account, hashes).await);
    let answers: Vec<PoolAnswers> = join_all(looks).await;
    let signal = |(request, span): (&DiagnoseRequest, Option<std::ops::Range<usize>>)| {
        let Some(span) = span else { return MempoolSignal::Unknown };
        let sight = |answers: &PoolAnswers| {
            // What is missing from the answers was not answered.
            let known = span.clone().map(|at| answers.known.get(at).copied().flatten());
            PoolSight::new(known, answers.pending)
        };
        let sights: Vec<PoolSight> = answers.iter().map(sight).collect();
        mempool_signal(request.nonce, &sights)
    };
    asked.iter().zip(spans).map(signal).collect()
}
