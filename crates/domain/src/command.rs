//! Commands: what a caller or an operator wants of a lane. Any node writes one down; the lane's owner executes it, fenced.

use crate::amount::Amount;
use crate::id::{SubmitterId, TxId};
use crate::names::names;
use crate::nonce::Nonce;
use crate::payload::{Fees, Payload};
use crate::plan::SignedTx;
use crate::reservation::LockOwner;
use crate::text::{CommandReport, NodeText};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommand {
    pub submitter: SubmitterId,
    pub kind: CommandKind,
    /// Who asked, for the audit log.
    pub issued_by: NodeText,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub id: CommandId,
    pub submitter: SubmitterId,
    pub kind: CommandKind,
    pub issued_by: NodeText,
    pub issued_at: Timestamp,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    Open,
    Over(CommandResult),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    Done(CommandReport),
    /// The lane did not do it, and nothing has changed.
    Refused(CommandReport),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandKind {
    Cancel {
        tx_id: TxId,
    },
    Replace {
        tx_id: TxId,
        payload: Payload,
    },
    Resubmit {
        tx_id: TxId,
        fees: Option<Fees>,
    },
    CancelPending,
    Pause,
    Resume,
    Unprotect,
    /// Reconcile the ledger with the chain, or only say what that would do.
    Resync {
        lost: LostRule,
        dry_run: bool,
    },
    /// A transaction for a lent nonce, signed by the caller. Whoever writes this down has read the bytes: they are the submitter's,
    /// for this nonce, and carry this price.
    UseReserved {
        nonce: Nonce,
        lock_owner: LockOwner,
        signed: SignedTx,
        fees: Fees,
        cost: Amount,
    },
    ReleaseReserved {
        nonce: Nonce,
        lock_owner: LockOwner,
    },
}

names! {
    /// What becomes of intents whose nonce was used by something else.
    LostRule {
        /// Back to their place in line.
        Requeue = "requeue",
        Fail = "fail",
    }
}

impl CommandResult {
    pub fn report(&self) -> &CommandReport {
        match self {
            CommandResult::Done(report) | CommandResult::Refused(report) => report,
        }
    }
}

impl CommandKind {
    /// An operator's answers to a lane in doubt. They are about what stood in the ledger when they were asked for, so an open one
    /// means nothing any more once commits were lost: whatever begins a new epoch of a store refuses them.
    pub const DECISIONS: [&'static str; 2] = ["unprotect", "resync"];

    /// What such a decision comes back with.
    pub const OVERTAKEN: &'static str =
        "asked for before the database was found to have lost commits; look again, then decide";

    /// The intent that it is about, if it is about one.
    pub fn tx_id(&self) -> Option<TxId> {
        match self {
            CommandKind::Cancel { tx_id }
            | CommandKind::Replace { tx_id, .. }
            | CommandKind::Resubmit { tx_id, .. } => Some(*tx_id),
            _ => None,
        }
    }

    pub fn is_decision(&self) -> bool {
        Self::DECISIONS.contains(&self.as_str())
    }

    pub fn as_str(&self) -> &'static str {
        match self {
            CommandKind::Cancel { .. } => "cancel",
            CommandKind::Replace { .. } => "replace",
            CommandKind::Resubmit { .. } => "resubmit",
            CommandKind::CancelPending => "cancel_pending",
            CommandKind::Pause => "pause",
            CommandKind::Resume => "resume",
            CommandKind::Unprotect => "unprotect",
            CommandKind::Resync { .. } => "resync",
            CommandKind::UseReserved { .. } => "use_reserved",
            CommandKind::ReleaseReserved { .. } => "release_reserved",
        }
    }
}
