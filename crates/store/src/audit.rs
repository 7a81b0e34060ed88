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
    /// The actor of an operator's statement that carries no name.
    pub const OPERATOR: &'static str = "operator";

    pub const ACCEPT_CHAIN: &'static str = "accept_chain";
    pub const DECLARE_REGRESSED: &'static str = "declare_regressed";
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

    pub fn regressed(why: &str) -> Self {
        Self::of_store(Self::DECLARE_REGRESSED, why)
    }

    pub fn reconciled(why: &str) -> Self {
        Self::of_store(Self::DECLARE_RECONCILED, why)
    }

    fn of_store(action: &'static str, why: &str) -> Self {
        let (subject, actor) = (Self::STORE.to_owned(), NodeText::new(Self::OPERATOR));
        AuditRow { subject, actor, action, detail: CommandReport::new(why) }
    }
}
