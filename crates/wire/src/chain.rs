//! Chains as this node sees them.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// CAIP-2, as in `eip155:1`.
    pub chain: String,
    /// The newest block that was linked to the canonical chain; absent until one was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadView>,
    /// Number of the newest final block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_block: Option<u64>,
    pub endpoints: Vec<EndpointView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeadView {
    pub block_number: u64,
    pub block_hash: String,
    /// How long ago it was seen, in milliseconds.
    pub age_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Its place in the config or its host, never the whole URL, which may hold a key.
    pub name: String,
    pub healthy: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
    /// Blocks behind the newest endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_blocks: Option<u64>,
}
