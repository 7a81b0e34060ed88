//! The declarations of an operator about the database.

use serde::{Deserialize, Serialize};

use crate::names::StoreDeclarationName;
use crate::problem::FieldFault;
use crate::reason::read_reason;

/// An operator declares that the database lost commits, or that every loss has been looked into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeclareRequest {
    /// Why, for the audit log.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 1000))]
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoreDeclared {
    pub declared: StoreDeclarationName,
    pub reason: String,
}

impl DeclareRequest {
    /// The reason, if it says something.
    pub fn read(self) -> Result<String, Vec<FieldFault>> {
        read_reason(&self.reason)
    }
}
