//! `POST /api/v1/submitters/{submitter}/nonces`, `…/{nonce}/submit`, `…/{nonce}/release`: reservations.
//!
//! A reservation is an intent like any other: it waits in the queue, and its lane binds a nonce for it. The lane
//! decides about a submit or a release, under its lease and by the database's clock. The reads here only spare the lane
//! calls that cannot succeed, and answer a repeated call like the first one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use gapless_domain::{
    Amount, B256, Bytes, CommandKind, CommandResult, CommandStatus, Intent, IntentRecord, LockOwner, Nonce, Payload,
    ReservationStatus, SignedPlan, SubmitterId, TxId, TxPlan, TxState,
};
use gapless_store::SlotStatus;
use gapless_wire::{
    CommandState, FieldFault, Problem, ProblemCode, ReleaseRequest, ReservationResult, ReservationView, ReserveRequest,
    SubmitRequest, moment_to_text,
};

use super::commands::tell;
use super::create::{Asked, outcome};
use super::parameters::{NoncePath, SubmitterPath, WaitQuery};
use super::{authorities, submitters, wait};
use crate::auth::Caller;
use crate::extract::{JsonBody, PathPair, PathText, Query};
use crate::limits::RESERVATION_WAIT;
use crate::problem::Refusal;
use crate::shared::{InFlight, Shared};

type Answer = Result<(StatusCode, Json<ReservationResult>), Refusal>;

/// Reserve a nonce.
///
/// The reservation waits in the queue like a transaction. Once its nonce is bound, it is held for the caller for the
/// time `hold`, and everything behind it waits: hand in the signed transaction with `submit`, or give the nonce up with
/// `release`. After the time, or after a release, the nonce is reserved by another caller or filled.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/nonces",
    operation_id = "reserveNonce",
    tag = "nonces",
    params(
        SubmitterPath,
        WaitQuery,
    ),
    request_body = ReserveRequest,
    responses(
        (status = 201, description = "Reserved", body = ReservationView),
        (status = 202, description = "Still queued: repeat the same request", body = ReservationView),
        (status = 404, description = "`unknown_submitter`", body = Problem),
        (status = 409, description = "`request_id_conflict`: the request id belongs to another request or lock \
            owner; `submitter_protected`: nothing is reserved until an operator has decided; `reservation_lost`: the \
            reservation of this request id has ended", body = Problem),
    )
)]
pub(super) async fn reserve(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    path: PathText,
    mut query: Query,
    body: JsonBody<ReserveRequest>,
) -> Result<(StatusCode, Json<ReservationView>), Refusal> {
    let wait = waiting_time(&shared, &mut query);
    query.finish()?;
    let JsonBody(request) = body;
    let parts = request.read()?;
    let submitter = shared.resolve(path.submitter()?).await?;
    let draft = parts.into_draft(submitter, shared.fresh_names()?);
    let intent = Intent::new(draft, &shared.app.intent_limits)?;
    let place = shared.place_to_wait(wait)?;
    let id = accept(&shared, intent).await?;
    let mut tx = shared.find(id).await?;
    if tx.state == TxState::Queued {
        tx = wait::for_change(&shared, &in_flight, tx, place).await?;
    }
    lent(&shared, &tx).await
}

/// Submit the signed transaction for a reserved nonce.
///
/// The transaction must be signed by the submitter, for its chain and this nonce, its tip and gas limit must be within
/// their limits, and the account must be able to pay for it. From then on it is a transaction like any other, and `GET
/// /api/v1/tx/{txId}` follows it. The same bytes again get the same answer.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/nonces/{nonce}/submit",
    operation_id = "submitNonce",
    tag = "nonces",
    params(
        SubmitterPath,
        NoncePath,
        WaitQuery,
    ),
    request_body = SubmitRequest,
    responses(
        (status = 200, description = "Accepted", body = ReservationResult),
        (status = 202, description = "Durable, not executed yet: repeat the call", body = ReservationResult),
        (status = 404, description = "`unknown_submitter`, or `unknown_chain` for this node", body = Problem),
        (status = 409, description = "`reservation_lost`: this lock owner does not hold the nonce", body = Problem),
    )
)]
pub(super) async fn submit(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathPair,
    mut query: Query,
    body: JsonBody<SubmitRequest>,
) -> Answer {
    let wait = waiting_time(&shared, &mut query);
    query.finish()?;
    let PathPair(name, nonce) = path;
    let nonce = nonce.nonce()?;
    let JsonBody(request) = body;
    let (lock_owner, raw) = request.read()?;
    let (submitter, _) = submitters::find(&shared, &name).await?;
    let SignedPlan { plan, signed } = read_signed(&shared, &submitter, nonce, &raw).await?;
    let rules = submitter.chain().rules().ok_or_else(|| Refusal::of(ProblemCode::UnknownChain))?;
    let (hash, fees, cost) = (signed.hash, plan.fees, plan.worst_cost(rules));
    let given = Given { shared: &shared, submitter: &submitter, nonce, lock_owner: &lock_owner };
    if let Some(tx_id) = given.find(hash).await? {
        return Ok(taken(tx_id, Some(hash)));
    }
    let tx_id = match given.borrower().await {
        Ok(tx_id) => tx_id,
        // A duplicate of this call may have been executed since the read above.
        Err(refusal) => return given.find(hash).await?.map(|tx_id| taken(tx_id, Some(hash))).ok_or(refusal),
    };
    if let Err(refusal) = refuse_absurd(&shared, &plan, cost).await {
        // The balance may be lower because the same bytes were accepted and mined meanwhile.
        return given.find(hash).await?.map(|tx_id| taken(tx_id, Some(hash))).ok_or(refusal);
    }
    let place = shared.place_to_wait(wait)?;
    let kind = CommandKind::UseReserved { nonce, lock_owner: lock_owner.clone(), signed, fees, cost };
    let (id, status) = tell(&shared, &in_flight, &caller, &submitter, kind, Some(place)).await?;
    match status {
        CommandStatus::Open => Ok(written_down(tx_id, Some(hash), id.0)),
        CommandStatus::Over(CommandResult::Done(_)) => Ok(taken(tx_id, Some(hash))),
        CommandStatus::Over(CommandResult::Refused(report)) => match given.find(hash).await? {
            // A concurrent duplicate of this call was executed first.
            Some(tx_id) => Ok(taken(tx_id, Some(hash))),
            None => Err(lost(Some(tx_id), report.as_str())),
        },
    }
}

/// Release a reserved nonce, unused.
#[utoipa::path(
    post,
    path = "/api/v1/submitters/{submitter}/nonces/{nonce}/release",
    operation_id = "releaseNonce",
    tag = "nonces",
    params(
        SubmitterPath,
        NoncePath,
        WaitQuery,
    ),
    request_body = ReleaseRequest,
    responses(
        (status = 200, description = "Released", body = ReservationResult),
        (status = 202, description = "Durable; the lane has not executed it yet", body = ReservationResult),
        (status = 404, description = "`unknown_submitter`", body = Problem),
        (status = 409, description = "`reservation_lost`: this lock owner does not hold the nonce", body = Problem),
    )
)]
pub(super) async fn release(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    Extension(caller): Extension<Caller>,
    path: PathPair,
    mut query: Query,
    body: JsonBody<ReleaseRequest>,
) -> Answer {
    let wait = waiting_time(&shared, &mut query);
    query.finish()?;
    let PathPair(name, nonce) = path;
    let nonce = nonce.nonce()?;
    let JsonBody(request) = body;
    let lock_owner = request.read()?;
    let (submitter, _) = submitters::find(&shared, &name).await?;
    let given = Given { shared: &shared, submitter: &submitter, nonce, lock_owner: &lock_owner };
    let tx_id = given.borrower().await?;
    let place = shared.place_to_wait(wait)?;
    let kind = CommandKind::ReleaseReserved { nonce, lock_owner: lock_owner.clone() };
    let (id, status) = tell(&shared, &in_flight, &caller, &submitter, kind, Some(place)).await?;
    match status {
        CommandStatus::Open => Ok(written_down(tx_id, None, id.0)),
        CommandStatus::Over(CommandResult::Done(_)) => Ok(taken(tx_id, None)),
        CommandStatus::Over(CommandResult::Refused(report)) => Err(lost(Some(tx_id), report.as_str())),
    }
}

fn waiting_time(shared: &Shared, query: &mut Query) -> Duration {
    let limits = &shared.app.limits;
    query.wait(limits).unwrap_or(RESERVATION_WAIT.min(limits.wait_max))
}

async fn accept(shared: &Shared, intent: Intent) -> Result<TxId, Refusal> {
    let asked = Asked::of(&intent);
    let verdicts = shared.app.intake.accept(vec![intent]).await.map_err(|error| shared.intake_failed(&error))?;
    // One intent has one verdict; without a verdict the result is unknown.
    let Some((id, verdict)) = verdicts.into_iter().next() else {
        return Err(Refusal::of(ProblemCode::Internal));
    };
    metrics::counter!("gapless_tx_create_total", "result" => outcome(&verdict)).increment(1);
    asked.answer(id, &verdict, gapless_domain::StateName::Queued)?;
    Ok(id)
}

/// The caller's view of the reservation.
async fn lent(shared: &Shared, tx: &IntentRecord) -> Result<(StatusCode, Json<ReservationView>), Refusal> {
    // An intent that was accepted here is a reservation; another kind with the same request id was a conflict.
    let Payload::Reservation(external) = tx.intent.payload() else { return Err(Refusal::of(ProblemCode::Internal)) };
    let mut view = ReservationView {
        tx_id: tx.id.to_string(),
        submitter: tx.intent.submitter().to_string(),
        request_id: tx.intent.request_id().to_string(),
        lock_owner: external.lock_owner.to_string(),
        nonce: None,
        locked_until: None,
    };
    if tx.state == TxState::Queued {
        return Ok((StatusCode::ACCEPTED, Json(view)));
    }
    let gone = |why: &str| lost(Some(tx.id), why);
    let Some(nonce) = tx.state.bound().map(|bound| bound.nonce) else { return Err(gone("it has ended")) };
    let slot = slot_at(shared, tx.intent.submitter(), nonce).await?;
    match slot.and_then(|slot| slot.reservation).map(|reservation| reservation.status) {
        Some(ReservationStatus::Reserved { tx_id, locked_until, .. }) if tx_id == tx.id => {
            view.nonce = Some(nonce.get());
            view.locked_until = Some(moment_to_text(locked_until));
            Ok((StatusCode::CREATED, Json(view)))
        }
        _ => Err(gone("a transaction was submitted for it, or its hold has ended")),
    }
}

/// Decodes a caller's bytes, if they are for this nonce of this submitter.
async fn read_signed(
    shared: &Shared,
    submitter: &SubmitterId,
    nonce: Nonce,
    raw: &Bytes,
) -> Result<SignedPlan, Refusal> {
    let wrong = |message: String| Refusal::from(vec![FieldFault::body("/raw", message)]);
    let read = shared.app.chains.read_signed(submitter.chain(), raw);
    let read = read.ok_or_else(|| Refusal::of(ProblemCode::UnknownChain))?;
    let read = read.map_err(|error| wrong(error.to_string()))?;
    if read.plan.submitter != *submitter {
        return Err(wrong(format!("the transaction is signed by {}, not by {submitter}", read.plan.submitter)));
    }
    if read.plan.nonce != nonce {
        return Err(wrong(format!("the transaction has nonce {}, not {nonce}", read.plan.nonce)));
    }
    authorities::refuse_submitters(shared, &read.plan.action, |_| "/raw".to_owned()).await?;
    Ok(read)
}

/// A transaction that no chain node accepts, or that the account cannot pay, would hold up everything behind it:
/// Gapless cannot sign another one.
async fn refuse_absurd(shared: &Shared, plan: &TxPlan, cost: Amount) -> Result<(), Refusal> {
    let wrong = |message: String| Err(vec![FieldFault::body("/raw", message)].into());
    let (max_fee, tip) = (plan.fees.highest_price(), plan.fees.tip());
    if tip > max_fee {
        return wrong(format!("the tip {tip} is above the max fee {max_fee}"));
    }
    let most_gas = shared.app.intent_limits.action.evm.gas_limit;
    if plan.work.units > most_gas {
        return wrong(format!("the gas limit is {}; at most {most_gas} is allowed", plan.work.units));
    }
    let account = shared.app.chains.account(&plan.submitter).await;
    match account.map(|account| account.balance) {
        Some(balance) if cost > balance => {
            wrong(format!("the transaction may cost {cost}, and the account has {balance}"))
        }
        _ => Ok(()),
    }
}

/// A nonce that a caller refers to.
struct Given<'a> {
    shared: &'a Shared,
    submitter: &'a SubmitterId,
    nonce: Nonce,
    lock_owner: &'a LockOwner,
}

impl Given<'_> {
    /// The intent that holds the reservation now, if this owner made it.
    async fn borrower(&self) -> Result<TxId, Refusal> {
        let slot = slot_at(self.shared, self.submitter, self.nonce).await?;
        match slot.and_then(|slot| slot.reservation).map(|reservation| reservation.status) {
            Some(ReservationStatus::Reserved { tx_id, lock_owner, .. }) if lock_owner == *self.lock_owner => Ok(tx_id),
            _ => Err(lost(
                None,
                "this lock owner never reserved the nonce, or its hold has ended, or it was used or released",
            )),
        }
    }

    /// The intent of this owner for which this transaction was already submitted, in any state: blocks may be faster
    /// than a caller who asks again.
    async fn find(&self, hash: B256) -> Result<Option<TxId>, Refusal> {
        let views = &self.shared.app.views;
        let used = views.used_for(self.submitter, self.nonce).await;
        let Some(id) = used.map_err(|error| self.shared.store_failed(&error))? else { return Ok(None) };
        let tx = self.shared.find(id).await?;
        let is_owners =
            matches!(tx.intent.payload(), Payload::Reservation(external) if external.lock_owner == *self.lock_owner);
        if !is_owners {
            return Ok(None);
        }
        let attempts = views.attempts(id).await.map_err(|error| self.shared.store_failed(&error))?;
        Ok(attempts.iter().any(|attempt| attempt.hash == hash).then_some(id))
    }
}

/// A bound nonce that is not closed.
async fn slot_at(shared: &Shared, submitter: &SubmitterId, nonce: Nonce) -> Result<Option<SlotStatus>, Refusal> {
    let found = shared.app.views.open_slots(submitter, Some(nonce), 1).await;
    let found = found.map_err(|error| shared.store_failed(&error))?;
    Ok(found.into_iter().next().filter(|status| status.slot.nonce == nonce))
}

fn taken(tx_id: TxId, hash: Option<B256>) -> (StatusCode, Json<ReservationResult>) {
    let hash = hash.map(|hash| hash.to_string());
    let result = ReservationResult { tx_id: tx_id.to_string(), hash, state: CommandState::Done, command_id: None };
    (StatusCode::OK, Json(result))
}

fn written_down(tx_id: TxId, hash: Option<B256>, command: u64) -> (StatusCode, Json<ReservationResult>) {
    let hash = hash.map(|hash| hash.to_string());
    let command_id = Some(command.to_string());
    let result = ReservationResult { tx_id: tx_id.to_string(), hash, state: CommandState::Open, command_id };
    (StatusCode::ACCEPTED, Json(result))
}

fn lost(tx_id: Option<TxId>, why: &str) -> Refusal {
    let mut problem = Problem::new(ProblemCode::ReservationLost).detail(why);
    problem.tx_id = tx_id.map(|id| id.to_string());
    problem.into()
}
