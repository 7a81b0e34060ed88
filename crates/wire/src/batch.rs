//! Many intents in one call, each with its own result.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::problem::Problem;
use crate::tx::TxAccepted;

/// Up to `limits.batch_items` intents, queued in the order given.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchRequest {
    /// The intents. Each is parsed on its own, so that a malformed one is refused alone.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<crate::request::TxRequest>, min_items = 1))]
    pub transactions: Vec<Box<RawValue>>,
}

/// One result for each intent, in the order given.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    pub results: Vec<BatchItem>,
}

/// One result. Exactly one of `transaction` and `problem` is present. Pointers in the problem begin at the item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchItem {
    /// Status that a call with this item alone would have: 202, 200, 404, 409 or 422.
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<TxAccepted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

impl From<Problem> for BatchItem {
    fn from(problem: Problem) -> Self {
        BatchItem { status: problem.status, transaction: None, problem: Some(problem) }
    }
}
