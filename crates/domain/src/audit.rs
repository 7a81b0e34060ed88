//! The audit log: changes by operators and policies, outside of ordinary work.

use crate::text::{CommandReport, NodeText};
use crate::time::Timestamp;

/// An audit entry that is about to be written, in the same commit as its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudit {
    /// Name of the caller or operator, or [`NewAudit::POLICY`].
    pub actor: NodeText,
    /// Stable word for the change: the name of a command, `adopt`, …
    pub action: &'static str,
    pub detail: CommandReport,
}

/// A durable audit entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Number of the entry in the store. The numbers may have gaps.
    pub id: u64,
    pub at: Timestamp,
    /// The changed thing: a submitter, a chain, or the store.
    pub subject: String,
    pub actor: NodeText,
    pub action: String,
    pub detail: CommandReport,
}

impl NewAudit {
    /// Actor of changes that the policy makes without an operator.
    pub const POLICY: &'static str = "policy";
}
