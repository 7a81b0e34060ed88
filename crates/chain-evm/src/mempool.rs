//! The mempool state of one account on all good endpoints, as one signal for each nonce.

use alloy_primitives::{Address, B256};
use futures_util::future::join_all;
use gapless_chain::{PoolView, mempool_signal};
use gapless_domain::{DiagnoseRequest, MempoolSignal};

use crate::endpoints::Endpoints;
use crate::read::{self, PoolAnswers};

/// Hashes in one request. Nonces beyond this limit are not looked up and are `Unknown`.
const MAX_HASHES: usize = 1_000;

/// Asks all good endpoints in parallel. The slowest one decides the duration, which is at most about two time-outs.
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
    let requests =
        endpoints.good().await.into_iter().map(async |endpoint| read::pool(&endpoint, account, hashes).await);
    let answers: Vec<PoolAnswers> = join_all(requests).await;
    let signal = |(request, span): (&DiagnoseRequest, Option<std::ops::Range<usize>>)| {
        let Some(span) = span else { return MempoolSignal::Unknown };
        let view = |answers: &PoolAnswers| {
            // A missing entry is a missing answer.
            let known = span.clone().map(|at| answers.known.get(at).copied().flatten());
            PoolView::new(known, answers.pending)
        };
        let views: Vec<PoolView> = answers.iter().map(view).collect();
        mempool_signal(request.nonce, &views)
    };
    asked.iter().zip(spans).map(signal).collect()
}
