//! Reads for callers and operators.

use std::fmt;

use async_trait::async_trait;
use gapless_domain::{
    Attempt, AuditEntry, CommandId, CommandStatus, Cursor, Event, FencingToken, IntentRecord, Nonce, OwnerId,
    RequestId, Reservation, ReservationStatus, Slot, SlotKind, StateName, SubmitterId, Timestamp, TxId,
};

use super::intake::NewSubmitter;
use crate::error::StoreError;
use crate::wake::Wakeups;

/// Shows the ledger. Views are not fenced: an answer may be out of date when it arrives, so no lane decides from it.
#[async_trait]
pub trait Views: Send + Sync + fmt::Debug {
    /// Wake-ups for callers that wait for a change: an event was written in a lane, or a command was finished. Every
    /// [`accept`](crate::IntentIntake::accept), [`cancel_queued`](crate::IntentIntake::cancel_queued) and
    /// [`commit`](crate::Lanes::commit) that writes one wakes every node on the database. These wake-ups are separate
    /// from [`Leases::wakeups`](crate::Leases::wakeups), so that the commits of an owner do not wake the owner itself.
    fn changes(&self) -> Wakeups;

    async fn submitters(&self) -> Result<Vec<NewSubmitter>, StoreError>;

    /// The status of each lane; `None` for a submitter that is not registered.
    async fn lane_status(&self, lanes: &[SubmitterId]) -> Result<Vec<Option<LaneStatus>>, StoreError>;

    /// The slots of a lane that are not closed, lowest nonce first, beginning with `from`.
    async fn open_slots(
        &self,
        lane: &SubmitterId,
        from: Option<Nonce>,
        limit: u32,
    ) -> Result<Vec<SlotStatus>, StoreError>;

    /// Entries of the audit log, newest first.
    async fn audit_log(&self, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError>;

    /// Intent records by id. Intents that retention moved out are found too.
    async fn get(&self, ids: &[TxId]) -> Result<Vec<Option<IntentRecord>>, StoreError>;

    async fn find_request(&self, submitter: &SubmitterId, request: &RequestId) -> Result<Option<TxId>, StoreError>;

    /// The intent that a reserved nonce was used for, even if the nonce is closed and retention has moved the intent
    /// out. `None` for a nonce that is not used yet or was never reserved.
    async fn used_for(&self, lane: &SubmitterId, nonce: Nonce) -> Result<Option<TxId>, StoreError>;

    /// Intent records, newest first. Intents that retention moved out are not listed.
    async fn list(&self, filter: &TxFilter) -> Result<Vec<IntentRecord>, StoreError>;

    /// The status of each command; `None` for an id that was never written.
    async fn commands(&self, ids: &[CommandId]) -> Result<Vec<Option<CommandStatus>>, StoreError>;

    /// All attempts that were committed for an intent, oldest first.
    async fn attempts(&self, id: TxId) -> Result<Vec<Attempt>, StoreError>;

    /// The first `limit` events of one intent, in the order of their own numbers. These begin with 1 and have no holes;
    /// the number of an event is the version that it led to. The verb is for showing one intent and not for consumers:
    /// it may return an event before [`Outbox::read_events`](crate::Outbox::read_events) does. Events that retention
    /// moved out are found too.
    async fn events_of(&self, id: TxId, limit: u32) -> Result<Vec<Event>, StoreError>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The id of a submitter or of a chain, or [`crate::AuditRow::STORE`].
    pub subject: Option<String>,
    /// Only entries with a smaller id. The next page begins here: the smallest id of the page before.
    pub before: Option<u64>,
    pub limit: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxFilter {
    pub submitter: Option<SubmitterId>,
    pub state: Option<StateName>,
    /// Only intents with a smaller `seq`, so accepted earlier. The next page begins here: the smallest `seq` of the
    /// page before.
    pub before_seq: Option<u64>,
    pub limit: u32,
}

/// The status of a lane, as it was a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    pub alias: Option<String>,
    /// `None` if the lane has not made its first commit.
    pub cursor: Option<Cursor>,
    /// `None` if no node has ever acquired the lane.
    pub lease: Option<LeaseStatus>,
    /// QUEUED intents, counted up to [`LaneStatus::MAX_COUNTED`].
    pub queued: u32,
    /// Intents that have a nonce and are not terminal, counted up to [`LaneStatus::MAX_COUNTED`].
    pub open: u32,
    /// The time when the first intent of the queue was accepted.
    pub oldest_queued_at: Option<Timestamp>,
    /// The store lost commits, and the lane has not acknowledged it yet.
    pub regressed: bool,
    /// The database's time of this answer, equal for all lanes of a call.
    pub now: Timestamp,
}

impl LaneStatus {
    /// The limit of both counts, so that a read of a lane costs the same with any backlog. A count of this value means
    /// "this many or more".
    pub const MAX_COUNTED: u32 = 10_000;
}

/// The newest lease of a lane, also if it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    pub owner: OwnerId,
    pub token: FencingToken,
    /// [`LeaseStatus::RELEASED`] if the owner released the lease.
    pub expires_at: Timestamp,
    /// The lease has not expired by the database's clock.
    pub valid: bool,
}

impl LeaseStatus {
    /// The expiry of a released lease, before any time that a clock can show.
    pub const RELEASED: Timestamp = Timestamp::from_micros(i64::MIN);
}

/// One slot with its intent, its reservation and its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    pub slot: Slot,
    /// The intent that has the nonce, also if it is terminal. `None` if the intent lost the nonce.
    pub tx: Option<IntentRecord>,
    pub reservation: Option<Reservation>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

impl SlotStatus {
    /// The last intent that the slot was bound to or reserved for. The intent may have lost the nonce since.
    pub fn bound_to(slot: &Slot, reservation: Option<&Reservation>) -> Option<TxId> {
        match (slot.kind, reservation.map(|reservation| &reservation.status)) {
            (SlotKind::Intent(id), _) => Some(id),
            (_, Some(ReservationStatus::Reserved { tx_id, .. })) => Some(*tx_id),
            (_, Some(ReservationStatus::Used { tx_id })) => *tx_id,
            (_, Some(ReservationStatus::Recyclable) | None) => None,
        }
    }
}
