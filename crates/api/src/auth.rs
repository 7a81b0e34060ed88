//! Who calls. Keys and scopes come with a later floor; this is the one place where a caller gets its name, before any
//! route sees the request.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

/// Who a request comes from, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Caller(&'static str);

impl Caller {
    pub(crate) fn name(&self) -> &str {
        self.0
    }
}

/// The layer that every route of `/api` is behind.
pub(crate) async fn admit(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Caller("api"));
    next.run(request).await
}
