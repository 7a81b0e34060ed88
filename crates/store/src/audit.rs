//! The rows of the audit log. Every store writes the same words.

use gapless_domain::{ChainId, CommandReport, NewAudit, NodeText, SubmitterId};

/// One entry of the audit log. The store adds its id and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// The id of a submitter or of a chain, or [`AuditRow::STORE`].
    pub subject: String,
    pub actor: NodeText,
    pub action: &'static str,
    pub detail: CommandReport,
}

impl AuditRow {
    /// The subject of an entry about the whole database.
    pub const STORE: &'static str = "store";

    pub const ACCEPT_CHAIN: &'static str = "accept_chain";
    pub const DECLARE_LOST: &'static str = "declare_lost";
    pub const DECLARE_RECONCILED: &'static str = "declare_reconciled";

    /// The row of an entry that is part of a lane's commit.
    pub fn of_lane(lane: &SubmitterId, entry: &NewAudit) -> Self {
        AuditRow {
            subject: lane.to_string(),
            actor: entry.actor.clone(),
            action: entry.action,
            detail: entry.detail.clone(),
        }
    }

    pub fn accept_chain(chain: &ChainId, by: &NodeText, why: &str) -> Self {
        AuditRow {
            subject: chain.to_string(),
            actor: by.clone(),
            action: Self::ACCEPT_CHAIN,
            detail: CommandReport::new(why),
        }
    }

    pub fn declare_lost(by: &NodeText, why: &str) -> Self {
        Self::of_store(Self::DECLARE_LOST, by, why)
    }

    pub fn declare_reconciled(by: &NodeText, why: &str) -> Self {
        Self::of_store(Self::DECLARE_RECONCILED, by, why)
    }

    fn of_store(action: &'static str, by: &NodeText, why: &str) -> Self {
        AuditRow { subject: Self::STORE.to_owned(), actor: by.clone(), action, detail: CommandReport::new(why) }
    }
}
