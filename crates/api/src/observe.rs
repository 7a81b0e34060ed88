//! Observability of requests: a span and two metrics for each, and an answer for a request that panics.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use gapless_wire::ProblemCode;
use tracing::Instrument;

use crate::problem::Refusal;
use crate::shared::Shared;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest caller-provided id that is copied into the logs.
const REQUEST_ID_BYTES_MAX: usize = 64;

pub(crate) async fn observe(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let clock = &shared.app.driver;
    let begun = clock.now();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let id = request_id(request.headers());
    let span = tracing::info_span!(
        "http",
        request_id = id.to_str().unwrap_or_default(),
        method = %request.method(),
        route = route.as_str()
    );
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let mut response = answer.unwrap_or_else(|_| {
        span.in_scope(|| tracing::error!("a route panicked"));
        Refusal::of(ProblemCode::Internal).into_response()
    });
    let status = response.status().as_u16();
    let took = clock.now().saturating_since(begun);
    span.in_scope(|| tracing::debug!(status, took_ms = took.as_secs_f64() * 1000.0, "answered"));
    metrics::counter!("gapless_http_requests_total", "route" => route.clone(), "status" => status.to_string())
        .increment(1);
    metrics::histogram!("gapless_http_request_seconds", "route" => route).record(took.as_secs_f64());
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The caller's id if it fits into a log line, otherwise an id that is unique in this process.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let theirs = headers
        .get(REQUEST_ID)
        .filter(|id| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    theirs.cloned().unwrap_or_else(|| HeaderValue::from(LAST.fetch_add(1, Ordering::Relaxed) + 1))
}
