//! Views of an intent.

use gapless_domain::{
    Action, Attempt, Cancellation, Event, EventBody, Execution, Fees, FinalFailure, Inclusion, IntentRecord, NodeText,
    Outline, Payload, Progress, Slot, StuckReason, TxState, U256, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::attempt::AttemptView;
use crate::confirmation::{ConfirmationNoticeView, ConfirmationView, list_at};
use crate::moment::moment_to_text;
use crate::names::{
    AttemptKindName, MempoolSignalName, ReceiptStatus, Speed, SubStateName, TxEventName, TxStateName, words,
};
#[cfg(feature = "schema")]
use crate::nonce::JsonNonce;
use crate::payload::CallPayload;

/// Answer to an accepted request, whether it is new or a repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxAccepted {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10 id, also if the request named an alias.
    pub submitter: String,
    pub request_id: String,
    pub state: TxStateName,
}

words! {
    /// Additions of `?expand=` to a transaction.
    TxExpand {
        /// The nonce and every attempt, for operators.
        Attempts = "attempts",
        /// The events so far.
        Events = "events",
        /// The confirmations, as the events report them.
        Confirmations = "confirmations",
    }
}

/// One intent in its current state. The nonce is present only on request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxView {
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: String,
    /// CAIP-10 id.
    pub submitter: String,
    pub request_id: String,
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// Number of changes of the intent.
    pub version: u32,
    pub speed: Speed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub valid_until: Option<String>,
    /// The first payload, for which the request id stands. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<CallPayload>,
    /// The payload that is wanted now, if it was replaced. The chain decides which one counts: `receipt.minedPayload`.
    /// Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<CallPayload>,
    /// Hash of the transaction on chain, or of the newest attempt while none is on chain. Lists show only hashes on
    /// chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptView>,
    /// Number of blocks from the transaction's own, which counts as the first, to the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<u64>,
    /// Reason of a failure, a cancel or STUCK. A reverted transaction has it once the revert is final; its receipt
    /// shows it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = serde_json::Value))]
    pub metadata: Option<Box<RawValue>>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub created_at: String,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub updated_at: String,
    /// The nonce, only with `expand=attempts`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub nonce: Option<u64>,
    /// The attempts, oldest first, only with `expand=attempts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptView>>,
    /// Number of resends and bumps since the bind or the last stuck decision. At a limit the transaction becomes STUCK.
    /// Only with `expand=attempts`, while the nonce is not closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<u16>,
    /// Signal of the endpoints' pools before the last resend. It proves nothing. Only with `expand=attempts`, while the
    /// nonce is not closed, and only if pools are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<MempoolSignalName>,
    /// The events, oldest first, only with `expand=events`. If there are more than the server shows, the last `seq` is
    /// below `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<TxEventView>>,
    /// Linked blocks that begin with the transaction's own, as its events report them up to `version`; empty while it
    /// is not mined. Only with `expand=confirmations`. There are at most as many as the chain requires, and they may be
    /// behind `confirmations`, which counts to the newest block. Absent if there are more events than the server reads.
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
    /// Gas cost: `gasUsed` times `effectiveGasPrice`, wei, a decimal string. A rollup's fee for its parent chain is not
    /// included.
    pub fee_paid: String,
    /// Kind of the mined attempt: `cancel` and `fill` have no effect.
    pub attempt_kind: AttemptKindName,
    /// The mined payload, read from the signed bytes, if the payload was replaced. Left out of lists, and if the mined
    /// attempt carries no payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mined_payload: Option<CallPayload>,
    /// Number of attempts after the first, of any kind. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bumps: Option<u32>,
    /// Cost beyond the most that the first attempt could have cost for the same gas, wei, a decimal string. This is the
    /// least that bumping has cost, because the first attempt might have paid less in this block. `0` if the cost is
    /// not above it. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bump_cost: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<RevertView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RevertView {
    /// The decoded reason, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReasonView {
    /// Stable word.
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxEventView {
    /// Version that the change led to: from 1, without a gap.
    pub seq: u32,
    pub event: TxEventName,
    /// State that the change led to.
    pub state: TxStateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// Change of the confirmations, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmations: Option<ConfirmationNoticeView>,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub at: String,
}

impl TxView {
    /// The view in a list: the row without the payload.
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
            // A row was JSON once. If it no longer is, the rest of the row is still worth showing.
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

    /// The view of one transaction.
    pub fn whole(tx: &IntentRecord) -> Self {
        let payload = payload_view(tx.intent.payload());
        TxView { payload, replacement: tx.replacement.as_ref().and_then(payload_view), ..Self::summary(tx) }
    }

    /// Adds the depth under this block, if the transaction is on chain and the block is not older.
    #[must_use]
    pub fn with_head(mut self, head_number: Option<u64>) -> Self {
        let depth = |receipt: &ReceiptView| head_number?.checked_sub(receipt.block_number)?.checked_add(1);
        self.confirmations = self.receipt.as_ref().and_then(depth);
        self
    }

    /// Adds the newest attempt at the bound nonce, while none is on chain.
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

    /// Adds the mined attempt, its content and the cost of bumping. `outline` reads signed bytes, if the chain adapter
    /// can.
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
            receipt.mined_payload = outline(mined).map(|outline| carried(tx, &outline.action));
        }
        self
    }

    /// Adds the nonce and all attempts, and the slot while it is not closed.
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

    /// Adds the events up to the shown version. Later events are left for the next read, so that the last event matches
    /// the shown state.
    #[must_use]
    pub fn with_events(mut self, events: &[Event]) -> Self {
        let own = events.iter().filter_map(TxEventView::of).filter(|event| event.seq <= self.version);
        self.events = Some(own.collect());
        self
    }

    /// Adds the confirmations that result from these events, which begin with the first one.
    #[must_use]
    pub fn with_confirmations(mut self, events: &[Event]) -> Self {
        self.confirmation_list = list_at(self.version, events);
        self
    }
}

fn payload_view(payload: &Payload) -> Option<CallPayload> {
    payload.action().map(CallPayload::from)
}

/// Cost above the most that the same gas could have cost at the fees `first`.
fn beyond(inclusion: &Inclusion, first: Fees) -> U256 {
    let most = first.most_for(Work::new(inclusion.work_used)).get();
    paid(inclusion).saturating_sub(most)
}

fn paid(inclusion: &Inclusion) -> U256 {
    U256::from(inclusion.work_used).saturating_mul(inclusion.unit_price.get())
}

/// The content of signed bytes, in the caller's words if the effect is the same: the bytes also hold a gas limit and a
/// price, which the caller may not have asked for.
fn carried(tx: &IntentRecord, carried: &Action) -> CallPayload {
    let asked = [Some(tx.intent.payload()), tx.replacement.as_ref()].into_iter().flatten();
    let same = asked.filter_map(Payload::action).find(|asked| asked.does_the_same(carried));
    same.map_or_else(|| CallPayload::from(&carried.clone().wishing(None, carried.own_work())), CallPayload::from)
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
        // A transaction that reverted in a block that is not final may succeed in another block (R08).
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
        StuckReason::OutOfTries => "sent as often as the config allows, and not in any block",
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
            gas_used: inclusion.work_used,
            effective_gas_price: inclusion.unit_price.to_string(),
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
    /// `None` for an event of the lane, which is no change of a transaction.
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
