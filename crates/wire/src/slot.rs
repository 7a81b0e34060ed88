//! The bound nonces of a lane, for operators.

use gapless_domain::{Attempt, IntentRecord, Outline, Reservation, ReservationStatus, Slot, SlotKind};
use serde::{Deserialize, Serialize};

use crate::attempt::AttemptView;
use crate::moment::moment_to_text;
use crate::names::{MempoolSignalName, SubStateName, TxStateName, words};
#[cfg(feature = "schema")]
use crate::nonce::JsonNonce;

words! {
    /// The kind of a bound nonce.
    SlotKindName {
        /// Belongs to a transaction that a caller requested.
        Intent = "intent",
        /// Reserved by a caller who signs.
        Reservation = "reservation",
        /// Used by a foreign transaction with the same key; `evidence` says what was found.
        Foreign = "foreign",
    }
}

words! {
    ReservationState {
        /// Reserved until `lockedUntil`.
        Reserved = "reserved",
        /// A transaction was submitted for it, or a filler consumed it.
        Used = "used",
        /// Released without a transaction: it is reserved again or filled.
        Recyclable = "recyclable",
    }
}

/// One bound nonce that is not closed yet, with its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlotView {
    #[serde(with = "crate::nonce")]
    #[cfg_attr(feature = "schema", schema(value_type = JsonNonce))]
    pub nonce: u64,
    pub kind: SlotKindName,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub bound_at: String,
    /// Id of the transaction that holds the nonce, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TxStateName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<SlotReservationView>,
    /// Evidence of the foreign transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Earliest time of the next resend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub next_resubmit_at: Option<String>,
    /// Number of resends and bumps since the bind or the last stuck decision. At a limit the transaction becomes STUCK.
    #[serde(default)]
    pub tries: u16,
    /// Signal of the endpoints' pools before the last resend, if pools are read. It proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<MempoolSignalName>,
    /// Every signed transaction of the nonce, oldest first.
    pub attempts: Vec<AttemptView>,
}

/// A reservation. The lock owner is the caller's secret and is not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlotReservationView {
    pub status: ReservationState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub locked_until: Option<String>,
}

impl SlotView {
    /// `outline` reads the bytes of attempts, if the chain adapter can.
    pub fn new(
        slot: &Slot,
        tx: Option<&IntentRecord>,
        reservation: Option<&Reservation>,
        attempts: &[Attempt],
        outline: impl Fn(&Attempt) -> Option<Outline>,
    ) -> Self {
        SlotView {
            nonce: slot.nonce.get(),
            kind: slot.kind.into(),
            bound_at: moment_to_text(slot.bound_at),
            tx_id: tx.map(|tx| tx.id.to_string()),
            request_id: tx.map(|tx| tx.intent.request_id().to_string()),
            state: tx.map(|tx| tx.state.name().into()),
            sub_state: tx.and_then(|tx| tx.state.sub_state()).map(SubStateName::from),
            reservation: reservation.map(|reservation| SlotReservationView::from(&reservation.status)),
            evidence: slot.evidence.as_ref().map(|text| text.as_str().to_owned()),
            next_resubmit_at: slot.next_resubmit_at.map(moment_to_text),
            tries: slot.tries,
            signal: slot.signal.map(MempoolSignalName::from),
            attempts: attempts.iter().map(|attempt| AttemptView::new(attempt, outline(attempt).as_ref())).collect(),
        }
    }
}

impl From<SlotKind> for SlotKindName {
    fn from(kind: SlotKind) -> Self {
        match kind {
            SlotKind::Intent(_) => SlotKindName::Intent,
            SlotKind::Reservation => SlotKindName::Reservation,
            SlotKind::Foreign => SlotKindName::Foreign,
        }
    }
}

impl From<&ReservationStatus> for SlotReservationView {
    fn from(status: &ReservationStatus) -> Self {
        let (status, locked_until) = match status {
            ReservationStatus::Reserved { locked_until, .. } => {
                (ReservationState::Reserved, Some(moment_to_text(*locked_until)))
            }
            ReservationStatus::Used { .. } => (ReservationState::Used, None),
            ReservationStatus::Recyclable => (ReservationState::Recyclable, None),
        };
        SlotReservationView { status, locked_until }
    }
}
