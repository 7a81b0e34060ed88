//! `/healthz`, `/readyz`, `/metrics`, for operators. These routes are outside of the API's limits, so that a busy node
//! does not look dead.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use gapless_wire::{HealthView, Problem, ProblemCode};

use crate::problem::Refusal;
use crate::shared::Shared;

/// Liveness of the process.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "healthz",
    tag = "health",
    responses((status = 200, description = "The process is alive", body = HealthView))
)]
pub(super) async fn healthz() -> Json<HealthView> {
    Json(HealthView::ok())
}

/// Readiness of this node for requests.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "health",
    responses(
        (status = 200, description = "The node accepts requests", body = HealthView),
        (status = 503, description = "`shutting_down`, or `store_unavailable`", body = Problem),
    )
)]
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> Result<Json<HealthView>, Refusal> {
    if shared.app.drain.has_begun() {
        return Err(Refusal::later(ProblemCode::ShuttingDown, shared.app.limits.retry_after));
    }
    // An empty list would be answered without the database; an id that does not exist is one cheap read.
    let nobody = gapless_domain::TxId::from_uuid(uuid::Uuid::nil());
    match shared.app.store.get(&[nobody]).await {
        Ok(_) => Ok(Json(HealthView::ok())),
        Err(error) => Err(shared.store_failed(&error)),
    }
}

/// Metrics for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "health",
    responses((status = 200, description = "Metrics as Prometheus text", body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = (shared.app.metrics)();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
