//! The limits that hold for every route of `/api`, before it does anything.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gapless_wire::{Problem, ProblemCode};

use crate::problem::Refusal;
use crate::shared::Shared;

pub(crate) async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let limit = shared.app.limits.header_bytes;
    let size: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if size + target > limit {
        let detail = format!("the target and the headers of a request have at most {limit} bytes");
        return Refusal::from(Problem::new(ProblemCode::HeadersTooLarge).detail(detail)).into_response();
    }
    match shared.enter() {
        Ok(in_flight) => {
            request.extensions_mut().insert(in_flight.clone());
            let response = next.run(request).await;
            drop(in_flight);
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}
