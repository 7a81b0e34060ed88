//! What stores write into the audit log: the same words whoever keeps it.

use gapless_domain::{ChainId, CommandReport, NewAudit, NodeText, SubmitterId};

/// One entry as it is written; the store adds its number and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// A submitter, a chain, or [`AuditRow::STORE`].
    pub subject: String,
    pub actor: NodeText,
    pub action: &'static str,
    pub detail: CommandReport,
}

impl AuditRow {
    /// The subject of what concerns all lanes.
    pub const STORE: &'static str = "store";

    pub const ACCEPT_CHAIN: &'static str = "accept_chain";
    pub const DECLARE_LOST: &'static str = "declare_lost";
    pub const DECLARE_RECONCILED: &'static str = "declare_reconciled";

    /// With a commit of the lane.
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
