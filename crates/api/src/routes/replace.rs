//! `POST /api/v1/tx/{txId}/replace` and `…/resubmit`: another attempt at a transaction's nonce; the chain decides which
//! counts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{CommandKind, CommandResult, CommandStatus, Fees, Goal, IntentRecord, Payload, TxId};
use gapless_wire::{FieldFault, Problem, ProblemCode, ReplaceRequest, ResubmitRequest, TxCommandName, TxCommandView};

use super::authorities;
use super::cancel::already_final;
use super::commands::{refused, tell};
use super::parameters::{TxCommandAnswers, TxPath, WaitQuery};
use crate::auth::Caller;
use crate::extract::{JsonBody, OptionalJsonBody, PathText, Query};
use crate::problem::Refusal;
use crate::shared::{InFlight, Place, Shared};

type Ordered = Result<(StatusCode, Json<TxCommandView>), Refusal>;

/// Replace the payload of a transaction.
///
/// A queued transaction keeps its place in the queue and gets the new payload. A transaction that has left the queue
/// may already be on its way: its lane signs a dearer transaction at the same nonce, and the chain decides which of
/// them counts; see `receipt.minedPayload`. The new payload passes the checks of a new request, and the request id
/// still stands for the first payload.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/replace",
    operation_id = "replaceTx",
    tag = "transactions",
    params(
        TxPath,
        WaitQuery,
    ),
    request_body = ReplaceRequest,
    responses(TxCommandAnswers)
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
    if let Some(action) = payload.action() {
        authorities::refuse_submitters(&shared, action, |index| format!("/payload/authorizationList/{index}")).await?;
    }
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    let kind = CommandKind::Replace { tx_id: id, payload };
    order(&shared, &in_flight, &caller, tx, (TxCommandName::Replace, kind), place).await
}

/// Send a transaction again now.
///
/// Without `fees` the config decides: the same bytes, or a bump if bumps are enabled. With `fees` the lane signs it
/// again at this price, which must exceed all earlier attempts in every field by the step that chain nodes demand. The
/// nonce stays the same, and the chain decides which attempt counts. For a transaction that is being canceled, the
/// cancel is sent again.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/resubmit",
    operation_id = "resubmitTx",
    tag = "transactions",
    params(
        TxPath,
        WaitQuery,
    ),
    request_body = ResubmitRequest,
    responses(TxCommandAnswers)
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
        // Bytes of any signer can be sent again.
        refuse_borrowed(&tx)?;
        check_fees(&shared, &tx, fees)?;
    }
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    let kind = CommandKind::Resubmit { tx_id: id, fees };
    order(&shared, &in_flight, &caller, tx, (TxCommandName::Resubmit, kind), place).await
}

/// Writes the command, and returns the lane's result if the caller waited for it.
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

/// The transaction, if it has not ended. The lane decides whether it can still act on it.
async fn open(shared: &Shared, id: TxId) -> Result<IntentRecord, Refusal> {
    let tx = shared.find(id).await?;
    if tx.state.name().is_terminal() { Err(already_final(&tx)) } else { Ok(tx) }
}

fn refuse_borrowed(tx: &IntentRecord) -> Result<(), Refusal> {
    match tx.intent.payload() {
        Payload::Act(_) => Ok(()),
        Payload::Reservation(_) => Err(about(ProblemCode::SignedByBorrower, tx).into()),
    }
}

/// True whatever the sub-state shows: a transaction that waits for funds may be canceled as well.
fn is_canceling(tx: &IntentRecord) -> bool {
    tx.state.bound().is_some_and(|bound| matches!(bound.goal, Goal::Cancel(_)))
}

fn about(code: ProblemCode, tx: &IntentRecord) -> Problem {
    let mut problem = Problem::new(code);
    problem.tx_id = Some(tx.id.to_string());
    problem
}

/// Checks the fees like those of a new request. The rest of the payload was accepted before, and limits may have
/// changed since.
fn check_fees(shared: &Shared, tx: &IntentRecord, fees: Fees) -> Result<(), Refusal> {
    let Some(action) = tx.payload().action() else { return Ok(()) };
    let priced = Payload::from(action.clone().wishing(Some(fees), action.own_work()));
    let Err(invalid) = priced.check(tx.intent.submitter(), &shared.app.intent_limits) else { return Ok(()) };
    let of_fees = invalid.errors.into_iter().filter(|error| error.pointer == "/payload/fees");
    let faults: Vec<FieldFault> = of_fees.map(|error| FieldFault::body("/fees", error.message)).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.into()) }
}
