//! Chains as this node sees them.

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
    /// CAIP-2, as in `eip155:1`.
    pub chain: String,
    /// The newest block that was linked to the canonical chain; absent until one was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadView>,
    /// The newest final block. It only moves forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_block: Option<BlockView>,
    pub finality: FinalityName,
    /// Blocks that a final transaction has at least, its own counted; where `finality` is `finalized`, the tag alone decides.
    pub required_confirmations: u32,
    /// From block to block, as learned; absent until it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_time_ms: Option<u64>,
    /// There while the chain contradicts what was final: no lane of it binds anything new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<ChainTroubleView>,
    /// Hashes that this node looks for in new blocks.
    pub open_transactions: u64,
    /// Lanes of this chain that run on this node.
    pub lanes: u64,
    pub endpoints: Vec<EndpointView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeadView {
    pub block_number: u64,
    pub block_hash: String,
    /// How long ago it was last seen to be the newest, in milliseconds.
    pub age_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BlockView {
    pub block_number: u64,
    pub block_hash: String,
}

/// What is wrong with a chain as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainTroubleView {
    /// A stable word, the same that its submitters go into PROTECT with.
    pub code: String,
    /// What the word means. Always the same for a code.
    pub message: String,
    /// What was found.
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Its host and port, never the whole URL, which may hold a key.
    pub name: String,
    /// How much it is preferred, as the config says.
    pub weight: u32,
    pub standing: EndpointStandingName,
    /// Is it asked and believed?
    pub healthy: bool,
    /// Its newest block; absent until it told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
    /// How long that block has been its newest, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_age_ms: Option<u64>,
    /// Blocks behind the newest one that any endpoint credibly tells of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_blocks: Option<u64>,
    /// Of the newest requests, how many of a thousand failed; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors_permille: Option<u32>,
    /// How long an answer takes, smoothed, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// The last thing that went wrong, if it still matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// An operator accepts that a chain is another one than before, or went back behind what was final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptChainRequest {
    /// Why, for the audit log.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 1000))]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainAccepted {
    /// CAIP-2.
    pub chain: String,
    pub reason: String,
}

impl AcceptChainRequest {
    /// The reason, if it says something.
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
