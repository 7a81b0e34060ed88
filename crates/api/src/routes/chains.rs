//! `GET /api/v1/chains` and `…/{chain}`: this node's view of the chains; `…/accept`: accept a changed chain.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use gapless_chain::{EndpointHealth, EndpointStatus};
use gapless_domain::NodeText;
use gapless_wire::{
    AcceptChainRequest, ChainAccepted, ChainTroubleView, ChainView, EndpointStandingName, EndpointView, HeadView,
    Problem, ProblemCode,
};

use super::parameters::ChainPath;
use crate::auth::Caller;
use crate::extract::{JsonBody, PathText, Query};
use crate::ports::ChainInfo;
use crate::problem::Refusal;
use crate::shared::Shared;

/// List chains with their heads, final blocks and endpoints, as this node sees them.
#[utoipa::path(
    get,
    path = "/api/v1/chains",
    operation_id = "listChains",
    tag = "chains",
    responses((status = 200, description = "Every chain of the config", body = Vec<ChainView>))
)]
pub(super) async fn list_chains(
    State(shared): State<Arc<Shared>>,
    query: Query,
) -> Result<Json<Vec<ChainView>>, Refusal> {
    query.finish()?;
    Ok(Json(shared.app.chains.all().into_iter().map(view).collect()))
}

/// Read a chain, as this node sees it.
#[utoipa::path(
    get,
    path = "/api/v1/chains/{chain}",
    operation_id = "getChain",
    tag = "chains",
    params(ChainPath),
    responses(
        (status = 200, description = "The chain as this node sees it", body = ChainView),
        (status = 404, description = "`unknown_chain`", body = Problem),
    )
)]
pub(super) async fn chain(
    State(shared): State<Arc<Shared>>,
    path: PathText,
    query: Query,
) -> Result<Json<ChainView>, Refusal> {
    query.finish()?;
    let found = shared.app.chains.one(&path.chain()?);
    Ok(Json(view(found.ok_or_else(|| Refusal::of(ProblemCode::UnknownChain))?)))
}

/// Accept a chain as it is now: another chain than before, or one that went back behind a final block.
///
/// The stored genesis, head and final block are forgotten. The chain's submitters stay in PROTECT until they are
/// resynced. The usual case is a dev chain that was started anew; on a real chain, make sure first that no endpoint
/// lies.
#[utoipa::path(
    post,
    path = "/api/v1/chains/{chain}/accept",
    operation_id = "acceptChain",
    tag = "chains",
    params(ChainPath),
    request_body = AcceptChainRequest,
    responses(
        (status = 200, description = "The old chain is forgotten; the audit log has an entry", body = ChainAccepted),
        (status = 404, description = "`unknown_chain`", body = Problem),
    )
)]
pub(super) async fn accept_chain(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
    body: JsonBody<AcceptChainRequest>,
) -> Result<Json<ChainAccepted>, Refusal> {
    query.finish()?;
    let JsonBody(request) = body;
    let reason = request.read()?;
    let chain = path.chain()?;
    if shared.app.chains.one(&chain).is_none() {
        return Err(Refusal::of(ProblemCode::UnknownChain));
    }
    let by = NodeText::new(caller.name());
    let forgotten = shared.app.store.forget_head(&chain, &by, &reason).await;
    forgotten.map_err(|error| shared.store_failed(&error))?;
    tracing::warn!(%chain, issued_by = caller.name(), reason, "chain accepted, stored head deleted");
    Ok(Json(ChainAccepted { chain: chain.to_string(), reason }))
}

fn view(chain: ChainInfo) -> ChainView {
    ChainView {
        chain: chain.id.to_string(),
        head: chain.head.map(|head| HeadView {
            block_number: head.block.number,
            block_hash: head.block.hash.to_string(),
            age_ms: millis(head.age),
        }),
        final_block: chain.final_block.map(Into::into),
        finality: chain.finality,
        required_confirmations: chain.required_confirmations,
        block_time_ms: chain.block_time.map(millis),
        trouble: chain.trouble.as_ref().map(ChainTroubleView::from),
        open_transactions: chain.open_hashes as u64,
        lanes: chain.lanes as u64,
        endpoints: chain.endpoints.into_iter().map(endpoint_view).collect(),
    }
}

fn endpoint_view(endpoint: EndpointStatus) -> EndpointView {
    EndpointView {
        healthy: endpoint.is_healthy(),
        name: endpoint.name,
        weight: endpoint.weight,
        standing: standing(endpoint.health),
        block_number: endpoint.head,
        head_age_ms: endpoint.head_age.map(millis),
        lag_blocks: endpoint.lag,
        errors_permille: endpoint.errors_permille,
        latency_ms: endpoint.latency.map(millis),
        in_flight: endpoint.in_flight as u64,
        trouble: endpoint.last_error,
    }
}

fn standing(standing: EndpointHealth) -> EndpointStandingName {
    match standing {
        EndpointHealth::Good => EndpointStandingName::Good,
        EndpointHealth::Unchecked => EndpointStandingName::Unchecked,
        EndpointHealth::Lagging => EndpointStandingName::Lagging,
        EndpointHealth::Down => EndpointStandingName::Down,
        EndpointHealth::RateLimited => EndpointStandingName::RateLimited,
        EndpointHealth::WrongChain => EndpointStandingName::WrongChain,
        EndpointHealth::Flipping => EndpointStandingName::Flipping,
    }
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
