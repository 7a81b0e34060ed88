//! Operators' commands to lanes (pause, resume, unprotect, resync), and the result of a command.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{
    CommandId, CommandKind, CommandResult, CommandStatus, LostRule, NewCommand, NodeText, SubmitterId,
};
use gapless_wire::{CommandView, LostRuleName, Problem, ProblemCode, ResyncRequest};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::parameters::{CommandAnswers, SubmitterPath, WaitQuery};
use super::{submitters, wait};
use crate::auth::Caller;
use crate::extract::{OptionalJsonBody, PathText, Query};
use crate::problem::Refusal;
use crate::shared::{InFlight, Place, Shared};

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(unprotect))
        .routes(routes!(resync))
        .routes(routes!(command))
}

type Told = Result<(StatusCode, Json<CommandView>), Refusal>;

/// Pause a submitter.
///
/// The submitter binds no new nonce until it is resumed. Work in flight continues, and requests are still accepted.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/pause",
    operation_id = "pauseSubmitter",
    tag = "submitters",
    params(SubmitterPath, WaitQuery,),
    responses(CommandAnswers)
)]
async fn pause(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
) -> Told {
    put(&shared, &in_flight, &caller, &path, query, CommandKind::Pause).await
}

/// Resume a paused submitter.
///
/// Resume does not end PROTECT.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/resume",
    operation_id = "resumeSubmitter",
    tag = "submitters",
    params(SubmitterPath, WaitQuery,),
    responses(CommandAnswers)
)]
async fn resume(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
) -> Told {
    put(&shared, &in_flight, &caller, &path, query, CommandKind::Resume).await
}

/// Lead a submitter out of PROTECT.
///
/// Refused while the cause of PROTECT persists: `resync` resolves that.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/unprotect",
    operation_id = "unprotectSubmitter",
    tag = "submitters",
    params(SubmitterPath, WaitQuery,),
    responses(CommandAnswers)
)]
async fn unprotect(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
) -> Told {
    put(&shared, &in_flight, &caller, &path, query, CommandKind::Unprotect).await
}

/// Reconcile a submitter's ledger with its chain.
///
/// Only final data counts. Nonces that foreign transactions used are adopted with their evidence. A transaction on
/// chain that the ledger had lost is attached to its intent. Intents whose nonce was finally used by something else are
/// queued again or fail. With `dryRun` nothing changes, and `result` lists what would change.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/resync",
    operation_id = "resyncSubmitter",
    tag = "submitters",
    params(
        SubmitterPath,
        WaitQuery,
    ),
    request_body = ResyncRequest,
    responses(CommandAnswers)
)]
async fn resync(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
    body: OptionalJsonBody<ResyncRequest>,
) -> Told {
    let OptionalJsonBody(request) = body;
    let lost = LostRule::from(request.lost.unwrap_or(LostRuleName::Requeue));
    let kind = CommandKind::Resync { lost, dry_run: request.dry_run.unwrap_or(false) };
    put(&shared, &in_flight, &caller, &path, query, kind).await
}

/// Read a command.
#[utoipa::path(
    get,
    path = "/api/v1/commands/{commandId}",
    operation_id = "getCommand",
    tag = "submitters",
    params(("commandId" = String, Path, pattern = "^[0-9]{1,19}$",
        description = "The id in the answer to the command")),
    responses(
        (status = 200, description = "State and result of the command", body = CommandView),
        (status = 404, description = "`command_not_found`", body = Problem),
    )
)]
async fn command(
    State(shared): State<Arc<Shared>>,
    path: PathText,
    query: Query,
) -> Result<Json<CommandView>, Refusal> {
    query.finish()?;
    let id = CommandId(path.number("commandId")?);
    // Both databases store a signed number; a larger id was never given out.
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
) -> Told {
    let wait = query.wait(&shared.app.limits);
    query.finish()?;
    let (submitter, _) = submitters::find(shared, path).await?;
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    let (id, status) = tell(shared, in_flight, caller, &submitter, kind, place).await?;
    if let CommandStatus::Over(CommandResult::Refused(report)) = &status {
        return Err(refused(id, report.as_str()));
    }
    let code = if status == CommandStatus::Open { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((code, Json(CommandView::new(id, &status))))
}

/// Writes a command, and waits for the lane if a wait permit is given.
pub(super) async fn tell(
    shared: &Shared,
    in_flight: &InFlight,
    caller: &Caller,
    submitter: &SubmitterId,
    kind: CommandKind,
    place: Option<Place>,
) -> Result<(CommandId, CommandStatus), Refusal> {
    let name = kind.as_str();
    let new = NewCommand { submitter: submitter.clone(), kind, issued_by: NodeText::new(caller.name()) };
    let put = shared.app.intents.put_commands(&[new]).await.map_err(|error| shared.store_failed(&error))?;
    let id = put.first().copied().ok_or_else(|| Refusal::of(ProblemCode::Internal))?;
    tracing::info!(%submitter, command = name, id = id.0, issued_by = caller.name(), "command accepted");
    let status = match place {
        Some(place) => wait::for_command(shared, in_flight, submitter, id, place).await?,
        None => CommandStatus::Open,
    };
    Ok((id, status))
}

/// The answer to a caller that waited for a lane which then refused.
pub(super) fn refused(id: CommandId, report: &str) -> Refusal {
    let mut problem = Problem::new(ProblemCode::Refused).detail(report);
    problem.command_id = Some(id.0.to_string());
    problem.into()
}
