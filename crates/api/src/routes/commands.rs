//! `POST …/pause`, `…/resume`, and what became of a command.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{CommandId, CommandKind, CommandStatus, NewCommand, NodeText};
use gapless_wire::{CommandView, Problem, ProblemCode};

use super::{submitters, wait};
use crate::auth::Caller;
use crate::extract::{PathText, Query};
use crate::problem::Refusal;
use crate::shared::{InFlight, Shared};

/// Pause a submitter.
///
/// It binds nothing new until it is resumed; what is under way goes on, and requests are still accepted.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/pause",
    operation_id = "pauseSubmitter",
    tag = "submitters",
    params(
        ("submitter" = String, Path, description = "CAIP-10 or alias"),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s|m)$", description = "Wait this long for it to be done"),
    ),
    responses(
        (status = 202, description = "Written down; the lane will come to it", body = CommandView),
        (status = 200, description = "Done", body = CommandView),
        (status = 404, description = "`unknown_submitter`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
) -> Result<(StatusCode, Json<CommandView>), Refusal> {
    put(&shared, &in_flight, &caller, &path, query, CommandKind::Pause).await
}

/// Resume a submitter that was paused.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/resume",
    operation_id = "resumeSubmitter",
    tag = "submitters",
    params(
        ("submitter" = String, Path, description = "CAIP-10 or alias"),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s|m)$", description = "Wait this long for it to be done"),
    ),
    responses(
        (status = 202, description = "Written down; the lane will come to it", body = CommandView),
        (status = 200, description = "Done", body = CommandView),
        (status = 404, description = "`unknown_submitter`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
) -> Result<(StatusCode, Json<CommandView>), Refusal> {
    put(&shared, &in_flight, &caller, &path, query, CommandKind::Resume).await
}

/// Look at a command.
#[utoipa::path(
    get,
    path = "/api/v1/commands/{commandId}",
    operation_id = "getCommand",
    tag = "submitters",
    params(("commandId" = String, Path, pattern = "^[0-9]{1,19}$", description = "The id that was given when it was written down")),
    responses(
        (status = 200, description = "What became of it", body = CommandView),
        (status = 404, description = "`command_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn command(
    State(shared): State<Arc<Shared>>,
    path: PathText,
    query: Query,
) -> Result<Json<CommandView>, Refusal> {
    query.finish()?;
    let id = CommandId(path.number("commandId")?);
    // Both databases keep it as a signed number; a larger one was never given out.
    if i64::try_from(id.0).is_err() {
        return Err(Refusal::of(ProblemCode::CommandNotFound));
    }
    let status = wait::status(&shared, id).await?;
    Ok(Json(CommandView::new(id, &status)))
}

async fn put(
    shared: &Shared,
    in_flight: &InFlight,
    caller: &Caller,
    path: &PathText,
    mut query: Query,
    kind: CommandKind,
) -> Result<(StatusCode, Json<CommandView>), Refusal> {
    let wait = query.wait(&shared.app.limits);
    query.finish()?;
    let (submitter, _) = submitters::find(shared, path).await?;
    let name = kind.as_str();
    let new = NewCommand { submitter: submitter.clone(), kind, issued_by: NodeText::new(caller.name()) };
    let put = shared.app.store.put_commands(&[new]).await.map_err(|error| shared.store_failed(&error))?;
    let id = put.first().copied().ok_or_else(|| Refusal::of(ProblemCode::Internal))?;
    tracing::info!(%submitter, command = name, id = id.0, issued_by = caller.name(), "a command was written down");
    let status = match wait {
        Some(wait) => wait::for_command(shared, in_flight, &submitter, id, wait).await?,
        None => CommandStatus::Open,
    };
    let code = if status == CommandStatus::Open { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((code, Json(CommandView::new(id, &status))))
}
