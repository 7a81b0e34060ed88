//! `GET /api/v1/submitters` and `…/{submitter}`: the state of lanes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use gapless_domain::{AccountFacts, LaneState, Nonce, Protection, ReleaseRule, SubmitterId};
use gapless_store::{LaneStatus, LeaseStatus};
use gapless_wire::{
    JsonNonce, LaneStateName, LeaseView, NoncesView, Page, Problem, ProblemCode, ProtectView, SubmitterExpand,
    SubmitterView, WindowView, moment_to_text,
};

use super::chains::millis;
use super::parameters::{PageParameters, SubmitterPath};
use super::slots;
use crate::extract::{PathText, Query, expand, whole_number};
use crate::problem::Refusal;
use crate::shared::Shared;

/// List submitters.
#[utoipa::path(
    get,
    path = "/api/v1/submitters",
    operation_id = "listSubmitters",
    tag = "submitters",
    params(
        PageParameters,
        ("expand" = Option<String>, Query, pattern = "^(lease|nonces)(,(lease|nonces))*$",
            description = "`lease`: the node that owns the lane. `nonces`: the ledger's next nonce and the \
                chain's counts"),
    ),
    responses((status = 200, description = "One page", body = Page<SubmitterView>))
)]
pub(super) async fn list_submitters(
    State(shared): State<Arc<Shared>>,
    mut query: Query,
) -> Result<Json<Page<SubmitterView>>, Refusal> {
    let limit = query.limit(&shared.app.limits) as usize;
    let after = query.read("cursor", |text| text.parse().map_err(|_| "this is not a cursor of this list"));
    let in_lists = |word: &str| SubmitterExpand::parse(word).filter(|word| *word != SubmitterExpand::Slots);
    let expand = expand(&mut query, in_lists, "lease, nonces");
    query.finish()?;
    let listing = shared.directory.listing().await.map_err(|error| shared.store_failed(&error))?;
    let mut ids = listing.page(after.as_ref(), limit.saturating_add(1));
    let more = ids.len() > limit;
    ids.truncate(limit);
    let found = shared.app.views.lane_status(&ids).await.map_err(|error| shared.store_failed(&error))?;
    let facts = join_all(ids.iter().map(|id| shared.app.chains.account(id))).await;
    let known = ids.iter().zip(&found).zip(&facts);
    let known = known.filter_map(|((id, status), facts)| {
        let lane = Seen { shared: &shared, id, status: status.as_ref()?, facts: facts.as_ref(), expand: &expand };
        Some(lane.view())
    });
    let next_cursor = ids.last().filter(|_| more).map(SubmitterId::to_string);
    Ok(Json(Page { items: known.collect(), next_cursor }))
}

/// Read a submitter.
#[utoipa::path(
    get,
    path = "/api/v1/submitters/{submitter}",
    operation_id = "getSubmitter",
    tag = "submitters",
    params(
        SubmitterPath,
        ("expand" = Option<String>, Query, pattern = "^(lease|nonces|slots)(,(lease|nonces|slots))*$",
            description = "`lease`: the node that owns the lane. `nonces`: the ledger's next nonce and the \
                chain's counts. `slots`: the bound nonces with their attempts, up to 100"),
        ("fromSlot" = Option<JsonNonce>, Query, description = "`nextSlot` of the page before"),
    ),
    responses(
        (status = 200, description = "The current state", body = SubmitterView),
        (status = 404, description = "`unknown_submitter`", body = Problem),
    )
)]
pub(super) async fn submitter(
    State(shared): State<Arc<Shared>>,
    path: PathText,
    mut query: Query,
) -> Result<Json<SubmitterView>, Refusal> {
    let expand = expand(&mut query, SubmitterExpand::parse, "lease, nonces, slots");
    let nonce = |text: &str| whole_number(text).and_then(|number| Nonce::new(number).ok()).ok_or("this is not a nonce");
    let from_slot = query.read("fromSlot", nonce);
    query.finish()?;
    let (id, status) = find(&shared, &path).await?;
    let facts = shared.app.chains.account(&id).await;
    let lane = Seen { shared: &shared, id: &id, status: &status, facts: facts.as_ref(), expand: &expand };
    let mut view = lane.view();
    let lowest = slots::lowest_unmined(&shared, &id, &status, lane.consumed()).await?;
    view.awaiting_funds = Some(lowest.as_ref().is_some_and(slots::awaits_funds));
    view.lowest_unmined = lowest.map(|slot| slots::lowest_view(&slot, status.now, lane.shows_nonces()));
    if expand.contains(&SubmitterExpand::Slots) {
        let (shown, next) = slots::page(&shared, &id, from_slot).await?;
        (view.slots, view.next_slot) = (Some(shown), next.map(Nonce::get));
    }
    Ok(Json(view))
}

/// A registered submitter.
pub(super) async fn find(shared: &Shared, path: &PathText) -> Result<(SubmitterId, LaneStatus), Refusal> {
    let id = shared.resolve(path.submitter()?).await?;
    let found = shared.app.views.lane_status(std::slice::from_ref(&id)).await;
    let status = found.map_err(|error| shared.store_failed(&error))?.into_iter().next().flatten();
    Ok((id, status.ok_or_else(|| Refusal::of(ProblemCode::UnknownSubmitter))?))
}

/// The data of a lane, and the parts that the caller asked for.
struct Seen<'a> {
    shared: &'a Shared,
    id: &'a SubmitterId,
    status: &'a LaneStatus,
    facts: Option<&'a AccountFacts>,
    expand: &'a [SubmitterExpand],
}

impl Seen<'_> {
    fn shows_nonces(&self) -> bool {
        self.expand.iter().any(|word| matches!(word, SubmitterExpand::Nonces | SubmitterExpand::Slots))
    }

    /// Number of nonces that the chain has consumed: the current value, or the value that the lane read last.
    fn consumed(&self) -> Nonce {
        let read = self.status.cursor.as_ref().map_or(Nonce::ZERO, |cursor| cursor.chain_nonce);
        self.facts.map_or(read, |facts| facts.latest)
    }

    fn view(&self) -> SubmitterView {
        let chains = &self.shared.app.chains;
        let (id, status) = (self.id, self.status);
        let cursor = status.cursor.as_ref();
        let (state, protect) = self.state();
        let lease = status.lease.as_ref();
        let lease = lease.filter(|lease| lease.valid && self.expand.contains(&SubmitterExpand::Lease));
        let with_nonces = self.expand.contains(&SubmitterExpand::Nonces);
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
            balance: self.facts.map(|facts| facts.balance.to_string()),
            low_balance: cursor.is_some_and(|cursor| cursor.low_balance),
            window: Some(self.window()),
            lowest_unmined: None,
            awaiting_funds: None,
            chain_head: head.map(|head| head.block.number),
            chain_head_age_ms: head.map(|head| millis(head.age)),
            chain_trouble: chains.trouble(id.chain()).map(|trouble| trouble.code.as_str().to_owned()),
            lease: lease.map(lease_view),
            nonces: with_nonces.then(|| nonces_view(cursor.map(|cursor| cursor.next_nonce), self.facts)),
            slots: None,
            next_slot: None,
        }
    }

    fn state(&self) -> (LaneStateName, Option<ProtectView>) {
        let told = |protection: &Protection| match self.shows_nonces() {
            true => ProtectView::with_detail(protection),
            false => ProtectView::new(protection.code),
        };
        match self.status.cursor.as_ref().map(|cursor| &cursor.state) {
            // The store refuses to write for this lane, so it is shown as in PROTECT, and will be once it is loaded.
            _ if self.status.regressed => (LaneStateName::Protect, Some(told(&Protection::store_regressed()))),
            None | Some(LaneState::Idle) => (LaneStateName::Idle, None),
            Some(LaneState::InFlight) => (LaneStateName::InFlight, None),
            Some(LaneState::Protect(protection)) => (LaneStateName::Protect, Some(told(protection))),
        }
    }

    fn window(&self) -> WindowView {
        let policy = self.shared.app.chains.nonce_policy(self.id);
        let rules = self.id.chain().rules();
        let max = policy.as_ref().zip(rules).map(|(policy, rules)| rules.window(policy, self.facts));
        let settled = || {
            let read = self.status.cursor.as_ref().map_or(Nonce::ZERO, |cursor| cursor.final_nonce);
            self.facts.and_then(|facts| facts.finalized).unwrap_or(read)
        };
        let counts_until_final = policy.is_some_and(|policy| policy.release == ReleaseRule::Final);
        let over = if counts_until_final { settled() } else { self.consumed() };
        let next = self.status.cursor.as_ref().map_or(0, |cursor| cursor.next_nonce.get());
        WindowView {
            max: max.map(u32::from),
            in_flight: next.saturating_sub(over.get()),
            delegated: self.facts.map(|facts| facts.narrow),
        }
    }
}

/// Each count is separate: a preconfirmed count never replaces a block's count (R10), nor the ledger's count the
/// chain's.
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
