//! The audit log as operators see it.

use gapless_domain::AuditEntry;
use serde::{Deserialize, Serialize};

use crate::moment::moment_to_text;

/// Somebody, or a policy, changed what no ordinary work changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    /// Grows from entry to entry, with holes.
    pub id: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    /// A submitter (CAIP-10), a chain (CAIP-2), or `store`: the database as a whole.
    pub subject: String,
    /// Who asked for it; `policy` if the config allowed it without anybody.
    pub actor: String,
    /// A stable word: the name of a command, `adopt`, `accept_chain`, …
    pub action: String,
    /// What came of it, in one or more lines.
    pub detail: String,
}

impl From<&AuditEntry> for AuditView {
    fn from(entry: &AuditEntry) -> Self {
        AuditView {
            id: entry.id,
            at: moment_to_text(entry.at),
            subject: entry.subject.clone(),
            actor: entry.actor.as_str().to_owned(),
            action: entry.action.clone(),
            detail: entry.detail.as_str().to_owned(),
        }
    }
}
