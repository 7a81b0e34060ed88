//! What a caller sees of a submitter and its lane.

use gapless_domain::{ProtectCode, Protection};
use serde::{Deserialize, Serialize};

use crate::names::{LaneStateName, SubStateName, TxStateName, words};
use crate::slot::{SlotKindName, SlotView};

words! {
    /// What `?expand=` adds to a submitter, for operators.
    SubmitterExpand {
        /// Which node works for it, and until when.
        Lease = "lease",
        /// The ledger's next nonce, and what the chain counts now.
        Nonces = "nonces",
        /// The bound nonces, with their attempts.
        Slots = "slots",
    }
}

/// One submitter. Which node works for it, and its nonces, are there only if they were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubmitterView {
    /// CAIP-10.
    pub submitter: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// CAIP-2.
    pub chain: String,
    pub state: LaneStateName,
    /// Paused by an operator: it binds nothing new, what is under way goes on.
    pub paused: bool,
    /// Why it is in PROTECT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<ProtectView>,
    /// Intents that wait in line, counted up to a limit of the server.
    pub queued: u32,
    /// Intents that are on their way, counted up to the same limit.
    pub open: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub oldest_queued_at: Option<String>,
    /// Wei, a decimal string: what the chain says, at most a second ago, or what it said last if it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<String>,
    /// The balance was below the threshold of the config when its lane last read it.
    pub low_balance: bool,
    /// How much may be under way at once, and how much is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowView>,
    /// What everything behind it waits for. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest_unmined: Option<LowestUnminedView>,
    /// The lowest that is not mined waits for funds. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting_funds: Option<bool>,
    /// Number of the newest block of its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_head: Option<u64>,
    /// How long ago that block was last seen to be the newest, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_head_age_ms: Option<u64>,
    /// What is wrong with its chain, a stable word; `/api/v1/chains` says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_trouble: Option<String>,
    /// Only with `expand=lease`, and only while somebody holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// Only with `expand=nonces`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonces: Option<NoncesView>,
    /// Only with `expand=slots`: bound nonces that are not closed, lowest first, up to a limit of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Vec<SlotView>>,
    /// Where the next page of slots begins (`fromSlot`); absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_slot: Option<u64>,
}

/// The window of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WindowView {
    /// Transactions that may be bound and not consumed at once, by the config of the node that answers; 1 is strict. Absent if it
    /// does not know the submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Transactions that are bound and that the chain has not consumed yet.
    pub in_flight: u64,
    /// The account has code of somebody else's (EIP-7702), for which `max` may be smaller. Absent if the chain does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated: Option<bool>,
}

/// The lowest bound nonce that is not mined: what it is and how long it has been so, without the nonce itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LowestUnminedView {
    pub kind: SlotKindName,
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub bound_at: String,
    /// How long ago that was, in milliseconds.
    pub since_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "uuid"))]
    pub tx_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TxStateName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<SubStateName>,
    /// Signed transactions for it.
    pub attempts: u32,
    /// How often any of them was given to a node, as far as is known.
    pub sends: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(format = "date-time"))]
    pub last_sent_at: Option<String>,
    /// What came of the last send, a stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<String>,
    /// What the node said, which may name nonces: only with `expand=nonces` or `expand=slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome_text: Option<String>,
    /// Only with `expand=nonces` or `expand=slots`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProtectView {
    /// A stable word.
    pub code: String,
    /// What the word means. Always the same for a code.
    pub message: String,
    /// What was found, which may name nonces: only with `expand=nonces`.
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

/// The counts are what the chain says, each by itself, at most a second ago. If it does not answer they are what it said last, or
/// absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NoncesView {
    /// The nonce that the next bind takes, by the ledger; absent until the lane has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The account's count at the newest block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<u64>,
    /// The count with what a node has in its pool, or in a block that is being built. A hint: nothing goes on or ends by it. Where it is
    /// ahead of the ledger at two looks in a row, the lane stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconfirmed: Option<u64>,
    /// The account's count at the newest final block.
    #[serde(rename = "final", default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
}

impl ProtectView {
    /// What every caller may see.
    pub fn new(code: ProtectCode) -> Self {
        ProtectView { code: code.as_str().to_owned(), message: protect_message(code).to_owned(), detail: None }
    }

    /// With what was found, for an operator who asked for nonces.
    pub fn with_detail(protection: &Protection) -> Self {
        ProtectView { detail: Some(protection.detail.as_str().to_owned()), ..ProtectView::new(protection.code) }
    }
}

/// What a code means, without anything of the one case: no nonces, no counts.
pub const fn protect_message(code: ProtectCode) -> &'static str {
    match code {
        ProtectCode::ExternalNonce => "the chain has more transactions of this account than the ledger explains",
        ProtectCode::ForeignTransaction => "a transaction that is not ours stands in the place of one that is",
        ProtectCode::ChainRegressed => "the chain went back behind what was final",
        ProtectCode::PendingAhead => "nodes know of pending transactions of this account that the ledger does not",
        ProtectCode::MissingSlot => "the ledger has a gap",
        ProtectCode::CannotFill => "a gap cannot be filled",
        ProtectCode::HistoryWithoutStart => "the account has a history, and the config does not say where to start",
        ProtectCode::StoreRegressed => "the database lost commits, or was restored",
        ProtectCode::DeepReorg => "a reorganisation went deeper than finality allows",
        ProtectCode::OtherChain => "the endpoints show another chain than the one that was read before",
    }
}
