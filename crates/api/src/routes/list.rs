//! `GET /api/v1/tx`: pages of intents, newest first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gapless_domain::{ChainId, IntentRecord, StateName};
use gapless_store::TxFilter;
use gapless_wire::{Page, Problem, SubmitterRef, TxStateName, TxView};

use super::parameters::PageParameters;
use crate::extract::Query;
use crate::problem::Refusal;
use crate::shared::Shared;

/// List transactions, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/tx",
    operation_id = "listTx",
    tag = "transactions",
    params(
        ("submitter" = Option<String>, Query, description = "CAIP-10 or alias"),
        ("state" = Option<TxStateName>, Query, description = "Only transactions in this state"),
        PageParameters,
    ),
    responses(
        (status = 200, description = "One page", body = Page<TxView>),
        (status = 404, description = "`unknown_submitter`, for an unknown alias", body = Problem),
    )
)]
pub(super) async fn list_tx(
    State(shared): State<Arc<Shared>>,
    mut query: Query,
) -> Result<Json<Page<TxView>>, Refusal> {
    let submitter = query.read("submitter", SubmitterRef::parse);
    let state = query.read("state", |text| StateName::parse(text).ok_or("there is no such state"));
    let limit = query.limit(&shared.app.limits);
    let before_seq = query.read("cursor", |text| read_cursor(text).ok_or("this is not a cursor of this list"));
    query.finish()?;
    let submitter = match submitter {
        Some(name) => Some(shared.resolve(name).await?),
        None => None,
    };
    // One intent more than is shown tells whether there is a next page.
    let filter = TxFilter { submitter, state, before_seq, limit: limit.saturating_add(1) };
    let mut found = shared.app.views.list(&filter).await.map_err(|error| shared.store_failed(&error))?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(|last| format!("s{:x}", last.seq));
    let chains = &shared.app.chains;
    let head = |chain: &ChainId| chains.head(chain).map(|head| head.block.number);
    let view = |tx: &IntentRecord| TxView::summary(tx).with_head(head(tx.intent.submitter().chain()));
    Ok(Json(Page { items: found.iter().map(view).collect(), next_cursor }))
}

/// A position in the order of acceptance. Opaque to callers, so that it can change.
fn read_cursor(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('s')?;
    let canonical = digits.bytes().all(|b| b.is_ascii_hexdigit());
    // Both databases store a signed number.
    u64::from_str_radix(digits, 16).ok().filter(|seq| canonical && i64::try_from(*seq).is_ok())
}
