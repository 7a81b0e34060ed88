//! The caller's identity. API keys and scopes do not exist yet; this is the one place where a request gets its caller,
//! before any route sees it.

use axum::extract::Request;

use crate::problem::Refusal;
use crate::shared::Shared;

/// The caller of a request, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Caller(&'static str);

impl Caller {
    pub(crate) fn name(&self) -> &str {
        self.0
    }
}

/// The access check of every `/api` route, as part of the guard.
pub(crate) fn admit(shared: &Shared, request: &mut Request) -> Result<(), Refusal> {
    shared.app.hosts.check(request.uri(), request.headers())?;
    request.extensions_mut().insert(Caller("api"));
    Ok(())
}
