//! `GET /api/v1/submitters` and `…/{submitter}`: what lanes are doing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use gapless_domain::{AccountFacts, LaneState, Nonce, Protection, SubmitterId};
use gapless_store::{LaneStatus, LeaseStatus};
use gapless_wire::{
    LaneStateName, LeaseView, NoncesView, Page, Problem, ProblemCode, ProtectView, SubmitterExpand, SubmitterView,
    moment_to_text,
};

use super::chains::millis;
use crate::extract::{PathText, Query, expand};
use crate::problem::Refusal;
use crate::shared::Shared;

/// List submitters.
#[utoipa::path(
    get,
    path = "/api/v1/submitters",
    operation_id = "listSubmitters",
    tag = "submitters",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, description = "Items of a page"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("expand" = Option<String>, Query, pattern = "^(lease|nonces)(,(lease|nonces))*$", description = "`lease`: which node works for it. `nonces`: the ledger's next one, and what the chain counts now"),
    ),
    responses((status = 200, description = "One page", body = Page<SubmitterView>))
)]
pub(super) async fn list_submitters(
    State(shared): State<Arc<Shared>>,
    mut query: Query,
) -> Result<Json<Page<SubmitterView>>, Refusal> {
    let limit = query.limit(&shared.app.limits) as usize;
    let after = query.read("cursor", |text| text.parse().map_err(|_| "this is not a cursor of this list"));
    let expand = read_expand(&mut query);
    query.finish()?;
    let listing = shared.directory.listing().await.map_err(|error| shared.store_failed(&error))?;
    let mut ids = listing.page(after.as_ref(), limit.saturating_add(1));
    let more = ids.len() > limit;
    ids.truncate(limit);
    let found = shared.app.store.lane_status(&ids).await.map_err(|error| shared.store_failed(&error))?;
    let facts = join_all(ids.iter().map(|id| shared.app.chains.account(id))).await;
    let known = ids.iter().zip(&found).zip(facts);
    let known =
        known.filter_map(|((id, status), facts)| Some(view(&shared, id, status.as_ref()?, facts.as_ref(), &expand)));
    let next_cursor = ids.last().filter(|_| more).map(SubmitterId::to_string);
    Ok(Json(Page { items: known.collect(), next_cursor }))
}

/// Look at a submitter.
#[utoipa::path(
    get,
    path = "/api/v1/submitters/{submitter}",
    operation_id = "getSubmitter",
    tag = "submitters",
    params(
        ("submitter" = String, Path, description = "CAIP-10 or alias"),
        ("expand" = Option<String>, Query, pattern = "^(lease|nonces)(,(lease|nonces))*$", description = "`lease`: which node works for it. `nonces`: the ledger's next one, and what the chain counts now"),
    ),
    responses(
        (status = 200, description = "As it stands", body = SubmitterView),
        (status = 404, description = "`unknown_submitter`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn submitter(
    State(shared): State<Arc<Shared>>,
    path: PathText,
    mut query: Query,
) -> Result<Json<SubmitterView>, Refusal> {
    let expand = read_expand(&mut query);
    query.finish()?;
    let (id, status) = find(&shared, &path).await?;
    let facts = shared.app.chains.account(&id).await;
    Ok(Json(view(&shared, &id, &status, facts.as_ref(), &expand)))
}

/// A submitter that exists.
pub(super) async fn find(shared: &Shared, path: &PathText) -> Result<(SubmitterId, LaneStatus), Refusal> {
    let id = shared.resolve(path.submitter()?).await?;
    let found = shared.app.store.lane_status(std::slice::from_ref(&id)).await;
    let status = found.map_err(|error| shared.store_failed(&error))?.into_iter().next().flatten();
    Ok((id, status.ok_or_else(|| Refusal::of(ProblemCode::UnknownSubmitter))?))
}

fn read_expand(query: &mut Query) -> Vec<SubmitterExpand> {
    expand(query, SubmitterExpand::parse, "lease, nonces")
}

fn view(
    shared: &Shared,
    id: &SubmitterId,
    status: &LaneStatus,
    facts: Option<&AccountFacts>,
    expand: &[SubmitterExpand],
) -> SubmitterView {
    let chains = &shared.app.chains;
    let cursor = status.cursor.as_ref();
    let with_nonces = expand.contains(&SubmitterExpand::Nonces);
    let told = |protection: &Protection| match with_nonces {
        true => ProtectView::with_detail(protection),
        false => ProtectView::new(protection.code),
    };
    let (state, protect) = match cursor.map(|cursor| &cursor.state) {
        // The store refuses to write for it, so it is as good as in PROTECT, and will be once it is loaded.
        _ if status.regressed => (LaneStateName::Protect, Some(told(&Protection::store_regressed()))),
        None | Some(LaneState::Idle) => (LaneStateName::Idle, None),
        Some(LaneState::InFlight) => (LaneStateName::InFlight, None),
        Some(LaneState::Protect(protection)) => (LaneStateName::Protect, Some(told(protection))),
    };
    let lease = status.lease.as_ref().filter(|lease| lease.valid && expand.contains(&SubmitterExpand::Lease));
    let head = chains.head(id.chain());
    SubmitterView {
        submitter: id.to_string(),
        alias: status.alias.clone(),
        chain: id.chain().to_string(),
        state,
        paused: cursor.is_some_and(|cursor| cursor.paused),
        protect,
        queued: status.queued,
        open: status.open,
        oldest_queued_at: status.oldest_queued_at.map(moment_to_text),
        balance: facts.map(|facts| facts.balance.to_string()),
        chain_head: head.map(|head| head.block.number),
        chain_head_age_ms: head.map(|head| millis(head.age)),
        chain_trouble: chains.trouble(id.chain()).map(|trouble| trouble.code.as_str().to_owned()),
        lease: lease.map(lease_view),
        nonces: with_nonces.then(|| nonces_view(cursor.map(|cursor| cursor.next_nonce), facts)),
    }
}

/// Each count by itself: a preconfirmed one never stands in for one of a block (R10), nor the ledger's for one of the chain.
fn nonces_view(next: Option<Nonce>, facts: Option<&AccountFacts>) -> NoncesView {
    NoncesView {
        next: next.map(Nonce::get),
        latest: facts.map(|facts| facts.latest.get()),
        preconfirmed: facts.map(|facts| facts.pending.get()),
        settled: facts.and_then(|facts| facts.finalized).map(Nonce::get),
    }
}

fn lease_view(lease: &LeaseStatus) -> LeaseView {
    LeaseView {
        owner: lease.owner.to_string(),
        fencing_token: lease.token.get(),
        expires_at: moment_to_text(lease.expires_at),
    }
}
