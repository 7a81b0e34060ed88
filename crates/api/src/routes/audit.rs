//! `GET /api/v1/audit`: the audit log.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use gapless_domain::ChainId;
use gapless_store::{AuditFilter, AuditRow};
use gapless_wire::{AuditView, Page, Problem, SubmitterRef};

use super::parameters::PageParameters;
use crate::extract::Query;
use crate::problem::Refusal;
use crate::shared::Shared;

/// Read the audit log, newest first.
///
/// The log holds the commands of operators to lanes, chains and the store, their results, and the actions of policies.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    operation_id = "listAudit",
    tag = "audit",
    params(
        ("subject" = Option<String>, Query, description = "Only entries about this submitter (CAIP-10 or alias), \
            chain (CAIP-2), or the database (`store`)"),
        PageParameters,
    ),
    responses(
        (status = 200, description = "One page", body = Page<AuditView>),
        (status = 404, description = "`unknown_submitter`, for an unknown alias", body = Problem),
    )
)]
pub(super) async fn list_audit(
    State(shared): State<Arc<Shared>>,
    mut query: Query,
) -> Result<Json<Page<AuditView>>, Refusal> {
    let subject = query.read("subject", Subject::parse);
    let limit = query.limit(&shared.app.limits);
    let before = query.read("cursor", |text| read_cursor(text).ok_or("this is not a cursor of this list"));
    query.finish()?;
    let subject = match subject {
        Some(Subject::Store) => Some(AuditRow::STORE.to_owned()),
        Some(Subject::Chain(chain)) => Some(chain.to_string()),
        Some(Subject::Submitter(name)) => Some(shared.resolve(name).await?.to_string()),
        None => None,
    };
    // One entry more than is shown tells whether there is a next page.
    let filter = AuditFilter { subject, before, limit: limit.saturating_add(1) };
    let mut found = shared.app.views.audit_log(&filter).await.map_err(|error| shared.store_failed(&error))?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = found.last().filter(|_| more).map(|last| format!("a{:x}", last.id));
    Ok(Json(Page { items: found.iter().map(AuditView::from).collect(), next_cursor }))
}

enum Subject {
    Store,
    Chain(ChainId),
    Submitter(SubmitterRef),
}

impl Subject {
    /// A chain has one colon, a submitter two, an alias none.
    fn parse(text: &str) -> Result<Self, String> {
        if text == AuditRow::STORE {
            return Ok(Subject::Store);
        }
        match text.parse() {
            Ok(chain) => Ok(Subject::Chain(chain)),
            Err(_) => SubmitterRef::parse(text).map(Subject::Submitter).map_err(|error| error.to_string()),
        }
    }
}

/// A position in the log. Opaque to callers, so that it can change.
fn read_cursor(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('a')?;
    let canonical = digits.bytes().all(|b| b.is_ascii_hexdigit());
    // Both databases store a signed number.
    u64::from_str_radix(digits, 16).ok().filter(|id| canonical && i64::try_from(*id).is_ok())
}
