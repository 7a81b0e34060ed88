//! What a caller sees of an intent.

use gapless_domain::{
    Attempt, Cancellation, Event, EventBody, EvmCall, Execution, Fees, FinalFailure, Inclusion, IntentRecord, NodeText,
    Outline, Payload, Progress, Slot, StuckReason, TxState, U256,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::attempt::AttemptView;
use crate::confirmation::{ConfirmationNoticeView, ConfirmationView, list_at};
use crate::moment::moment_to_text;
use crate::names::{
    AttemptKindName, MempoolSignalName, ReceiptStatus, Speed, SubStateName, TxEventName, TxStateName, words,
};
use crate::payload::CallPayload;

/// The answer to a request that was accepted, now or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxAccepted {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10, also if the request named an alias.
    pub submitter: String,
    pub request_id: String,
    pub state: TxStateName,
}

words! {
    /// What `?expand=` adds to a transaction.
    TxExpand {
        /// The nonce and every signed transaction, for operators.
        Attempts = "attempts",
        /// What happened to it so far.
        Events = "events",
        /// The blocks from its own on, as its events tell of them.
        Confirmations = "confirmations",
    }
}

/// One intent as it stands. The nonce is there only if it was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10.
    pub submitter: String,
    pub request_id: String,
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// Counts the changes of the intent.
    pub version: u32,
    pub speed: Speed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub valid_until: Option<String>,
    /// What was asked for first; the request id stands for this. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<CallPayload>,
    /// What is wanted now, if that was replaced since. Which of them counts, the chain decides: `receipt.minedPayload`. Left out of
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<CallPayload>,
    /// The transaction on chain, or while there is none the newest one that was signed. In lists only what is on chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptView>,
    /// Blocks from the transaction's own, which counts as the first, to the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<u64>,
    /// Why it failed, was canceled, or is stuck. One that reverted has it only once that is final; its receipt says so before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = serde_json::Value))]
    pub metadata: Option<Box<RawValue>>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub updated_at: String,
    /// Only with `expand=attempts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
    /// Only with `expand=attempts`, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptView>>,
    /// Only with `expand=attempts`, while its nonce is not closed: how often it was sent again, or raised, since it was bound or
    /// somebody decided about it. Enough of them make it STUCK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u16>,
    /// Only with `expand=attempts`, while its nonce is not closed, and only if pools are looked into: what they showed before it was last
    /// sent again. It proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<MempoolSignalName>,
    /// Only with `expand=events`, oldest first. If there are more than the server shows, the last `seq` is below `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<TxEventView>>,
    /// Only with `expand=confirmations`: linked blocks, beginning with the transaction's own, as its events have told of them up to
    /// `version`; empty while it is not mined. There are at most as many as the chain requires, and they may be behind `confirmations`,
    /// which counts to the newest block. Absent if there are more events than the server reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation_list: Option<Vec<ConfirmationView>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReceiptView {
    pub block_number: u64,
    pub block_hash: String,
    pub status: ReceiptStatus,
    pub gas_used: u64,
    /// Wei per gas, a decimal string.
    pub effective_gas_price: String,
    /// What was paid for gas: `gasUsed` times `effectiveGasPrice`, wei, a decimal string. What a rollup takes for its parent chain is
    /// not in it.
    pub fee_paid: String,
    /// Whose effect the mined transaction has: `cancel` and `fill` have none.
    pub attempt_kind: AttemptKindName,
    /// If the payload was replaced: the one that was mined, read from the signed bytes. Left out of lists, and where nothing with a
    /// payload was mined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mined_payload: Option<CallPayload>,
    /// How many transactions were signed for its nonce after the first one, whatever for. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bumps: Option<u32>,
    /// What was paid beyond the most that the first transaction could have cost for the same gas, wei, a decimal string: the least that
    /// offering more has cost, since in this block the first one might have paid less than its most. `0` if what was paid is not
    /// above that. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bump_cost: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<RevertView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RevertView {
    /// The decoded reason, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReasonView {
    /// A stable word.
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxEventView {
    /// The version that it led to: from 1, without a hole.
    pub seq: u32,
    pub event: TxEventName,
    /// The state that it led to.
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// What it says of confirmations, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<ConfirmationNoticeView>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
}

impl TxView {
    /// What a list shows: everything that stands in the row itself, but for the payload.
    pub fn summary(tx: &IntentRecord) -> Self {
        let intent = &tx.intent;
        let inclusion = inclusion(&tx.state);
        TxView {
            tx_id: tx.id.to_string(),
            submitter: intent.submitter().to_string(),
            request_id: intent.request_id().to_string(),
            state: tx.state.name().into(),
            sub_state: tx.state.sub_state().map(SubStateName::from),
            version: tx.version,
            speed: intent.speed().into(),
            valid_until: intent.valid_until().map(moment_to_text),
            payload: None,
            replacement: None,
            hash: inclusion.map(|inclusion| inclusion.hash.to_string()),
            receipt: inclusion.map(ReceiptView::from),
            confirmations: None,
            reason: reason(&tx.state),
            // What is in a row was JSON once; if it no longer is, the rest of the row is worth showing all the same.
            metadata: intent.metadata().and_then(|json| RawValue::from_string(json.as_json().to_owned()).ok()),
            created_at: moment_to_text(tx.created_at),
            updated_at: moment_to_text(tx.updated_at),
            nonce: None,
            attempts: None,
            tries: None,
            signal: None,
            events: None,
            confirmation_list: None,
        }
    }

    /// What one transaction's own page shows.
    pub fn whole(tx: &IntentRecord) -> Self {
        let payload = payload_view(tx.intent.payload());
        TxView { payload, replacement: tx.replacement.as_ref().and_then(payload_view), ..Self::summary(tx) }
    }

    /// How deep the transaction is under this block, if it is on chain and the block is not older.
    #[must_use]
    pub fn with_head(mut self, head_number: Option<u64>) -> Self {
        let depth = |receipt: &ReceiptView| head_number?.checked_sub(receipt.block_number)?.checked_add(1);
        self.confirmations = self.receipt.as_ref().and_then(depth);
        self
    }

    /// The newest signed transaction at the nonce that is bound now, while none is on chain.
    #[must_use]
    pub fn with_pending_hash(mut self, tx: &IntentRecord, attempts: &[Attempt]) -> Self {
        if self.hash.is_none()
            && let Some(bound) = tx.state.bound()
        {
            let newest = attempts.iter().filter(|attempt| attempt.nonce == bound.nonce).max_by_key(|a| a.ordinal);
            self.hash = newest.map(|attempt| attempt.hash.to_string());
        }
        self
    }

    /// Which of these it was that was mined, what it carried, and what raising has cost. `outline` reads signed bytes, if somebody can.
    #[must_use]
    pub fn with_mined(
        mut self,
        tx: &IntentRecord,
        attempts: &[Attempt],
        outline: impl Fn(&Attempt) -> Option<Outline>,
    ) -> Self {
        let Some((receipt, inclusion)) = self.receipt.as_mut().zip(inclusion(&tx.state)) else { return self };
        let own: Vec<&Attempt> = attempts.iter().filter(|attempt| Some(attempt.nonce) == tx.state.nonce()).collect();
        let Some(first) = own.iter().min_by_key(|attempt| attempt.ordinal) else { return self };
        receipt.bumps = Some(u32::try_from(own.len() - 1).unwrap_or(u32::MAX));
        receipt.bump_cost = Some(beyond(inclusion, first.fees).to_string());
        let mined = own.iter().find(|attempt| attempt.hash == inclusion.hash);
        if let Some(mined) = mined.filter(|_| tx.replacement.is_some() && inclusion.kind.carries_payload()) {
            receipt.mined_payload = outline(mined).map(|outline| carried(tx, outline.call));
        }
        self
    }

    /// What operators may see: the nonce and all attempts; and the slot, while it is not closed.
    #[must_use]
    pub fn with_attempts(
        mut self,
        tx: &IntentRecord,
        attempts: &[Attempt],
        slot: Option<&Slot>,
        outline: impl Fn(&Attempt) -> Option<Outline>,
    ) -> Self {
        self.nonce = tx.state.nonce().map(gapless_domain::Nonce::get);
        let view = |attempt: &Attempt| AttemptView::new(attempt, outline(attempt).as_ref());
        self.attempts = Some(attempts.iter().map(view).collect());
        self.tries = slot.map(|slot| slot.tries);
        self.signal = slot.and_then(|slot| slot.signal).map(MempoolSignalName::from);
        self
    }

    /// What happened to it until it became what this view shows. Events that came while it was read are left for the next
    /// look, so that the last one always tells of the state above it.
    #[must_use]
    pub fn with_events(mut self, events: &[Event]) -> Self {
        let own = events.iter().filter_map(TxEventView::of).filter(|event| event.seq <= self.version);
        self.events = Some(own.collect());
        self
    }

    /// The list of confirmations that these events, which begin with the first one, lead to.
    #[must_use]
    pub fn with_confirmations(mut self, events: &[Event]) -> Self {
        self.confirmation_list = list_at(self.version, events);
        self
    }
}

fn payload_view(payload: &Payload) -> Option<CallPayload> {
    match payload {
        Payload::Evm(call) => Some(CallPayload::from(call)),
        Payload::Reservation(_) => None,
    }
}

/// What was paid above the most that the same gas could have cost at `first`.
fn beyond(inclusion: &Inclusion, first: Fees) -> U256 {
    let most = U256::from(inclusion.gas_used).saturating_mul(U256::from(first.highest_price()));
    paid(inclusion).saturating_sub(most)
}

fn paid(inclusion: &Inclusion) -> U256 {
    U256::from(inclusion.gas_used).saturating_mul(inclusion.effective_gas_price.get())
}

/// What signed bytes do, in the words of whoever asked for it if they are the same: bytes also say what nobody asked for, a gas limit
/// and a price.
fn carried(tx: &IntentRecord, call: EvmCall) -> CallPayload {
    let asked = [Some(tx.intent.payload()), tx.replacement.as_ref()].into_iter().flatten();
    let asked = asked.filter_map(|payload| if let Payload::Evm(asked) = payload { Some(asked) } else { None });
    let same = asked.into_iter().find(|asked| asked.has_same_effect(&call));
    same.map_or_else(|| CallPayload::from(&EvmCall { fees: None, ..call.clone() }), CallPayload::from)
}

fn inclusion(state: &TxState) -> Option<&Inclusion> {
    match state {
        TxState::Allocated(bound) | TxState::Tracking(bound) | TxState::Stuck(bound, _) => match &bound.progress {
            Progress::Mined(mined) => Some(&mined.inclusion),
            Progress::Pending | Progress::AwaitingFunds => None,
        },
        TxState::Confirmed(settled)
        | TxState::FailedFinal(FinalFailure::Reverted(settled))
        | TxState::Canceled(Cancellation::OnChain(_, settled)) => Some(&settled.inclusion),
        TxState::Queued
        | TxState::FailedFinal(FinalFailure::Unbound(..))
        | TxState::Canceled(Cancellation::InQueue(_) | Cancellation::Released) => None,
    }
}

fn reason(state: &TxState) -> Option<ReasonView> {
    match state {
        // What reverted in a block that is not final may go better in another one (R08).
        TxState::Queued | TxState::Allocated(_) | TxState::Tracking(_) | TxState::Confirmed(_) => None,
        TxState::Stuck(_, reason) => {
            Some(ReasonView { code: reason.as_str().to_owned(), text: Some(stuck(*reason).to_owned()) })
        }
        TxState::FailedFinal(FinalFailure::Unbound(reason, text)) => Some(ReasonView::new(reason.as_str(), Some(text))),
        TxState::FailedFinal(FinalFailure::Reverted(settled)) => {
            Some(ReasonView::new("reverted", revert_reason(&settled.inclusion)))
        }
        TxState::Canceled(Cancellation::InQueue(reason) | Cancellation::OnChain(reason, _)) => {
            Some(ReasonView::new(reason.as_str(), None))
        }
        TxState::Canceled(Cancellation::Released) => Some(ReasonView::new("released", None)),
    }
}

fn stuck(reason: StuckReason) -> &'static str {
    match reason {
        StuckReason::OutOfTries => "it was sent again as often as the config allows, and no block has it",
    }
}

fn revert_reason(inclusion: &Inclusion) -> Option<&NodeText> {
    match &inclusion.execution {
        Execution::Reverted { reason, .. } => reason.as_ref(),
        Execution::Success => None,
    }
}

impl ReasonView {
    fn new(code: &str, text: Option<&NodeText>) -> Self {
        let text = text.map(|text| text.as_str().to_owned()).filter(|text| !text.is_empty());
        ReasonView { code: code.to_owned(), text }
    }
}

impl From<&Inclusion> for ReceiptView {
    fn from(inclusion: &Inclusion) -> Self {
        let (status, revert) = match &inclusion.execution {
            Execution::Success => (ReceiptStatus::Success, None),
            Execution::Reverted { reason, data } => {
                let reason = reason.as_ref().map(|text| text.as_str().to_owned());
                (ReceiptStatus::Reverted, Some(RevertView { reason, data: data.to_string() }))
            }
        };
        ReceiptView {
            block_number: inclusion.block.number,
            block_hash: inclusion.block.hash.to_string(),
            status,
            gas_used: inclusion.gas_used,
            effective_gas_price: inclusion.effective_gas_price.to_string(),
            fee_paid: paid(inclusion).to_string(),
            attempt_kind: inclusion.kind.into(),
            mined_payload: None,
            bumps: None,
            bump_cost: None,
            revert,
        }
    }
}

impl TxEventView {
    /// None for an event of a lane as such, which is no change of a transaction.
    pub fn of(event: &Event) -> Option<Self> {
        match &event.body {
            EventBody::Tx { tx_id: _, seq, kind, state, notice } => Some(TxEventView {
                seq: *seq,
                event: (*kind).into(),
                state: state.name().into(),
                sub_state: state.sub_state().map(SubStateName::from),
                confirmations: notice.as_ref().map(ConfirmationNoticeView::from),
                at: moment_to_text(event.at),
            }),
            EventBody::Lane { .. } => None,
        }
    }
}
