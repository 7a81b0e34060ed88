//! Chains as one node sees them.

use gapless_domain::{BlockRef, Protection};
use serde::{Deserialize, Serialize};

use crate::names::{EndpointStandingName, FinalityName};
use crate::problem::FieldFault;
use crate::reason::read_reason;
use crate::submitter::protect_message;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// CAIP-2 id, such as `eip155:1`.
    pub chain: String,
    /// The newest block that is linked to the canonical chain; absent until one was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadView>,
    /// The newest final block. The final block only moves forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_block: Option<BlockView>,
    pub finality: FinalityName,
    /// Least number of blocks of a final transaction, its own block included. With `finality` = `finalized` the tag
    /// alone decides.
    pub required_confirmations: u32,
    /// Learned time between blocks; absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_time_ms: Option<u64>,
    /// Present during a finality violation: no lane of the chain binds a new nonce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ChainTroubleView>,
    /// Number of hashes that this node looks for in new blocks.
    pub open_transactions: u64,
    /// Number of lanes of this chain that run on this node.
    pub lanes: u64,
    pub endpoints: Vec<EndpointView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeadView {
    pub block_number: u64,
    pub block_hash: String,
    /// Time since this block was last seen as the newest, in milliseconds.
    pub age_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BlockView {
    pub block_number: u64,
    pub block_hash: String,
}

/// A problem of the chain as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainTroubleView {
    /// Stable code, equal to the PROTECT code of the chain's submitters.
    pub code: String,
    /// Meaning of the code. Always the same text for a code.
    pub message: String,
    /// Details of this case.
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Host and port of the endpoint. The full URL may hold a key and is never shown.
    pub name: String,
    /// Preference weight from the config.
    pub weight: u32,
    pub standing: EndpointStandingName,
    /// True if the endpoint is used and trusted.
    pub healthy: bool,
    /// Newest block of the endpoint; absent until it reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
    /// Time since that block became the endpoint's newest, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_age_ms: Option<u64>,
    /// Number of blocks behind the newest credible block of all endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_blocks: Option<u64>,
    /// Failed requests per thousand of the newest requests; absent before the first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors_permille: Option<u32>,
    /// Smoothed response time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Number of unanswered requests.
    pub in_flight: u64,
    /// The last error, while it still matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// An operator accepts the chain as it is now: another chain than before, or one that went back behind a final block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptChainRequest {
    /// Reason for the audit log.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 1000))]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainAccepted {
    /// CAIP-2 id.
    pub chain: String,
    pub reason: String,
}

impl AcceptChainRequest {
    /// The reason, unless it is blank.
    pub fn read(self) -> Result<String, Vec<FieldFault>> {
        read_reason(&self.reason)
    }
}

impl From<BlockRef> for BlockView {
    fn from(block: BlockRef) -> Self {
        BlockView { block_number: block.number, block_hash: block.hash.to_string() }
    }
}

impl From<&Protection> for ChainTroubleView {
    fn from(broken: &Protection) -> Self {
        ChainTroubleView {
            code: broken.code.as_str().to_owned(),
            message: protect_message(broken.code).to_owned(),
            detail: broken.detail.as_str().to_owned(),
        }
    }
}
