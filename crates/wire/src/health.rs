//! Liveness and readiness.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HealthView {
    /// Always `ok`; an unhealthy node answers with a problem.
    pub status: String,
}

impl HealthView {
    pub fn ok() -> Self {
        HealthView { status: "ok".to_owned() }
    }
}
