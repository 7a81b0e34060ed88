//! The contract: few verbs, each atomic, each for many at once.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{
    Attempt, AuditEntry, ChainId, Command, CommandId, CommandStatus, Event, EventPosition, Head, IntentRecord,
    LaneCommit, Lease, NewCommand, NodeText, Nonce, OwnerId, RequestId, StateName, SubmitterId, Timestamp, TxId,
};

use crate::error::StoreError;
use crate::retention::RetentionKind;
use crate::status::{Census, LaneStatus, SlotStatus};
use crate::verdict::{Accepted, Acquired, CancelVerdict, Committed, HeadVerdict, Loaded, Renewal};
use crate::wake::Wakeups;

/// How many commands of one lane are handed out at once.
pub const MAX_OPEN_COMMANDS: u32 = 100;

/// What keeps the ledger. A handle belongs to one process ([`Store::owner`]); many handles share one database.
///
/// Every list verb answers in the order of its input, one answer for each item. An `Err` means that the whole call did
/// nothing that the caller has to know about and may be repeated, except where a verb says otherwise.
///
/// Expiry, ages and holds are measured by the database's clock alone; no verb takes the time from a node.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The process that this handle writes for.
    fn owner(&self) -> &OwnerId;

    /// Wake-ups for this process: "look there". They carry nothing and may be lost: [`Store::lanes_with_work`] finds lanes that
    /// nobody holds, and whoever holds one looks at its queue from time to time anyway.
    fn wakeups(&self) -> Wakeups;

    /// The same for those who wait for what becomes of intents: "something of this lane was written". Told after every
    /// [`Store::accept`], [`Store::cancel_queued`] and [`Store::commit`] that wrote an event or finished a command, to every
    /// process on the database. Apart from [`Store::wakeups`], so that nobody is called to work by its own commits.
    fn changes(&self) -> Wakeups;

    // --- Unfenced: any node may call these for any lane. ---

    /// Makes submitters known. Those that are known already stay as they are, but for a new alias. An alias that another
    /// submitter has is a [`StoreError::Setup`].
    async fn register_submitters(&self, submitters: &[NewSubmitter]) -> Result<(), StoreError>;

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError>;

    /// Queues intents, in the order given. `(submitter, request id)` is the only key of idempotency: the first of several
    /// is new, the others get the first one's id, or a conflict if their payload differs. One item that the database cannot
    /// hold is refused alone. Repeating a call whose outcome is unknown is harmless, and the way to learn it.
    async fn accept(&self, intents: &[NewIntent]) -> Result<Vec<Accepted>, StoreError>;

    /// Cancels those that are still QUEUED, unless their lane is regressed or not yet reconciled.
    async fn cancel_queued(&self, ids: &[TxId]) -> Result<Vec<CancelVerdict>, StoreError>;

    /// Writes commands down for the owners of their lanes. Not idempotent: one that is repeated because its answer was lost
    /// may be there twice, so every command must be harmless when it is executed again.
    async fn put_commands(&self, commands: &[NewCommand]) -> Result<Vec<CommandId>, StoreError>;

    // --- Leases. ---

    /// Takes each lane that nobody holds: never held (token 1), released, or expired by more than the skew (token + 1). One
    /// that this owner holds is renewed; one that this owner let expire gets a new token.
    async fn acquire(&self, lanes: &[SubmitterId]) -> Result<Vec<Acquired>, StoreError>;

    /// Renews every lease that this owner still holds, and says that the process is alive.
    async fn renew(&self) -> Result<Renewal, StoreError>;

    /// Gives leases back, at once free for others. Those that are no longer held are passed over. Other processes are woken
    /// for lanes that still have work.
    async fn release(&self, leases: &[Lease]) -> Result<(), StoreError>;

    // --- Fenced: need a lease. ---

    /// Everything that a lane needs to go on. Waits for any write of an older owner that is still under way, so what it
    /// returns cannot change but by this lease.
    async fn load_lanes(&self, leases: &[Lease]) -> Result<Vec<Loaded>, StoreError>;

    /// Applies each commit wholly or not at all; see [`crate::CommitVerdict`]. A lane may appear once in a call, and the
    /// caller has at most one commit of a lane under way. Several changes of one intent in one commit follow each other, each
    /// from the version that the one before leads to. A commit that is done has also extended its lease.
    ///
    /// [`StoreError::OutcomeUnknown`] means that some may have been applied: the caller must drop these lanes and load
    /// them anew before it sends anything.
    async fn commit(&self, commits: &[LaneCommit]) -> Result<Committed, StoreError>;

    // --- Reads. ---

    /// The first intents in line: QUEUED in order of acceptance, up to the number given for each lane. Those of `without` are passed over,
    /// and not counted: whoever is binding them does not want to read them again.
    async fn peek_queues(
        &self,
        lanes: &[(SubmitterId, u32)],
        without: &[TxId],
    ) -> Result<Vec<Vec<IntentRecord>>, StoreError>;

    /// Commands that wait to be executed, oldest first, up to [`MAX_OPEN_COMMANDS`] for each lane: the rest come when these are
    /// done. Whoever holds a lane asks this when it is woken. Needs no lease, so what it shows may be done by a commit that
    /// is under way.
    async fn open_commands(&self, lanes: &[SubmitterId]) -> Result<Vec<Vec<Command>>, StoreError>;

    /// The sweep: lanes with queued or open work, or a command, that nobody holds a lease of; at most `limit` of them, with
    /// submitters in order, beginning after `after`. A nonce that is not closed is open work too, also when no intent holds
    /// it (a fill, one that may be lent again), so a lane that wants rest has to close its slots.
    async fn lanes_with_work(&self, after: Option<&SubmitterId>, limit: u32) -> Result<Vec<SubmitterId>, StoreError>;

    /// What lanes are doing, for people. None for a submitter that is not registered.
    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError>;

    /// The slots of a lane that are not closed, lowest first, beginning with `from`, with what hangs on each. For people: nothing
    /// here is fenced.
    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError>;

    /// How many processes are alive, and how many leases hold.
    async fn census(&self) -> Result<Census, StoreError>;

    /// Newest first.
    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError>;

    /// Also finds what retention has moved out.
    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError>;

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError>;

    /// The intent that a lent nonce was used for, also when the nonce is long closed and retention has moved the intent out. `None`
    /// while it is not used, and for one that was never lent.
    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError>;

    /// Newest first; what retention has moved out is not listed.
    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError>;

    /// What became of commands; None for one that was never written down.
    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError>;

    /// All attempts that were ever made durable for an intent, oldest first.
    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError>;

    // --- Events. ---

    /// Events after `after` in the order of commits, never skipping one that commits late.
    async fn read_events(&self, after: EventPosition, limit: u32) -> Result<Vec<Event>, StoreError>;

    /// The first `limit` events of one intent, by its own numbers, which begin with 1 and have no holes: the last one's is
    /// the version that it led to. For people who look at one intent, not for consumers: an event may be seen here before
    /// [`Store::read_events`] gives it. Also finds what retention has moved out.
    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError>;

    /// The next events for a named consumer, or `None` while another process holds its claim. The claim lasts a lease's
    /// duration and is renewed by claiming again.
    async fn claim_events(&self, consumer: &str, limit: u32) -> Result<Option<Vec<Event>>, StoreError>;

    /// The consumer has handled everything up to `upto`. False if its claim was lost; then it will see them again.
    async fn ack_events(&self, consumer: &str, upto: EventPosition) -> Result<bool, StoreError>;

    // --- Chains. ---

    /// Keeps the head that was linked last, whoever linked it. The final block only moves forward, and the genesis stays once
    /// it is known; [`crate::merge_heads`] is the rule. Repeating a call whose outcome is unknown is harmless.
    async fn save_head(&self, chain: &ChainId, head: &Head) -> Result<HeadVerdict, StoreError>;

    async fn head(&self, chain: &ChainId) -> Result<Option<Head>, StoreError>;

    /// An operator accepts that the chain is another one, or began anew: what was known of it is forgotten, what was final
    /// and the genesis too. Whoever still follows the old one may save it again. Audited as `accept_chain`, by whom and why.
    async fn forget_head(&self, chain: &ChainId, by: &NodeText, why: &str) -> Result<(), StoreError>;

    // --- Housekeeping. ---

    /// Makes this process the one that applies retention, and answers with the database's time. `None` while another
    /// process holds the claim. The claim lasts a lease's duration and is renewed by claiming again. It spares the
    /// database double work; [`Store::apply_retention`] is correct without it.
    async fn claim_retention(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Moves or deletes one batch of rows that are older than `age`, oldest first, in one transaction: at most `limit`
    /// intents for the kinds that belong to intents, at most `limit` rows otherwise. Returns how many. Repeating a call
    /// whose outcome is unknown is harmless.
    async fn apply_retention(&self, kind: RetentionKind, age: Duration, limit: u32) -> Result<u32, StoreError>;

    /// An operator says that this database was restored or has lost commits. Every lane must take notice before it
    /// writes anything else. Every call begins a new loss, also when the one before is not reconciled. Audited as
    /// `declare_lost`.
    async fn declare_lost(&self, by: &NodeText, why: &str) -> Result<(), StoreError>;

    /// An operator says that every loss so far has been looked into. Lanes are reconciled one by one, by their own
    /// commits. Until this is said, a submitter that is registered for the first time has to take notice as well,
    /// because it may be part of the loss. Audited as `declare_reconciled`.
    async fn declare_reconciled(&self, by: &NodeText, why: &str) -> Result<(), StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSubmitter {
    pub id: SubmitterId,
    pub alias: Option<String>,
}

/// An intent with the id that it gets if it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIntent {
    pub id: gapless_domain::TxId,
    pub intent: gapless_domain::Intent,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// A submitter or a chain, by its id, or [`crate::AuditRow::STORE`].
    pub subject: Option<String>,
    /// Only entries with a smaller id: the last one of the page before.
    pub before: Option<u64>,
    pub limit: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxFilter {
    pub submitter: Option<SubmitterId>,
    pub state: Option<StateName>,
    /// Only what was accepted before this place in line: the last `seq` of the page before.
    pub before_seq: Option<u64>,
    pub limit: u32,
}
