//! The rows of the ledger, one type for each kind, and their conversions.
//!
//! The fields have the names of the columns. A store reads them by its own driver, which also turns the types that the
//! two databases hold differently (ids, times, hashes, booleans) into the domain's.

use gapless_domain::{
    Attempt, AttemptKind, AuditEntry, B256, Bytes, Command, CommandId, CommandReport, Cursor, Event, EventBody,
    EventKind, EventPosition, Intent, IntentRecord, LaneEventKind, LaneState, LockOwner, MempoolSignal, Metadata,
    NodeText, ProtectCode, Protection, RequestId, Reservation, ReservationStatus, SendOutcome, Slot, SlotKind, Speed,
    SubmitterId, Timestamp, TxId,
};
use gapless_store::RowError;

use crate::codec::{
    above, command_from_json, fees_from_json, nonce, notice_from_json, payload_from_json, sends_from_json, signed,
    state_from_row, submitter, tries, unsigned, word,
};

/// A row of `managed_tx`, or of its archive, without the submitter.
#[derive(Clone, Debug)]
pub struct IntentRow<'a> {
    pub tx_id: TxId,
    pub seq: i64,
    pub request_id: &'a str,
    pub payload: &'a str,
    pub speed: &'a str,
    pub valid_until: Option<Timestamp>,
    pub metadata: Option<String>,
    pub state: &'a str,
    pub nonce: Option<i64>,
    pub detail: &'a str,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub replacement: Option<&'a str>,
}

impl IntentRow<'_> {
    /// The submitter is a parameter: parsing an address costs more than sharing one among the rows of a lane.
    pub fn into_record(self, submitter: SubmitterId) -> Result<IntentRecord, RowError> {
        let intent = Intent::restore(
            submitter,
            RequestId::restore(self.request_id),
            payload_from_json(self.payload)?,
            word("speed", self.speed, Speed::parse)?,
            self.valid_until,
            self.metadata.map(Metadata::restore),
        );
        Ok(IntentRecord {
            id: self.tx_id,
            seq: unsigned("seq", self.seq)?,
            intent,
            replacement: self.replacement.map(payload_from_json).transpose()?,
            state: state_from_row(self.state, self.nonce, self.detail)?,
            version: small("version", self.version)?,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

/// A row of `tx_attempt`, or of its archive.
#[derive(Clone, Debug)]
pub struct AttemptRow<'a> {
    pub nonce: i64,
    pub ordinal: i64,
    pub kind: &'a str,
    pub hash: B256,
    pub raw: &'a [u8],
    pub fees: &'a str,
    pub created_at: Timestamp,
    pub sends: i64,
    pub last_sent_at: Option<Timestamp>,
    pub last_outcome: Option<&'a str>,
    pub last_text: Option<&'a str>,
    /// None where it was not read: a lane is loaded without the history of its sends, which only people read.
    pub history: Option<&'a str>,
}

impl TryFrom<AttemptRow<'_>> for Attempt {
    type Error = RowError;

    fn try_from(row: AttemptRow<'_>) -> Result<Self, RowError> {
        let last_outcome = match row.last_outcome {
            None => None,
            Some(outcome) => {
                let text = NodeText::new(row.last_text.unwrap_or_default());
                Some((word("outcome", outcome, SendOutcome::parse)?, text))
            }
        };
        Ok(Attempt {
            nonce: nonce(row.nonce)?,
            ordinal: small("ordinal", row.ordinal)?,
            kind: word("attempt kind", row.kind, AttemptKind::parse)?,
            hash: row.hash,
            raw: Bytes::copy_from_slice(row.raw),
            fees: fees_from_json(row.fees)?,
            created_at: row.created_at,
            sends: small("sends", row.sends)?,
            last_sent_at: row.last_sent_at,
            last_outcome,
            history: row.history.map_or(Ok(Vec::new()), sends_from_json)?,
        })
    }
}

/// A row of `slot`.
#[derive(Clone, Debug)]
pub struct SlotRow<'a> {
    pub nonce: i64,
    pub kind: &'a str,
    pub tx_id: Option<TxId>,
    pub bound_at: Timestamp,
    pub next_resubmit_at: Option<Timestamp>,
    pub above_block: Option<i64>,
    pub above_hash: Option<B256>,
    pub evidence: Option<&'a str>,
    pub tries: i64,
    pub signal: Option<&'a str>,
}

impl SlotRow<'_> {
    pub const COLUMNS: &'static str =
        "nonce, kind, tx_id, bound_at, next_resubmit_at, above_block, above_hash, evidence, tries, signal";
}

impl TryFrom<SlotRow<'_>> for Slot {
    type Error = RowError;

    fn try_from(row: SlotRow<'_>) -> Result<Self, RowError> {
        // The CHECK of the table allows "fill" too. No release ever wrote such a slot, so a row with it is damaged.
        let kind = match (row.kind, row.tx_id) {
            ("intent", Some(id)) => SlotKind::Intent(id),
            ("reservation", None) => SlotKind::Reservation,
            ("foreign", None) => SlotKind::Foreign,
            (kind, _) => return Err(RowError::new("slot kind", kind)),
        };
        Ok(Slot {
            nonce: nonce(row.nonce)?,
            kind,
            above: above(row.above_block, row.above_hash)?,
            evidence: row.evidence.map(NodeText::new),
            bound_at: row.bound_at,
            next_resubmit_at: row.next_resubmit_at,
            tries: tries(row.tries)?,
            signal: row.signal.map(|signal| word("signal", signal, MempoolSignal::parse)).transpose()?,
        })
    }
}

/// The columns `kind` and `tx_id` of a slot.
pub fn slot_kind_columns(kind: SlotKind) -> (&'static str, Option<TxId>) {
    match kind {
        SlotKind::Intent(id) => ("intent", Some(id)),
        SlotKind::Reservation => ("reservation", None),
        SlotKind::Foreign => ("foreign", None),
    }
}

/// A row of `submitter_nonce_cursor`, without its submitter, epoch, fencing token and time.
#[derive(Clone, Debug)]
pub struct CursorRow<'a> {
    pub next_nonce: i64,
    pub chain_nonce: i64,
    pub final_nonce: i64,
    pub open_nonce: i64,
    pub state: &'a str,
    pub protect_code: Option<&'a str>,
    pub protect_detail: Option<&'a str>,
    pub paused: bool,
    pub version: i64,
    pub event_seq: i64,
    pub low_balance: bool,
}

impl CursorRow<'_> {
    pub const COLUMNS: &'static str = "next_nonce, chain_nonce, final_nonce, open_nonce, state, protect_code, \
         protect_detail, paused, version, event_seq, low_balance";
}

impl<'a> From<&'a Cursor> for CursorRow<'a> {
    fn from(cursor: &'a Cursor) -> Self {
        let protection = match &cursor.state {
            LaneState::Protect(protection) => Some(protection),
            LaneState::Idle | LaneState::InFlight => None,
        };
        CursorRow {
            next_nonce: signed(cursor.next_nonce.get()),
            chain_nonce: signed(cursor.chain_nonce.get()),
            final_nonce: signed(cursor.final_nonce.get()),
            open_nonce: signed(cursor.open_nonce.get()),
            state: cursor.state.as_str(),
            protect_code: protection.map(|protection| protection.code.as_str()),
            protect_detail: protection.map(|protection| protection.detail.as_str()),
            paused: cursor.paused,
            version: signed(cursor.version),
            event_seq: signed(cursor.event_seq),
            low_balance: cursor.low_balance,
        }
    }
}

impl TryFrom<CursorRow<'_>> for Cursor {
    type Error = RowError;

    fn try_from(row: CursorRow<'_>) -> Result<Self, RowError> {
        let state = match row.state {
            "IDLE" => LaneState::Idle,
            "IN_FLIGHT" => LaneState::InFlight,
            "PROTECT" => LaneState::Protect(protection(row.protect_code, row.protect_detail)?),
            other => return Err(RowError::new("lane state", other)),
        };
        Ok(Cursor {
            next_nonce: nonce(row.next_nonce)?,
            chain_nonce: nonce(row.chain_nonce)?,
            final_nonce: nonce(row.final_nonce)?,
            open_nonce: nonce(row.open_nonce)?,
            state,
            paused: row.paused,
            low_balance: row.low_balance,
            version: unsigned("cursor version", row.version)?,
            event_seq: unsigned("event_seq", row.event_seq)?,
        })
    }
}

/// The columns `protect_code` and `protect_detail` of a cursor whose lane is in PROTECT.
pub fn protection(code: Option<&str>, detail: Option<&str>) -> Result<Protection, RowError> {
    let code = word("protect code", code.unwrap_or_default(), ProtectCode::parse)?;
    Ok(Protection { code, detail: NodeText::new(detail.unwrap_or_default()) })
}

/// A row of `submitter_nonce_allocation`, without its submitter and fencing token.
#[derive(Clone, Debug)]
pub struct ReservationRow<'a> {
    pub nonce: i64,
    pub status: &'a str,
    pub tx_id: Option<TxId>,
    pub lock_owner: Option<&'a str>,
    pub locked_until: Option<Timestamp>,
}

impl ReservationRow<'_> {
    pub const COLUMNS: &'static str = "nonce, status, tx_id, lock_owner, locked_until";
}

impl<'a> From<&'a Reservation> for ReservationRow<'a> {
    fn from(reservation: &'a Reservation) -> Self {
        let nonce = signed(reservation.nonce.get());
        let free = ReservationRow { nonce, status: "RECYCLABLE", tx_id: None, lock_owner: None, locked_until: None };
        match &reservation.status {
            ReservationStatus::Recyclable => free,
            ReservationStatus::Used { tx_id } => ReservationRow { status: "USED", tx_id: *tx_id, ..free },
            ReservationStatus::Reserved { tx_id, lock_owner, locked_until } => ReservationRow {
                nonce,
                status: "RESERVED",
                tx_id: Some(*tx_id),
                lock_owner: Some(lock_owner.as_str()),
                locked_until: Some(*locked_until),
            },
        }
    }
}

impl TryFrom<ReservationRow<'_>> for Reservation {
    type Error = RowError;

    fn try_from(row: ReservationRow<'_>) -> Result<Self, RowError> {
        let lock_owner = row.lock_owner.and_then(LockOwner::new);
        let status = match (row.status, row.tx_id, lock_owner, row.locked_until) {
            ("RESERVED", Some(tx_id), Some(lock_owner), Some(locked_until)) => {
                ReservationStatus::Reserved { tx_id, lock_owner, locked_until }
            }
            ("USED", tx_id, ..) => ReservationStatus::Used { tx_id },
            ("RECYCLABLE", ..) => ReservationStatus::Recyclable,
            (status, ..) => return Err(RowError::new("reservation", status)),
        };
        Ok(Reservation { nonce: nonce(row.nonce)?, status })
    }
}

/// A row of `lane_command` that is still open.
#[derive(Clone, Debug)]
pub struct CommandRow<'a> {
    pub id: i64,
    pub submitter: &'a str,
    pub body: &'a str,
    pub issued_by: &'a str,
    pub issued_at: Timestamp,
}

impl TryFrom<CommandRow<'_>> for Command {
    type Error = RowError;

    fn try_from(row: CommandRow<'_>) -> Result<Self, RowError> {
        Ok(Command {
            id: CommandId(unsigned("command id", row.id)?),
            submitter: submitter(row.submitter)?,
            kind: command_from_json(row.body)?,
            issued_by: NodeText::new(row.issued_by),
            issued_at: row.issued_at,
        })
    }
}

/// A row of `tx_event`, or of its archive. The position is in columns of the store's own.
#[derive(Clone, Debug)]
pub struct EventRow<'a> {
    pub position: EventPosition,
    pub submitter: &'a str,
    pub tx_id: Option<TxId>,
    pub seq: i64,
    pub kind: &'a str,
    pub state: Option<&'a str>,
    pub nonce: Option<i64>,
    pub detail: Option<&'a str>,
    pub text: Option<&'a str>,
    pub at: Timestamp,
    pub notice: Option<&'a str>,
}

impl TryFrom<EventRow<'_>> for Event {
    type Error = RowError;

    fn try_from(row: EventRow<'_>) -> Result<Self, RowError> {
        let body = match row.tx_id {
            Some(tx_id) => EventBody::Tx {
                tx_id,
                seq: small("event seq", row.seq)?,
                kind: word("event kind", row.kind, EventKind::parse)?,
                state: state_from_row(
                    row.state.unwrap_or_default(),
                    row.nonce,
                    row.detail.ok_or_else(|| RowError::new("event detail", "missing"))?,
                )?,
                notice: row.notice.map(notice_from_json).transpose()?,
            },
            None => EventBody::Lane {
                seq: unsigned("event seq", row.seq)?,
                kind: word("event kind", row.kind, LaneEventKind::parse)?,
                text: NodeText::new(row.text.ok_or_else(|| RowError::new("event text", "missing"))?),
            },
        };
        Ok(Event { position: row.position, submitter: submitter(row.submitter)?, at: row.at, body })
    }
}

/// A row of `audit_log`.
#[derive(Clone, Debug)]
pub struct AuditEntryRow<'a> {
    pub id: i64,
    pub at: Timestamp,
    pub subject: String,
    pub actor: &'a str,
    pub action: String,
    pub detail: &'a str,
}

impl TryFrom<AuditEntryRow<'_>> for AuditEntry {
    type Error = RowError;

    fn try_from(row: AuditEntryRow<'_>) -> Result<Self, RowError> {
        Ok(AuditEntry {
            id: unsigned("audit id", row.id)?,
            at: row.at,
            subject: row.subject,
            actor: NodeText::new(row.actor),
            action: row.action,
            detail: CommandReport::new(row.detail),
        })
    }
}

/// A number that the domain holds in fewer bits than the database.
fn small<T: TryFrom<i64>>(what: &'static str, value: i64) -> Result<T, RowError> {
    T::try_from(value).map_err(|_| RowError::new(what, format!("{value} is out of range")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::Nonce;

    const AT: Timestamp = Timestamp::from_micros(7);

    fn id() -> TxId {
        "018f0000-0000-7000-8000-000000000001".parse().unwrap()
    }

    #[test]
    fn cursors_round_trip() {
        let start = Cursor::starting_at(Nonce::new(5).unwrap());
        let protection = Protection { code: ProtectCode::StoreRegressed, detail: NodeText::new("restored") };
        for state in [LaneState::Idle, LaneState::InFlight, LaneState::Protect(protection)] {
            let cursor = Cursor { state, paused: true, low_balance: true, version: 3, event_seq: 9, ..start.clone() };
            assert_eq!(Cursor::try_from(CursorRow::from(&cursor)), Ok(cursor));
        }
        let damaged = CursorRow { state: "PROTECT", ..CursorRow::from(&start) };
        assert!(Cursor::try_from(damaged).is_err());
        assert!(Cursor::try_from(CursorRow { next_nonce: -1, ..CursorRow::from(&start) }).is_err());
    }

    #[test]
    fn reservations_round_trip() {
        let lock_owner = LockOwner::new("me").unwrap();
        for status in [
            ReservationStatus::Recyclable,
            ReservationStatus::Used { tx_id: None },
            ReservationStatus::Used { tx_id: Some(id()) },
            ReservationStatus::Reserved { tx_id: id(), lock_owner, locked_until: AT },
        ] {
            let reservation = Reservation { nonce: Nonce::new(4).unwrap(), status };
            assert_eq!(Reservation::try_from(ReservationRow::from(&reservation)), Ok(reservation));
        }
        let half = ReservationRow { nonce: 4, status: "RESERVED", tx_id: None, lock_owner: None, locked_until: None };
        assert!(Reservation::try_from(half).is_err());
    }

    #[test]
    fn slot_kinds_round_trip() {
        let row = |kind, tx_id| SlotRow {
            nonce: 4,
            kind,
            tx_id,
            bound_at: AT,
            next_resubmit_at: None,
            above_block: None,
            above_hash: None,
            evidence: None,
            tries: 0,
            signal: None,
        };
        for kind in [SlotKind::Intent(id()), SlotKind::Reservation, SlotKind::Foreign] {
            let (word, tx_id) = slot_kind_columns(kind);
            assert_eq!(Slot::try_from(row(word, tx_id)).unwrap().kind, kind);
        }
        for (word, tx_id) in [("intent", None), ("reservation", Some(id())), ("fill", None), ("gift", None)] {
            assert!(Slot::try_from(row(word, tx_id)).is_err());
        }
    }

    #[test]
    fn lane_event_needs_its_text_and_intent_event_its_state() {
        let row = EventRow {
            position: EventPosition::default(),
            submitter: "eip155:31337:0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            tx_id: None,
            seq: 1,
            kind: "paused",
            state: None,
            nonce: None,
            detail: None,
            text: Some("asked"),
            at: AT,
            notice: None,
        };
        assert!(Event::try_from(row.clone()).is_ok());
        assert!(Event::try_from(EventRow { text: None, ..row.clone() }).is_err());
        let of_intent = EventRow { tx_id: Some(id()), kind: "accepted", state: Some("QUEUED"), ..row };
        assert!(Event::try_from(EventRow { detail: Some("{}"), ..of_intent.clone() }).is_ok());
        assert!(Event::try_from(of_intent.clone()).is_err());
        assert!(Event::try_from(EventRow { detail: Some("{}"), seq: -1, ..of_intent }).is_err());
    }
}
