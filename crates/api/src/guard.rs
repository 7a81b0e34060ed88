//! Checks of every `/api` route before its handler: limits and access.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gapless_wire::{Problem, ProblemCode};

use crate::auth;
use crate::problem::Refusal;
use crate::shared::{InFlight, Shared};

/// The one layer around the `/api` routes. Each layer costs every request some allocations.
pub(crate) async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    match check(&shared, &mut request) {
        Ok(in_flight) => {
            let response = next.run(request).await;
            drop(in_flight);
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn check(shared: &Shared, request: &mut Request) -> Result<InFlight, Refusal> {
    let limit = shared.app.limits.header_bytes;
    let size: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if size + target > limit {
        let detail = format!("target and headers of a request have at most {limit} bytes");
        return Err(Problem::new(ProblemCode::HeadersTooLarge).detail(detail).into());
    }
    let in_flight = shared.enter()?;
    auth::admit(shared, request)?;
    request.extensions_mut().insert(in_flight.clone());
    Ok(in_flight)
}
