//! `POST /api/v1/tx/{txId}/replace` and `…/resubmit`: another transaction in the place of one, which the chain decides about.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{CommandKind, CommandResult, CommandStatus, EvmCall, Fees, Goal, IntentRecord, Payload, TxId};
use gapless_wire::{FieldFault, Problem, ProblemCode, ReplaceRequest, ResubmitRequest, TxCommandName, TxCommandView};

use super::authorities;
use super::cancel::already_final;
use super::commands::{refused, tell};
use crate::auth::Caller;
use crate::extract::{JsonBody, OptionalJsonBody, PathText, Query};
use crate::problem::Refusal;
use crate::shared::{InFlight, Place, Shared};

type Ordered = Result<(StatusCode, Json<TxCommandView>), Refusal>;

/// Replace what a transaction does.
///
/// One that waits in line keeps its place and asks for the new payload. One that has left the queue may already be on its way: its lane
/// signs another transaction at the same nonce, for more, and the chain decides which of them counts; `receipt.minedPayload` tells.
/// The new payload goes through the same checks as that of a new request, and the request id goes on standing for the first one.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/replace",
    operation_id = "replaceTx",
    tag = "transactions",
    params(
        ("txId" = String, Path, format = "uuid", description = "The id that was given when it was accepted"),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s|m)$", description = "Wait this long for the lane to do it"),
    ),
    request_body = ReplaceRequest,
    responses(
        (status = 202, description = "Written down; the lane will come to it", body = TxCommandView),
        (status = 200, description = "The lane has done it; the chain will decide", body = TxCommandView),
        (status = 404, description = "`tx_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_final`: it has ended; `canceling`: it is being canceled; `signed_by_borrower`: its nonce is lent, and nobody else signs for it; `refused`: the lane was waited for and did not do it", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn replace_tx(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    mut query: Query,
    JsonBody(request): JsonBody<ReplaceRequest>,
) -> Ordered {
    let wait = query.wait(&shared.app.limits);
    query.finish()?;
    let id = path.tx_id()?;
    let payload = request.read()?;
    let tx = open(&shared, id).await?;
    refuse_borrowed(&tx)?;
    if is_canceling(&tx) {
        return Err(about(ProblemCode::Canceling, &tx).into());
    }
    payload.check(tx.intent.submitter(), &shared.app.intent_limits)?;
    if let Payload::Evm(call) = &payload {
        authorities::refuse_submitters(&shared, call, |index| format!("/payload/authorizationList/{index}")).await?;
    }
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    let kind = CommandKind::Replace { tx_id: id, payload };
    order(&shared, &in_flight, &caller, tx, (TxCommandName::Replace, kind), place).await
}

/// Send a transaction again, now.
///
/// Without `fees` this is what the config says: the same bytes, or where raising is on, the same for more. With `fees` its lane signs
/// it again at this price, which has to be above everything that was sent, in every field, by as much as nodes want. The nonce stays,
/// and the chain decides which transaction counts. One that is being canceled stays so: its cancel is what is sent.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/resubmit",
    operation_id = "resubmitTx",
    tag = "transactions",
    params(
        ("txId" = String, Path, format = "uuid", description = "The id that was given when it was accepted"),
        ("wait" = Option<String>, Query, pattern = "^[0-9]{1,6}(ms|s|m)$", description = "Wait this long for the lane to do it"),
    ),
    request_body = ResubmitRequest,
    responses(
        (status = 202, description = "Written down; the lane will come to it", body = TxCommandView),
        (status = 200, description = "The lane has done it; the chain will decide", body = TxCommandView),
        (status = 404, description = "`tx_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_final`: it has ended; `signed_by_borrower`: its nonce is lent, and nobody else signs it at another price; `refused`: the lane was waited for and did not do it", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resubmit_tx(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    mut query: Query,
    OptionalJsonBody(request): OptionalJsonBody<ResubmitRequest>,
) -> Ordered {
    let wait = query.wait(&shared.app.limits);
    query.finish()?;
    let id = path.tx_id()?;
    let fees = request.read()?;
    let tx = open(&shared, id).await?;
    if let Some(fees) = fees {
        // The same bytes can be sent again whoever has signed them.
        refuse_borrowed(&tx)?;
        check_fees(&shared, &tx, fees)?;
    }
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    let kind = CommandKind::Resubmit { tx_id: id, fees };
    order(&shared, &in_flight, &caller, tx, (TxCommandName::Resubmit, kind), place).await
}

/// Tells the lane, and what came of it if it was waited for.
async fn order(
    shared: &Shared,
    in_flight: &InFlight,
    caller: &Caller,
    tx: IntentRecord,
    (name, kind): (TxCommandName, CommandKind),
    place: Option<Place>,
) -> Ordered {
    let has_waited = place.is_some();
    let (id, status) = tell(shared, in_flight, caller, tx.intent.submitter(), kind, place).await?;
    let tx = if has_waited { shared.find(tx.id).await? } else { tx };
    let code = match &status {
        CommandStatus::Over(CommandResult::Refused(_)) if tx.state.name().is_terminal() => {
            return Err(already_final(&tx));
        }
        CommandStatus::Over(CommandResult::Refused(report)) => return Err(refused(id, report.as_str())),
        CommandStatus::Over(CommandResult::Done(_)) => StatusCode::OK,
        CommandStatus::Open => StatusCode::ACCEPTED,
    };
    Ok((code, Json(TxCommandView::new(&tx, name, id, &status))))
}

/// The transaction, if it has not ended. Whether its lane can still do anything for it, the lane says.
async fn open(shared: &Shared, id: TxId) -> Result<IntentRecord, Refusal> {
    let tx = shared.find(id).await?;
    if tx.state.name().is_terminal() { Err(already_final(&tx)) } else { Ok(tx) }
}

fn refuse_borrowed(tx: &IntentRecord) -> Result<(), Refusal> {
    match tx.intent.payload() {
        Payload::Evm(_) => Ok(()),
        Payload::Reservation(_) => Err(about(ProblemCode::SignedByBorrower, tx).into()),
    }
}

/// Whatever its sub-state shows first: one that waits for funds may be canceled as well.
fn is_canceling(tx: &IntentRecord) -> bool {
    tx.state.bound().is_some_and(|bound| matches!(bound.goal, Goal::Cancel(_)))
}

fn about(code: ProblemCode, tx: &IntentRecord) -> Problem {
    let mut problem = Problem::new(code);
    problem.tx_id = Some(tx.id.to_string());
    problem
}

/// What a new request with these fees would be told of them. The rest of the payload was accepted before, and limits may have changed.
fn check_fees(shared: &Shared, tx: &IntentRecord, fees: Fees) -> Result<(), Refusal> {
    let Payload::Evm(call) = tx.payload() else { return Ok(()) };
    let priced = Payload::Evm(EvmCall { fees: Some(fees), ..call.clone() });
    let Err(invalid) = priced.check(tx.intent.submitter(), &shared.app.intent_limits) else { return Ok(()) };
    let of_fees = invalid.errors.into_iter().filter(|error| error.pointer == "/payload/fees");
    let faults: Vec<FieldFault> = of_fees.map(|error| FieldFault::body("/fees", error.message)).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.into()) }
}
