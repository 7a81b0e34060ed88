//! Commands: orders of a caller or an operator to a lane. Any node writes a command as a durable row; the lane's owner
//! executes it in a fenced commit.

use crate::action::Fees;
use crate::amount::Amount;
use crate::id::{SubmitterId, TxId};
use crate::names::names;
use crate::nonce::Nonce;
use crate::payload::Payload;
use crate::reservation::LockOwner;
use crate::signing::SignedTx;
use crate::text::{CommandReport, NodeText};
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// A command before the store has given it an id and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommand {
    pub submitter: SubmitterId,
    pub kind: CommandKind,
    /// Name of the caller or operator, for the audit log.
    pub issued_by: NodeText,
}

/// A durable command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub id: CommandId,
    pub submitter: SubmitterId,
    pub kind: CommandKind,
    pub issued_by: NodeText,
    pub issued_at: Timestamp,
}

/// Whether a command was executed, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    Open,
    /// The command was executed or refused.
    Over(CommandResult),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    Done(CommandReport),
    /// The lane did not execute the command, and nothing has changed.
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
    /// Reconcile the ledger with the chain. A dry run only reports what would change.
    Resync {
        lost: LostRule,
        dry_run: bool,
    },
    /// Submit a transaction for a reserved nonce, signed by the caller. The writer of the command has checked the
    /// bytes: they are signed by the submitter, for this nonce, at this price.
    UseReserved {
        nonce: Nonce,
        lock_owner: LockOwner,
        signed: SignedTx,
        fees: Fees,
        cost: Amount,
    },
    /// Release a reserved nonce unused.
    ReleaseReserved {
        nonce: Nonce,
        lock_owner: LockOwner,
    },
}

names! {
    /// Rule for intents whose nonce was consumed by a foreign transaction.
    LostRule {
        /// Return the intent to its position in the queue.
        Requeue = "requeue",
        /// End the intent as failed.
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
    /// Operator decisions about a lane in PROTECT. A decision refers to the ledger that the operator saw. When a store
    /// starts a new epoch because commits were lost, it refuses the open decisions.
    pub const DECISIONS: [&'static str; 2] = ["unprotect", "resync"];

    /// Result of a decision that was refused because commits were lost.
    pub const OVERTAKEN: &'static str =
        "the database lost commits after this decision was requested; check the lane and decide again";

    /// The intent that the command refers to, if it refers to one.
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
