//! The variable parts of a path.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use gapless_domain::{ChainId, IdError, Nonce, TxId};
use gapless_wire::{FieldFault, Problem, ProblemCode, SubmitterRef};

use crate::problem::Refusal;
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct PathText(pub(crate) String);

impl FromRequestParts<Arc<Shared>> for PathText {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        match Path::<String>::from_request_parts(parts, shared).await {
            Ok(Path(text)) => Ok(PathText(text)),
            Err(error) => Err(Problem::new(ProblemCode::MalformedRequest).detail(error.body_text()).into()),
        }
    }
}

/// Two variable parts, in their order.
#[derive(Debug)]
pub(crate) struct PathPair(pub(crate) PathText, pub(crate) PathText);

impl FromRequestParts<Arc<Shared>> for PathPair {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        match Path::<(String, String)>::from_request_parts(parts, shared).await {
            Ok(Path((first, second))) => Ok(PathPair(PathText(first), PathText(second))),
            Err(error) => Err(Problem::new(ProblemCode::MalformedRequest).detail(error.body_text()).into()),
        }
    }
}

impl PathText {
    pub(crate) fn nonce(&self) -> Result<Nonce, Refusal> {
        let number = self.number("nonce")?;
        Nonce::new(number).map_err(|error| vec![FieldFault::path("nonce", error.to_string())].into())
    }

    pub(crate) fn tx_id(&self) -> Result<TxId, Refusal> {
        // Only the canonical spelling is accepted, because paths are compared and cached as text.
        let usual = self.0.len() == 36;
        match TxId::from_str(&self.0) {
            Ok(id) if usual => Ok(id),
            _ => Err(vec![FieldFault::path("txId", "a transaction id is a UUID")].into()),
        }
    }

    pub(crate) fn submitter(&self) -> Result<SubmitterRef, Refusal> {
        SubmitterRef::parse(&self.0).map_err(|error| vec![FieldFault::path("submitter", error.to_string())].into())
    }

    pub(crate) fn chain(&self) -> Result<ChainId, Refusal> {
        self.0.parse().map_err(|error: IdError| vec![FieldFault::path("chain", error.to_string())].into())
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64, Refusal> {
        let digits_only = self.0.bytes().all(|b| b.is_ascii_digit());
        match self.0.parse() {
            Ok(number) if digits_only => Ok(number),
            _ => Err(vec![FieldFault::path(name, "a whole number is expected")].into()),
        }
    }
}
