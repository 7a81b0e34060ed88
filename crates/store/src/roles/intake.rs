//! Writes that need no lease: any node makes them for any lane.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{CommandId, Intent, NewCommand, Protection, SubmitterId, TxId};

use crate::error::StoreError;

/// Takes in submitters, intents and commands. Any node may call these verbs for any lane, whether it owns the lane or
/// not.
#[async_trait]
pub trait IntentIntake: Send + Sync + fmt::Debug {
    /// Registers submitters. A submitter that is registered already keeps its row; only a new alias is written. An
    /// alias that belongs to another submitter is a [`StoreError::Setup`].
    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError>;

    /// Queues intents in the order given. `(submitter, request id)` is the only idempotency key. Of several intents
    /// with one key the first is new; the others get its id, or a conflict if their payload differs. An intent that
    /// the database cannot hold is refused alone. Repeating a call whose outcome is unknown is harmless, and it is the
    /// way to learn the outcome.
    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError>;

    /// Cancels the intents that are still QUEUED, unless their lane is regressed or not yet reconciled. The owners of
    /// their lanes get a [`Wakeup::QueueChanged`](crate::Wakeup::QueueChanged).
    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError>;

    /// Writes commands for the owners of their lanes. The verb is not idempotent: a call that is repeated because its
    /// answer was lost may write a command twice. So every command must be harmless when it is executed again.
    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubmitter {
    pub id: SubmitterId,
    pub alias: Option<String>,
}

/// An intent with the id that it gets if its request id is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIntent {
    pub id: TxId,
    pub intent: Intent,
}

/// The answer of [`IntentIntake::accept`] for one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The intent is durable under the id that the caller gave.
    New,
    /// An equal request was accepted before, under this id.
    Existing(TxId),
    /// The request id belongs to another payload, accepted under this id.
    Conflict(TxId),
    UnknownSubmitter,
    /// The lane is in PROTECT and accepts no new intents.
    Protected(Protection),
    /// The database cannot hold this intent. The other intents of the call are not affected.
    Refused(String),
}

/// The answer of [`IntentIntake::cancel_queued`] for one intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelVerdict {
    Canceled,
    /// The intent has left the queue. Its present state decides how it can be canceled.
    NotQueued,
    /// The store lost commits. The row says QUEUED, but the intent may have been sent. No intent of the lane ends until
    /// the lane is reconciled.
    Regressed,
    Unknown,
}
