//! The audit log, for operators.

use gapless_domain::AuditEntry;
use serde::{Deserialize, Serialize};

use crate::moment::moment_to_text;

/// An entry: an action of an operator or a policy outside of ordinary work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    /// Increasing id, with gaps.
    pub id: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
    /// A submitter (CAIP-10), a chain (CAIP-2), or `store` for the database as a whole.
    pub subject: String,
    /// The actor; `policy` if the config allowed the action without an operator.
    pub actor: String,
    /// Stable word: the name of a command, `adopt`, `accept_chain`, …
    pub action: String,
    /// Result, in one or more lines.
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
