//! `/healthz`, `/readyz`, `/metrics`: for whoever runs the node. They stand outside the limits of the API, so that a node
//! that is full is not taken for a dead one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use gapless_wire::{HealthView, Problem, ProblemCode};

use crate::problem::Refusal;
use crate::shared::Shared;

/// Is the process alive?
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "healthz",
    tag = "health",
    responses((status = 200, description = "It is", body = HealthView))
)]
pub(super) async fn healthz() -> Json<HealthView> {
    Json(HealthView::ok())
}

/// Should this node get requests?
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "health",
    responses(
        (status = 200, description = "It should", body = HealthView),
        (status = 503, description = "`shutting_down`, or `store_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> Result<Json<HealthView>, Refusal> {
    if shared.app.drain.has_begun() {
        return Err(Refusal::later(ProblemCode::ShuttingDown, shared.app.limits.retry_after));
    }
    // Asking for nothing would answer without a database; an id that nobody has is one cheap look.
    let nobody = gapless_domain::TxId::from_uuid(uuid::Uuid::nil());
    match shared.app.views.get(&[nobody]).await {
        Ok(_) => Ok(Json(HealthView::ok())),
        Err(error) => Err(shared.store_failed(&error)),
    }
}

/// Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "health",
    responses((status = 200, description = "Metrics, in the text format of Prometheus", body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = (shared.app.metrics)();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
