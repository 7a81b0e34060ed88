//! `GET /api/v1/tx/{txId}` and `…/by-request`: one intent.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use gapless_domain::{Attempt, IntentRecord, RequestId};
use gapless_wire::{Problem, ProblemCode, SubmitterRef, TxExpand, TxView};

use super::parameters::{TxPath, TxReadQuery, WaitQuery};
use super::{slots, wait};
use crate::extract::{PathText, Query, expand, whole_number};
use crate::limits::{MAX_EVENTS_FOLDED, MAX_EVENTS_SHOWN};
use crate::problem::Refusal;
use crate::shared::{InFlight, Shared};

/// Read a transaction.
///
/// With `wait`, the answer comes when the transaction changes or the time is over. A final transaction is answered at
/// once. With `version` too, a transaction that is no longer at this version is answered at once, so that a caller who
/// goes from change to change misses none.
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}",
    operation_id = "getTx",
    tag = "transactions",
    params(
        TxPath,
        WaitQuery,
        TxReadQuery,
    ),
    responses(
        (status = 200, description = "The current state", body = TxView),
        (status = 404, description = "`tx_not_found`", body = Problem),
    )
)]
pub(super) async fn tx(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    path: PathText,
    mut query: Query,
) -> Result<Json<TxView>, Refusal> {
    let look = Look::read(&mut query, &shared);
    query.finish()?;
    let tx = shared.find(path.tx_id()?).await?;
    look.answer(&shared, &in_flight, tx).await
}

/// Read a transaction by its request id.
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-request",
    operation_id = "getTxByRequest",
    tag = "transactions",
    params(
        ("submitter" = String, Query, description = "CAIP-10 or alias"),
        ("requestId" = String, Query, min_length = 1, description = "The request id of the transaction"),
        WaitQuery,
        TxReadQuery,
    ),
    responses(
        (status = 200, description = "The current state", body = TxView),
        (status = 404, description = "`tx_not_found`, or `unknown_submitter` for an unknown alias", body = Problem),
    )
)]
pub(super) async fn tx_by_request(
    State(shared): State<Arc<Shared>>,
    Extension(in_flight): Extension<InFlight>,
    mut query: Query,
) -> Result<Json<TxView>, Refusal> {
    let look = Look::read(&mut query, &shared);
    let limits = &shared.app.intent_limits;
    let submitter = query.required("submitter", SubmitterRef::parse);
    let request = query.required("requestId", |text| RequestId::new(text, limits));
    query.finish()?;
    // `finish` has reported missing and wrong parameters.
    let (Some(submitter), Some(request)) = (submitter, request) else {
        return Err(Refusal::of(ProblemCode::Internal));
    };
    let submitter = shared.resolve(submitter).await?;
    let found = shared.app.store.find_request(&submitter, &request).await;
    let id = found.map_err(|error| shared.store_failed(&error))?;
    let tx = shared.find(id.ok_or_else(|| Refusal::of(ProblemCode::TxNotFound))?).await?;
    look.answer(&shared, &in_flight, tx).await
}

/// The caller's parameters of a read.
#[derive(Debug)]
struct Look {
    wait: Option<Duration>,
    version: Option<u32>,
    expand: Vec<TxExpand>,
}

impl Look {
    fn read(query: &mut Query, shared: &Shared) -> Self {
        let version = |text: &str| {
            whole_number(text).and_then(|number| u32::try_from(number).ok()).ok_or("a version is a whole number")
        };
        Look {
            wait: query.wait(&shared.app.limits),
            version: query.read("version", version),
            expand: expand(query, TxExpand::parse, "attempts, events, confirmations"),
        }
    }

    async fn answer(self, shared: &Shared, in_flight: &InFlight, tx: IntentRecord) -> Result<Json<TxView>, Refusal> {
        let seen = self.version.is_none_or(|version| version == tx.version);
        let tx = match self.wait {
            Some(wait) if seen && !tx.state.name().is_terminal() => {
                let place = shared.place_to_wait(wait)?;
                wait::for_change(shared, in_flight, tx, place).await?
            }
            _ => tx,
        };
        Ok(Json(self.view(shared, &tx).await?))
    }

    async fn view(&self, shared: &Shared, tx: &IntentRecord) -> Result<TxView, Refusal> {
        let head = shared.app.chains.head(tx.intent.submitter().chain());
        let mut view = TxView::whole(tx).with_head(head.map(|head| head.block.number));
        let wanted = |word| self.expand.contains(&word);
        // An intent without a nonce has no attempts, unless it lost a nonce.
        if tx.state.nonce().is_some() || wanted(TxExpand::Attempts) {
            let attempts = shared.app.store.attempts(tx.id).await.map_err(|error| shared.store_failed(&error))?;
            let outline = |attempt: &Attempt| shared.app.chains.outline(tx.intent.submitter().chain(), &attempt.raw);
            view = view.with_pending_hash(tx, &attempts).with_mined(tx, &attempts, outline);
            if wanted(TxExpand::Attempts) {
                let slot = slots::of(shared, tx).await?;
                view = view.with_attempts(tx, &attempts, slot.as_ref(), outline);
            }
        }
        let (listed, folded) = (wanted(TxExpand::Events), wanted(TxExpand::Confirmations));
        if listed || folded {
            // Event numbers have no gap, so as many events as the version are exactly those that led to it.
            let most = if folded { MAX_EVENTS_FOLDED } else { MAX_EVENTS_SHOWN };
            let events = shared.app.store.events_of(tx.id, tx.version.min(most)).await;
            let events = events.map_err(|error| shared.store_failed(&error))?;
            if folded {
                view = view.with_confirmations(&events);
            }
            if listed {
                view = view.with_events(events.get(..MAX_EVENTS_SHOWN as usize).unwrap_or(&events));
            }
        }
        Ok(view)
    }
}
