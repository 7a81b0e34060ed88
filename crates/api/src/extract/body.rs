//! JSON bodies, within their limits of size and time.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use gapless_wire::{Problem, ProblemCode, from_json};
use serde::de::DeserializeOwned;

use crate::problem::Refusal;
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        if !is_json(request.headers()) {
            return Err(Refusal::of(ProblemCode::UnsupportedMediaType));
        }
        let bytes = read(request, shared).await?;
        Ok(JsonBody(from_json(&bytes)?))
    }
}

/// An optional JSON body; a missing body means the defaults.
#[derive(Debug)]
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<Shared>> for OptionalJsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let is_json = is_json(request.headers());
        let bytes = read(request, shared).await?;
        if bytes.is_empty() {
            return Ok(OptionalJsonBody(T::default()));
        }
        if !is_json {
            return Err(Refusal::of(ProblemCode::UnsupportedMediaType));
        }
        Ok(OptionalJsonBody(from_json(&bytes)?))
    }
}

async fn read(request: Request, shared: &Shared) -> Result<Vec<u8>, Refusal> {
    let limits = &shared.app.limits;
    let too_large = || {
        let detail = format!("a body has at most {} bytes", limits.body_bytes);
        Refusal::from(Problem::new(ProblemCode::BodyTooLarge).detail(detail))
    };
    let said = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if said.is_some_and(|length| length > limits.body_bytes) {
        return Err(too_large());
    }
    let body: Body = request.into_body();
    let deadline = shared.app.driver.sleep(limits.body_time);
    // A body that is too large and a broken connection look alike here; a broken connection needs no answer.
    let bytes = tokio::select! {
        // A complete body is accepted, even after the deadline.
        biased;
        bytes = to_bytes(body, limits.body_bytes) => bytes.map_err(|_| too_large())?,
        () = deadline => return Err(Refusal::of(ProblemCode::BodyTimeout)),
    };
    Ok(bytes.into())
}

/// True for `application/json` with any parameters, and for types that end in `+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(text) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
