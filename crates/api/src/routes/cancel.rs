//! `POST /api/v1/tx/{txId}/cancel` and `…/cancel-pending`: at once in the queue, a race on chain later.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{
    CommandKind, CommandResult, CommandStatus, IntentRecord, Protection, StateName, SubStateName, SubmitterId, TxId,
};
use gapless_store::{CancelVerdict, TxFilter};
use gapless_wire::{CancelPendingView, CancelView, CommandView, Problem, ProblemCode, protect_message};

use super::commands::{refused, tell};
use super::parameters::{SubmitterPath, TxPath, WaitQuery};
use super::submitters;
use crate::auth::Caller;
use crate::extract::{PathText, Query};
use crate::limits::{MAX_QUEUED_CANCELED, QUEUED_CANCELED_AT_ONCE};
use crate::problem::Refusal;
use crate::shared::{InFlight, Shared};

const CANCELED: &str = "the transaction is canceled and will not happen";
const A_RACE: &str = "the transaction has left the queue: its lane sends a cancel at the same nonce, and the chain \
                      decides which of them counts; only the state CANCELED means that it will not happen";

/// Cancel a transaction.
///
/// A queued transaction is CANCELED at once. A transaction that has left the queue may already be on its way: its lane
/// sends another transaction at its nonce, and the chain decides which of them counts. Repeating the call is harmless.
#[utoipa::path(
    post,
    path = "/api/v1/tx/{txId}/cancel",
    operation_id = "cancelTx",
    tag = "transactions",
    params(
        TxPath,
        WaitQuery,
    ),
    responses(
        (status = 200, description = "CANCELED, for good", body = CancelView),
        (status = 202, description = "It has left the queue; the chain decides", body = CancelView),
        (status = 404, description = "`tx_not_found`", body = Problem),
        (status = 409, description = "`already_final`: it has ended otherwise; `submitter_protected`: the \
            database lost commits, and nothing ends before the lane is reconciled; \
            `refused`: the lane refused", body = Problem),
    )
)]
pub(super) async fn cancel_tx(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    mut query: Query,
) -> Result<(StatusCode, Json<CancelView>), Refusal> {
    let wait = query.wait(&shared.app.limits);
    query.finish()?;
    let id = path.tx_id()?;
    match cancel_queued(&shared, &[id]).await?.first() {
        Some(CancelVerdict::Canceled | CancelVerdict::NotQueued) => {}
        Some(CancelVerdict::Regressed) => return Err(regressed()),
        Some(CancelVerdict::Unknown) | None => return Err(Refusal::of(ProblemCode::TxNotFound)),
    }
    let tx = shared.find(id).await?;
    match tx.state.name() {
        StateName::Canceled => return Ok((StatusCode::OK, Json(view(&tx, None)))),
        ended if ended.is_terminal() => return Err(already_final(&tx)),
        _ => {}
    }
    let kind = CommandKind::Cancel { tx_id: id };
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    let (command, status) = tell(&shared, &in_flight, &caller, tx.intent.submitter(), kind, place).await?;
    // The transaction may have changed while the lane was waited for.
    let tx = if wait.is_some() { shared.find(id).await? } else { tx };
    match (&status, tx.state.name()) {
        (_, StateName::Canceled) => Ok((StatusCode::OK, Json(view(&tx, Some(CommandView::new(command, &status)))))),
        (_, ended) if ended.is_terminal() => Err(already_final(&tx)),
        (CommandStatus::Over(CommandResult::Refused(report)), _) => Err(refused(command, report.as_str())),
        _ => Ok((StatusCode::ACCEPTED, Json(view(&tx, Some(CommandView::new(command, &status)))))),
    }
}

/// Cancel all open transactions of a submitter.
///
/// Queued transactions are CANCELED at once, newest first, up to a limit of the server per call. Then the lane is told
/// to cancel transactions that have left the queue, and the chain decides about those.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/cancel-pending",
    operation_id = "cancelPending",
    tag = "submitters",
    params(
        SubmitterPath,
        WaitQuery,
    ),
    responses(
        (status = 202, description = "Durable for bound transactions, not executed yet", body = CancelPendingView),
        (status = 200, description = "The lane has executed it; the chain decides", body = CancelPendingView),
        (status = 404, description = "`unknown_submitter`", body = Problem),
        (status = 409, description = "`submitter_protected`: the database lost commits, and nothing ends \
            before the lane is reconciled; \
            `refused`: the lane refused", body = Problem),
    )
)]
pub(super) async fn cancel_pending(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathText,
    mut query: Query,
) -> Result<(StatusCode, Json<CancelPendingView>), Refusal> {
    let wait = query.wait(&shared.app.limits);
    query.finish()?;
    let (submitter, _) = submitters::find(&shared, &path).await?;
    let place = wait.map(|wait| shared.place_to_wait(wait)).transpose()?;
    // Queued intents come first: the command then finds those that the lane binds meanwhile.
    let (canceled_queued, more_queued) = cancel_line(&shared, &submitter).await?;
    let (id, status) = tell(&shared, &in_flight, &caller, &submitter, CommandKind::CancelPending, place).await?;
    if let CommandStatus::Over(CommandResult::Refused(report)) = &status {
        return Err(refused(id, &format!("{canceled_queued} were canceled in the queue; of the rest: {report}")));
    }
    let code = if status == CommandStatus::Open { StatusCode::ACCEPTED } else { StatusCode::OK };
    let CommandView { command_id, state, result } = CommandView::new(id, &status);
    Ok((code, Json(CancelPendingView { command_id, state, result, canceled_queued, more_queued })))
}

/// Cancels queued intents, newest first, so that it does not race with the lane, which binds the oldest. Returns the
/// number of canceled intents, and whether there may be more.
async fn cancel_line(shared: &Shared, submitter: &SubmitterId) -> Result<(u32, bool), Refusal> {
    let mut canceled = 0;
    let mut looked_at = 0;
    let mut filter = TxFilter {
        submitter: Some(submitter.clone()),
        state: Some(StateName::Queued),
        before_seq: None,
        limit: QUEUED_CANCELED_AT_ONCE,
    };
    loop {
        let queued = shared.app.store.list(&filter).await.map_err(|error| shared.store_failed(&error))?;
        let ids: Vec<TxId> = queued.iter().map(|tx| tx.id).collect();
        for verdict in cancel_queued(shared, &ids).await? {
            match verdict {
                CancelVerdict::Canceled => canceled += 1,
                CancelVerdict::Regressed => return Err(regressed()),
                // The lane or retention was faster.
                CancelVerdict::NotQueued | CancelVerdict::Unknown => {}
            }
        }
        let Some(last) = queued.last() else { return Ok((canceled, false)) };
        filter.before_seq = Some(last.seq);
        looked_at += QUEUED_CANCELED_AT_ONCE;
        if ids.len() < QUEUED_CANCELED_AT_ONCE as usize {
            return Ok((canceled, false));
        }
        if looked_at >= MAX_QUEUED_CANCELED {
            return Ok((canceled, true));
        }
    }
}

async fn cancel_queued(shared: &Shared, ids: &[TxId]) -> Result<Vec<CancelVerdict>, Refusal> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    shared.app.store.cancel_queued(ids).await.map_err(|error| shared.store_failed(&error))
}

fn view(tx: &IntentRecord, command: Option<CommandView>) -> CancelView {
    let (command_id, command_state, result) = match command {
        Some(command) => (Some(command.command_id), Some(command.state), command.result),
        None => (None, None, None),
    };
    let note = if tx.state.name() == StateName::Canceled { CANCELED } else { A_RACE };
    CancelView {
        tx_id: tx.id.to_string(),
        submitter: tx.intent.submitter().to_string(),
        request_id: tx.intent.request_id().to_string(),
        state: tx.state.name().into(),
        sub_state: tx.state.sub_state().map(<SubStateName as Into<gapless_wire::SubStateName>>::into),
        command_id,
        command_state,
        result,
        note: note.to_owned(),
    }
}

pub(super) fn already_final(tx: &IntentRecord) -> Refusal {
    let mut problem = Problem::new(ProblemCode::AlreadyFinal);
    problem.detail = Some(format!("it is {}", tx.state.name().as_str()));
    problem.tx_id = Some(tx.id.to_string());
    problem.into()
}

fn regressed() -> Refusal {
    let code = Protection::store_regressed().code;
    let detail = format!("{}: {}", code.as_str(), protect_message(code));
    Problem::new(ProblemCode::SubmitterProtected).detail(detail).into()
}
