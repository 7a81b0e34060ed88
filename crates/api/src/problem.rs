//! One mapping of every error to an answer.

use std::time::Duration;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use gapless_domain::InvalidIntent;
use gapless_engine::IntakeError;
use gapless_store::StoreError;
use gapless_wire::{FieldFault, JsonError, Problem, ProblemCode};

/// An unsuccessful answer.
#[derive(Clone, Debug)]
pub(crate) struct Refusal(pub(crate) Box<Problem>);

impl Refusal {
    pub(crate) fn of(code: ProblemCode) -> Self {
        Refusal::from(Problem::new(code))
    }

    /// Time after which a retry may succeed.
    pub(crate) fn later(code: ProblemCode, after: Duration) -> Self {
        Refusal::from(Problem::new(code).retry_after(after.as_secs().max(1)))
    }

    pub(crate) fn of_store(error: &StoreError, after: Duration) -> Self {
        match error {
            // The database's text is for the operator's log; for a caller all of these mean "not now".
            StoreError::Unavailable(_)
            | StoreError::OutcomeUnknown(_)
            | StoreError::Regressed(_)
            | StoreError::InUse(_)
            | StoreError::ReadOnly(_)
            | StoreError::Full(_)
            | StoreError::Damaged(_)
            | StoreError::SchemaIsNewer { .. }
            | StoreError::SchemaIsOlder { .. }
            | StoreError::MigrationDiffers { .. } => {
                tracing::warn!("store unavailable: {error}");
                Self::later(ProblemCode::StoreUnavailable, after)
            }
            StoreError::Row(_) | StoreError::Setup(_) => {
                tracing::error!("store returned an unexpected error: {error}");
                Self::of(ProblemCode::Internal)
            }
        }
    }

    pub(crate) fn of_intake(error: &IntakeError, after: Duration) -> Self {
        match error {
            IntakeError::Store(error) => Self::of_store(error, after),
            IntakeError::ShuttingDown => Self::later(ProblemCode::ShuttingDown, after),
        }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Refusal(Box::new(problem))
    }
}

impl From<Vec<FieldFault>> for Refusal {
    fn from(faults: Vec<FieldFault>) -> Self {
        Refusal::from(Problem::invalid(faults))
    }
}

impl From<InvalidIntent> for Refusal {
    fn from(invalid: InvalidIntent) -> Self {
        let faults = invalid.errors.into_iter().map(|error| FieldFault::body(error.pointer, error.message));
        Refusal::from(Problem::invalid(faults.collect()))
    }
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Malformed(why) => Refusal::from(Problem::new(ProblemCode::MalformedJson).detail(why)),
            JsonError::Shape(fault) => Refusal::from(Problem::shape(fault)),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.0.retry_after.map(HeaderValue::from);
        let mut response = (status, Json(*self.0)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}
