//! What a caller sees of a submitter and its lane.

use gapless_domain::Protection;
use serde::{Deserialize, Serialize};

use crate::names::{LaneStateName, words};

words! {
    /// What `?expand=` adds to a submitter, for operators.
    SubmitterExpand {
        /// Which node works for it, and until when.
        Lease = "lease",
        Nonces = "nonces",
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
    /// Wei, a decimal string, as last seen by this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<String>,
    /// Number of the newest block of its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_head: Option<u64>,
    /// Only with `expand=lease`, and only while somebody holds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// Only with `expand=nonces`, and only once the lane has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonces: Option<NoncesView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProtectView {
    /// A stable word.
    pub code: String,
    pub detail: String,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NoncesView {
    /// The nonce that the next bind takes.
    pub next: u64,
    /// The account's count at the newest block that was read.
    pub chain: u64,
    /// The account's count at a final block.
    #[serde(rename = "final")]
    pub settled: u64,
}

impl From<&Protection> for ProtectView {
    fn from(protection: &Protection) -> Self {
        ProtectView { code: protection.code.as_str().to_owned(), detail: protection.detail.as_str().to_owned() }
    }
}
