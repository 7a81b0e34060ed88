//! `GET /api/v1/chains`: what this node sees of the chains.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gapless_wire::{ChainView, EndpointView, HeadView};

use crate::extract::Query;
use crate::ports::ChainInfo;
use crate::problem::Refusal;
use crate::shared::Shared;

/// List chains: their heads and endpoints, as this node sees them.
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

fn view(chain: ChainInfo) -> ChainView {
    let newest = chain.endpoints.iter().filter_map(|endpoint| endpoint.head_number).max();
    let endpoints = chain.endpoints.into_iter().map(|endpoint| EndpointView {
        name: endpoint.name,
        healthy: endpoint.healthy,
        block_number: endpoint.head_number,
        lag_blocks: newest.zip(endpoint.head_number).map(|(newest, own)| newest.saturating_sub(own)),
    });
    ChainView {
        chain: chain.id.to_string(),
        head: chain.head.map(|head| HeadView {
            block_number: head.number,
            block_hash: head.hash.to_string(),
            age_ms: u64::try_from(head.age.as_millis()).unwrap_or(u64::MAX),
        }),
        final_block: chain.final_number,
        endpoints: endpoints.collect(),
    }
}
