//! Commands: what a caller or an operator wants of a lane. Any node writes one down; the lane's owner executes it, fenced.

use alloy_primitives::Bytes;

use crate::id::{SubmitterId, TxId};
use crate::nonce::Nonce;
use crate::payload::{Fees, Payload};
use crate::reservation::LockOwner;
use crate::text::NodeText;
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
    Done(NodeText),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandKind {
    Cancel { tx_id: TxId },
    Replace { tx_id: TxId, payload: Payload },
    Resubmit { tx_id: TxId, fees: Option<Fees> },
    CancelPending,
    Pause,
    Resume,
    Unprotect,
    Resync { requeue_lost: bool },
    UseReserved { nonce: Nonce, lock_owner: LockOwner, raw: Bytes },
    ReleaseReserved { nonce: Nonce, lock_owner: LockOwner },
}

impl CommandKind {
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
