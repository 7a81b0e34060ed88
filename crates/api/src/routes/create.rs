//! `POST /api/v1/tx`: send one intent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use gapless_domain::{Intent, StateName, TxId};
use gapless_store::Accepted;
use gapless_wire::{FieldFault, Problem, ProblemCode, TxAccepted, TxRequest, protect_message};

use super::authorities;
use crate::extract::{JsonBody, Query};
use crate::problem::Refusal;
use crate::shared::Shared;

pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Send an intent.
///
/// After a 202 or 200 the intent is durable and will be executed exactly once. The same request again gets 200 and the
/// first result, so a request without an answer can simply be repeated. An authorization (EIP-7702) signed with the key
/// of a submitter is refused, because it would use one of its nonces.
#[utoipa::path(
    post,
    path = "/api/v1/tx",
    operation_id = "createTx",
    tag = "transactions",
    params(("Idempotency-Key" = Option<String>, Header,
        description = "Replaces requestId. If both are present, they must be equal.")),
    request_body = TxRequest,
    responses(
        (status = 202, description = "Accepted as new", body = TxAccepted,
            headers(("Location" = String, description = "URL of the transaction"))),
        (status = 200, description = "Accepted before with the same request id", body = TxAccepted,
            headers(("Location" = String, description = "URL of the transaction"))),
        (status = 404, description = "`unknown_submitter`", body = Problem),
        (status = 409, description = "`request_id_conflict`: the request id belongs to another payload; \
            `submitter_protected`: the submitter accepts nothing new until an operator has decided", body = Problem),
    )
)]
pub(super) async fn create_tx(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Query,
    body: Result<JsonBody<TxRequest>, Refusal>,
) -> Result<Response, Refusal> {
    let created = create(&shared, &headers, query, body).await;
    let result = match &created {
        Ok((verdict, _)) => outcome(verdict),
        Err(refusal) if refusal.0.status < 500 => "invalid",
        Err(_) => "failed",
    };
    metrics::counter!("gapless_tx_create_total", "result" => result).increment(1);
    let (verdict, accepted) = created?;
    let accepted = accepted?;
    let status = if verdict == Accepted::New { StatusCode::ACCEPTED } else { StatusCode::OK };
    let location = HeaderValue::from_str(&format!("/api/v1/tx/{}", accepted.tx_id)).ok();
    let headers = location.map(|location| [(LOCATION, location)]);
    Ok((status, headers, Json(accepted)).into_response())
}

async fn create(
    shared: &Shared,
    headers: &HeaderMap,
    query: Query,
    body: Result<JsonBody<TxRequest>, Refusal>,
) -> Result<(Accepted, Result<TxAccepted, Refusal>), Refusal> {
    query.finish()?;
    let JsonBody(request) = body?;
    let key = idempotency_key(headers)?;
    let intent = read(shared, request, key.as_deref()).await?;
    let asked = Asked::of(&intent);
    let verdicts = shared.app.intake.accept(vec![intent]).await.map_err(|error| shared.intake_failed(&error))?;
    // One intent has one verdict; without a verdict the result is unknown.
    let Some((id, verdict)) = verdicts.into_iter().next() else {
        return Err(Refusal::of(ProblemCode::Internal));
    };
    let state = match verdict {
        Accepted::Existing(_) => shared.find(id).await?.state.name(),
        _ => StateName::Queued,
    };
    let accepted = asked.answer(id, &verdict, state);
    Ok((verdict, accepted))
}

/// The intent of a request, within all limits.
pub(super) async fn read(shared: &Shared, request: TxRequest, key: Option<&str>) -> Result<Intent, Refusal> {
    let mut parts = request.read(key)?;
    let name = std::mem::replace(&mut parts.submitter, gapless_wire::SubmitterRef::Alias(String::new()));
    let submitter = shared.resolve(name).await?;
    let intent = Intent::new(parts.into_draft(submitter), &shared.app.intent_limits)?;
    if let Some(action) = intent.payload().action() {
        authorities::refuse_submitters(shared, action, |index| format!("/payload/authorizationList/{index}")).await?;
    }
    Ok(intent)
}

/// The parts of the request that the answer repeats.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    submitter: String,
    request_id: String,
}

impl Asked {
    pub(super) fn of(intent: &Intent) -> Self {
        Asked { submitter: intent.submitter().to_string(), request_id: intent.request_id().to_string() }
    }

    /// One exhaustive mapping of the store's verdict on one intent.
    pub(super) fn answer(self, id: TxId, verdict: &Accepted, state: StateName) -> Result<TxAccepted, Refusal> {
        match verdict {
            Accepted::New | Accepted::Existing(_) => Ok(TxAccepted {
                tx_id: id.to_string(),
                submitter: self.submitter,
                request_id: self.request_id,
                state: state.into(),
            }),
            Accepted::Conflict(other) => {
                let mut problem = Problem::new(ProblemCode::RequestIdConflict);
                problem.errors = vec![FieldFault::body("/requestId", "this request id was used with another payload")];
                problem.tx_id = Some(other.to_string());
                Err(problem.into())
            }
            Accepted::UnknownSubmitter => Err(Refusal::of(ProblemCode::UnknownSubmitter)),
            Accepted::Protected(protection) => {
                // The detail may name nonces; an operator sees it at the submitter, with `expand=nonces`.
                let detail = format!("{}: {}", protection.code.as_str(), protect_message(protection.code));
                Err(Problem::new(ProblemCode::SubmitterProtected).detail(detail).into())
            }
            Accepted::Refused(why) => {
                tracing::warn!("database rejected an intent: {why}");
                Err(vec![FieldFault::body("", "the database cannot store this request")].into())
            }
        }
    }
}

pub(super) fn outcome(verdict: &Accepted) -> &'static str {
    match verdict {
        Accepted::New => "accepted",
        Accepted::Existing(_) => "existing",
        Accepted::Conflict(_) => "conflict",
        Accepted::UnknownSubmitter => "unknown_submitter",
        Accepted::Protected(_) => "protected",
        Accepted::Refused(_) => "invalid",
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let refuse = |why: &str| Err(vec![FieldFault::header("Idempotency-Key", why)].into());
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return refuse("there are two of them");
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => refuse("it is not UTF-8"),
    }
}
