//! What operators tell lanes: pause, resume, unprotect, resync; and what became of a command.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{
    CommandId, CommandKind, CommandResult, CommandStatus, LostRule, NewCommand, NodeText, SubmitterId,
};
use gapless_wire::{CommandView, LostRuleName, Problem, ProblemCode, ResyncRequest};

use super::{submitters, wait};
use crate::auth::Caller;
use crate::extract::{OptionalJsonBody, PathText, Query};
use crate::problem::Refusal;
use crate::shared::{InFlight, Place, Shared};

type Told = Result<(StatusCode, Json<CommandView>), Refusal>;

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
        (status = 409, description = "`refused`: the lane was waited for and did not do it; `detail` says why", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    query: Query,
) -> Told {
    put(&shared, &in_flight, &caller, &path, query, CommandKind::Pause).await
}

/// Resume a submitter that was paused.
///
/// This does not lead out of PROTECT.
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
        (status = 409, description = "`refused`: the lane was waited for and did not do it; `detail` says why", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resume(
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
/// Refused while what led into it persists: `resync` deals with that.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/unprotect",
    operation_id = "unprotectSubmitter",
    tag = "submitters",
    params(
        ("submitter" = String, Path, description = "CAIP-10 or alias"),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s|m)$", description = "Wait this long for it to be done"),
    ),
    responses(
        (status = 202, description = "Written down; the lane will come to it", body = CommandView),
        (status = 200, description = "Done", body = CommandView),
        (status = 404, description = "`unknown_submitter`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`refused`: the lane was waited for and did not do it; `detail` says why", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn unprotect(
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
/// Only what is final counts: nonces that somebody else has used are adopted with their evidence, a transaction on chain that the
/// ledger had lost is attached to its intent, and intents whose nonce was finally used by something else go back to their place in
/// line, or fail. With `dryRun` nothing changes, and `result` lists what would.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/resync",
    operation_id = "resyncSubmitter",
    tag = "submitters",
    params(
        ("submitter" = String, Path, description = "CAIP-10 or alias"),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s|m)$", description = "Wait this long for it to be done"),
    ),
    request_body = ResyncRequest,
    responses(
        (status = 202, description = "Written down; the lane will come to it", body = CommandView),
        (status = 200, description = "Done", body = CommandView),
        (status = 404, description = "`unknown_submitter`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`refused`: the lane was waited for and did not do it; `detail` says why", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resync(
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

/// Writes a command down, and waits for the lane if there is a place to wait at.
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
    tracing::info!(%submitter, command = name, id = id.0, issued_by = caller.name(), "a command was written down");
    let status = match place {
        Some(place) => wait::for_command(shared, in_flight, submitter, id, place).await?,
        None => CommandStatus::Open,
    };
    Ok((id, status))
}

/// The answer to somebody who waited for a lane that then said no.
pub(super) fn refused(id: CommandId, report: &str) -> Refusal {
    let mut problem = Problem::new(ProblemCode::Refused).detail(report);
    problem.command_id = Some(id.0.to_string());
    problem.into()
}
