//! `POST /api/v1/store/declare-lost` and `…/declare-reconciled`: what only an operator knows of the database.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use gapless_domain::NodeText;
use gapless_wire::{DeclareRequest, StoreDeclarationName, StoreDeclared};

use crate::auth::Caller;
use crate::extract::{JsonBody, Query};
use crate::problem::Refusal;
use crate::shared::Shared;

/// Declare that the database was restored or has lost commits.
///
/// Every submitter goes into PROTECT (`store_regressed`) before it writes anything else, takes no new request and ends
/// nothing, until it is resynced. A loss that shows by itself (another server, a counter that went back) is declared
/// without an operator. Each call declares another loss.
#[utoipa::path(
    post,
    path = "/api/v1/store/declare-lost",
    operation_id = "declareLost",
    tag = "store",
    request_body = DeclareRequest,
    responses((status = 200, description = "Declared, and written into the audit log", body = StoreDeclared))
)]
pub(super) async fn declare_lost(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    body: JsonBody<DeclareRequest>,
) -> Result<Json<StoreDeclared>, Refusal> {
    query.finish()?;
    let JsonBody(request) = body;
    let reason = request.read()?;
    let declared = shared.app.upkeep.declare_lost(&NodeText::new(caller.name()), &reason).await;
    declared.map_err(|error| shared.store_failed(&error))?;
    tracing::warn!(issued_by = caller.name(), reason, "the database was declared to have lost commits");
    Ok(Json(StoreDeclared { declared: StoreDeclarationName::Lost, reason }))
}

/// Declare that every loss of commits so far has been looked into.
///
/// Until then, a submitter that is registered for the first time counts as older than the loss, and begins in PROTECT.
/// Submitters that are in PROTECT stay there: each is resynced by itself.
#[utoipa::path(
    post,
    path = "/api/v1/store/declare-reconciled",
    operation_id = "declareReconciled",
    tag = "store",
    request_body = DeclareRequest,
    responses((status = 200, description = "Declared, and written into the audit log", body = StoreDeclared))
)]
pub(super) async fn declare_reconciled(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    body: JsonBody<DeclareRequest>,
) -> Result<Json<StoreDeclared>, Refusal> {
    query.finish()?;
    let JsonBody(request) = body;
    let reason = request.read()?;
    let declared = shared.app.upkeep.declare_reconciled(&NodeText::new(caller.name()), &reason).await;
    declared.map_err(|error| shared.store_failed(&error))?;
    tracing::warn!(issued_by = caller.name(), reason, "the losses of the database were declared reconciled");
    Ok(Json(StoreDeclared { declared: StoreDeclarationName::Reconciled, reason }))
}
