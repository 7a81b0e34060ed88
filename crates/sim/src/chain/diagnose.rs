//! The nonces that the pools of the endpoints show, from the answers that arrive.

use futures_util::future::join_all;
use gapless_chain::{ChainReader as _, EndpointHealth, PoolView, Reason, mempool_signal};
use gapless_domain::{B256, DiagnoseRequest, MempoolSignal, SubmitterId};

use super::client::{ChainClient, EndpointChain, EndpointResult};
use super::texts::RequestFailure;

/// Asks every endpoint that is neither avoided nor known to lag. Each request may be lost like any other.
pub(super) async fn diagnose(
    client: &ChainClient,
    account: &SubmitterId,
    asked: &[DiagnoseRequest],
) -> Vec<MempoolSignal> {
    let statuses = client.endpoints();
    let lags = |at: &usize| statuses.get(*at).is_some_and(|status| status.health == EndpointHealth::Lagging);
    let mut order = client.order();
    order.retain(|at| !lags(at));
    // Sorted by index, so that the result does not depend on which endpoint is the freshest.
    order.sort_unstable();
    let looks = order.into_iter().map(|endpoint| {
        let (account, asked) = (account.clone(), asked.to_vec());
        client.ask(endpoint, move |chain| chain.pool_views(&account, &asked))
    });
    let answers: Vec<EndpointResult<Vec<PoolView>>> = join_all(looks).await;
    let silent = PoolView { knows_ours: None, pending: None };
    let signal = |(at, request): (usize, &DiagnoseRequest)| {
        let pool_view =
            |answer: &EndpointResult<Vec<PoolView>>| answer.as_ref().ok().and_then(|all| all.get(at).copied());
        let pool_views: Vec<PoolView> = answers.iter().map(|answer| pool_view(answer).unwrap_or(silent)).collect();
        mempool_signal(request.nonce, &pool_views)
    };
    asked.iter().enumerate().map(signal).collect()
}

impl EndpointChain<'_> {
    pub(super) fn pool_views(&self, lane: &SubmitterId, asked: &[DiagnoseRequest]) -> EndpointResult<Vec<PoolView>> {
        let state = &self.state;
        let account =
            state.account(lane).ok_or_else(|| RequestFailure::answered(Reason::Unrecognized, "unknown account"))?;
        let view = self.account_view(lane, None);
        let pool = state.endpoints.get(self.endpoint).map(|endpoint| &endpoint.pool);
        // A mined or replaced transaction may stay in the pool until it is cleaned up. Such a transaction does not
        // count.
        let is_pooled = |hash: B256| {
            let mut held = pool.into_iter().flat_map(|pool| pool.of(account));
            held.any(|tx| tx.hash() == hash && tx.nonce >= view.latest.get())
        };
        let is_known = |hash: &B256| is_pooled(*hash) || state.tree.locate(self.head, *hash).is_some();
        let pool_view = |request: &DiagnoseRequest| {
            PoolView::new(request.hashes.iter().map(|hash| Some(is_known(hash))), Some(view.pending))
        };
        Ok(asked.iter().map(pool_view).collect())
    }
}
