//! Who calls. Keys and scopes come with a later floor; this is the one place where a caller gets its name, before any
//! route sees the request.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::shared::Shared;

/// Who a request comes from, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Caller(&'static str);

impl Caller {
    pub(crate) fn name(&self) -> &str {
        self.0
    }
}

/// The layer that every route of `/api` is behind.
pub(crate) async fn admit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    if let Err(refusal) = shared.app.hosts.check(request.uri(), request.headers()) {
        return refusal.into_response();
    }
    request.extensions_mut().insert(Caller("api"));
    next.run(request).await
}
