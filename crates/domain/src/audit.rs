//! The audit log: who changed what no ordinary work changes, and what came of it.

use crate::text::{CommandReport, NodeText};
use crate::time::Timestamp;

/// One entry that is about to be written, with the change that it tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudit {
    /// Who asked for it; [`NewAudit::POLICY`] if nobody did.
    pub actor: NodeText,
    /// A stable word: the name of a command, `adopt`, …
    pub action: &'static str,
    pub detail: CommandReport,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Counts all entries of the store; not without holes.
    pub id: u64,
    pub at: Timestamp,
    /// A submitter, a chain, or the store.
    pub subject: String,
    pub actor: NodeText,
    pub action: String,
    pub detail: CommandReport,
}

impl NewAudit {
    /// The actor of what the config allows without an operator.
    pub const POLICY: &'static str = "policy";
}
