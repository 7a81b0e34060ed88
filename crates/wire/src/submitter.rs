//! Views of a submitter and its lane.

use gapless_domain::{ProtectCode, Protection};
use serde::{Deserialize, Serialize};

use crate::names::{LaneStateName, SubStateName, TxStateName, words};
#[cfg(feature = "schema")]
use crate::nonce::JsonNonce;
use crate::slot::{SlotKindName, SlotView};

words! {
    /// Additions of `?expand=` to a submitter, for operators.
    SubmitterExpand {
        /// The node that owns the lane, and the end of its lease.
        Lease = "lease",
        /// The ledger's next nonce, and the chain's counts.
        Nonces = "nonces",
        /// The bound nonces with their attempts.
        Slots = "slots",
    }
}

/// One submitter. The owner and the nonces are present only on request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubmitterView {
    /// CAIP-10 id.
    pub submitter: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// CAIP-2 id.
    pub chain: String,
    pub state: LaneStateName,
    /// Paused by an operator: no new nonce is bound, and work in flight continues.
    pub paused: bool,
    /// Cause of PROTECT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<ProtectView>,
    /// Number of queued intents, counted up to a limit of the server.
    pub queued: u32,
    /// Number of open intents, counted up to the same limit.
    pub open: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub oldest_queued_at: Option<String>,
    /// Balance in wei, a decimal string: at most a second old, or the last known value if the chain does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<String>,
    /// True if the balance was below the config's threshold when the lane last read it.
    pub low_balance: bool,
    /// Limit and number of transactions in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowView>,
    /// The lowest nonce that is not mined; everything behind it waits. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_unmined: Option<LowestUnminedView>,
    /// True if the lowest unmined nonce waits for funds. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting_funds: Option<bool>,
    /// Number of the chain's newest block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_head: Option<u64>,
    /// Time since that block was last seen as the newest, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_head_age_ms: Option<u64>,
    /// Problem of the chain, a stable code; `/api/v1/chains` has the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_trouble: Option<String>,
    /// The lease, only with `expand=lease` and while a node holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// Nonce counts, only with `expand=nonces`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonces: Option<NoncesView>,
    /// Bound nonces that are not closed, lowest first, up to a limit of the server. Only with `expand=slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Vec<SlotView>>,
    /// First nonce of the next page of slots (`fromSlot`); absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub next_slot: Option<u64>,
}

/// The window of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WindowView {
    /// Limit of transactions that are bound and not consumed, by the config of the answering node; 1 is strict. Absent
    /// if that node does not know the submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Number of transactions that are bound and not consumed on chain.
    pub in_flight: u64,
    /// True if the account has delegated code (EIP-7702), for which `max` may be smaller. Absent if the chain does not
    /// answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<bool>,
}

/// The lowest bound nonce that is not mined, without the nonce itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LowestUnminedView {
    pub kind: SlotKindName,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub bound_at: String,
    /// Time since the bind, in milliseconds.
    pub since_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TxStateName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of known sends of all attempts.
    pub sends: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub last_sent_at: Option<String>,
    /// Outcome of the last send, a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<String>,
    /// Text of the endpoint, which may name nonces: only with `expand=nonces` or `expand=slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome_text: Option<String>,
    /// The nonce, only with `expand=nonces` or `expand=slots`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub nonce: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProtectView {
    /// Stable code.
    pub code: String,
    /// Meaning of the code. Always the same text for a code.
    pub message: String,
    /// Details of this case, which may name nonces: only with `expand=nonces`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    pub owner: String,
    pub fencing_token: u64,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub expires_at: String,
}

/// Nonce counts. The chain's counts are at most a second old; without an answer they are the last known values, or
/// absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NoncesView {
    /// The ledger's next nonce; absent until the lane has begun.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub next: Option<u64>,
    /// The account's count at the newest block.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub latest: Option<u64>,
    /// The count including an endpoint's pool, or a block that is being built. A hint: no decision depends on it,
    /// except that the lane stops if it is ahead of the ledger twice in a row.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub preconfirmed: Option<u64>,
    /// The account's count at the newest final block.
    #[serde(rename = "final", default, skip_serializing_if = "Option::is_none", with = "crate::nonce::option")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<JsonNonce>))]
    pub settled: Option<u64>,
}

impl ProtectView {
    /// The view for every caller.
    pub fn new(code: ProtectCode) -> Self {
        ProtectView { code: code.as_str().to_owned(), message: protect_message(code).to_owned(), detail: None }
    }

    /// The view with details, for an operator who asked for nonces.
    pub fn with_detail(protection: &Protection) -> Self {
        ProtectView { detail: Some(protection.detail.as_str().to_owned()), ..ProtectView::new(protection.code) }
    }
}

/// The meaning of a code, without nonces and counts of the case.
pub const fn protect_message(code: ProtectCode) -> &'static str {
    match code {
        ProtectCode::ExternalNonce => "the chain has more transactions of this account than the ledger explains",
        ProtectCode::ForeignTransaction => "a foreign transaction used a nonce that the ledger had bound",
        ProtectCode::ChainRegressed => "the chain went back behind a final block",
        ProtectCode::PendingAhead => {
            "endpoints know pending transactions of this account that the ledger does not know"
        }
        ProtectCode::MissingSlot => "the ledger has a gap",
        ProtectCode::CannotFill => "a gap cannot be filled",
        ProtectCode::HistoryWithoutStart => {
            "the account has sent transactions before, and the config does not say where to start"
        }
        ProtectCode::StoreRegressed => "the database lost commits, or was restored",
        ProtectCode::DeepReorg => "a reorg went below the final block",
        ProtectCode::OtherChain => "the endpoints show another chain than before",
    }
}
