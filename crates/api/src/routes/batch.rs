//! `POST /api/v1/tx/batch`: send many intents, each with its own result.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use gapless_domain::{Intent, StateName, TxId};
use gapless_store::Accepted;
use gapless_wire::{BatchItem, BatchRequest, BatchResult, FieldFault, Problem, ProblemCode, TxRequest, from_json};

use super::create::{Asked, IDEMPOTENCY_KEY, outcome, read};
use crate::extract::{JsonBody, Query};
use crate::problem::Refusal;
use crate::shared::Shared;

/// Send many intents.
///
/// The intents are queued in the given order. An intent that cannot be accepted gets its own problem and does not
/// affect the others. The whole call may be repeated: intents that were accepted before are answered with 200.
#[utoipa::path(
    post,
    path = "/api/v1/tx/batch",
    operation_id = "createBatch",
    tag = "transactions",
    request_body = BatchRequest,
    responses((status = 200, description = "One result per intent, in the given order", body = BatchResult))
)]
pub(super) async fn create_batch(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    query: Query,
    body: JsonBody<BatchRequest>,
) -> Result<Json<BatchResult>, Refusal> {
    query.finish()?;
    let JsonBody(batch) = body;
    check(&shared, &headers, &batch)?;
    let mut results: Vec<Option<BatchItem>> = Vec::with_capacity(batch.transactions.len());
    let mut intents: Vec<Intent> = Vec::new();
    for raw in &batch.transactions {
        match read_one(&shared, raw.get()).await {
            Ok(intent) => {
                intents.push(intent);
                results.push(None);
            }
            // An unavailable store is no fault of the item: the whole call has to be repeated.
            Err(Refusal(problem)) if problem.status >= 500 => return Err(Refusal(problem)),
            Err(Refusal(problem)) => {
                count("invalid");
                results.push(Some((*problem).into()));
            }
        }
    }
    let mut accepted = accept(&shared, intents).await?.into_iter();
    let results = results.into_iter().map(|refused| refused.or_else(|| accepted.next()));
    let results: Option<Vec<BatchItem>> = results.collect();
    let results = results.ok_or_else(|| Refusal::of(ProblemCode::Internal))?;
    Ok(Json(BatchResult { results }))
}

fn check(shared: &Shared, headers: &HeaderMap, batch: &BatchRequest) -> Result<(), Refusal> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let message = "one Idempotency-Key cannot name several requests; give each its own requestId";
        return Err(vec![FieldFault::header("Idempotency-Key", message)].into());
    }
    let limit = shared.app.limits.batch_items;
    if batch.transactions.is_empty() {
        return Err(vec![FieldFault::body("/transactions", "a batch has at least one item")].into());
    }
    if batch.transactions.len() > limit {
        let mut problem = Problem::new(ProblemCode::TooManyItems);
        problem.errors = vec![FieldFault::body("/transactions", format!("a batch has at most {limit} items"))];
        return Err(problem.into());
    }
    Ok(())
}

async fn read_one(shared: &Shared, json: &str) -> Result<Intent, Refusal> {
    let request: TxRequest = from_json(json.as_bytes())?;
    read(shared, request, None).await
}

async fn accept(shared: &Shared, intents: Vec<Intent>) -> Result<Vec<BatchItem>, Refusal> {
    if intents.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<Asked> = intents.iter().map(Asked::of).collect();
    let verdicts = shared.app.intake.accept(intents).await.map_err(|error| shared.intake_failed(&error))?;
    let states = states_of_known(shared, &verdicts).await?;
    let answers = asked.into_iter().zip(verdicts).map(|(asked, (id, verdict))| {
        count(outcome(&verdict));
        let status = if verdict == Accepted::New { 202 } else { 200 };
        let state = states.get(&id).copied().unwrap_or(StateName::Queued);
        match asked.answer(id, &verdict, state) {
            Ok(accepted) => BatchItem { status, transaction: Some(accepted), problem: None },
            Err(Refusal(problem)) => (*problem).into(),
        }
    });
    Ok(answers.collect())
}

/// The current states of intents that were accepted before.
async fn states_of_known(shared: &Shared, verdicts: &[(TxId, Accepted)]) -> Result<HashMap<TxId, StateName>, Refusal> {
    let known = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Accepted::Existing(_)));
    let ids: Vec<TxId> = known.map(|(id, _)| *id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = shared.app.store.get(&ids).await.map_err(|error| shared.store_failed(&error))?;
    Ok(found.into_iter().flatten().map(|tx| (tx.id, tx.state.name())).collect())
}

fn count(result: &'static str) {
    metrics::counter!("gapless_tx_create_total", "result" => result).increment(1);
}
