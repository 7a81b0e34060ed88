//! Who calls. Keys and scopes come with a later floor; this is the one place where a caller gets its name, before any
//! route sees the request.

use axum::extract::Request;

use crate::problem::Refusal;
use crate::shared::Shared;

/// Who a request comes from, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Caller(&'static str);

impl Caller {
    pub(crate) fn name(&self) -> &str {
        self.0
    }
}

/// What every route of `/api` is behind, as part of the guard.
pub(crate) fn admit(shared: &Shared, request: &mut Request) -> Result<(), Refusal> {
    shared.app.hosts.check(request.uri(), request.headers())?;
    request.extensions_mut().insert(Caller("api"));
    Ok(())
}
