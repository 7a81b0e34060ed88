//! A request for a nonce that stands in line. Whoever gives up takes it out of the line: otherwise its nonce would be held, and the
//! lane with it, for nobody.

use std::time::Duration;

use super::{Client, ClientError};
use crate::names::TxStateName;
use crate::reservation::{ReservationView, ReserveRequest};

/// How often a request is withdrawn: it may be lent just while it is canceled, and has to be released then.
const MAX_WITHDRAWALS: u32 = 2;

/// Withdraws the request when it is dropped, unless it has come to an end.
pub(super) struct InLine<'a> {
    client: &'a Client,
    submitter: &'a str,
    /// With both names, so that it means the same each time.
    request: ReserveRequest,
    /// The caller knows both names.
    is_named: bool,
    is_over: bool,
}

impl<'a> InLine<'a> {
    pub(super) fn new(client: &'a Client, submitter: &'a str, request: &ReserveRequest) -> Self {
        let is_named = request.request_id.is_some() && request.lock_owner.is_some();
        let request_id = Some(request.request_id.clone().unwrap_or_else(|| format!("nonce-{}", fresh_name())));
        let lock_owner = Some(request.lock_owner.clone().unwrap_or_else(fresh_name));
        let request = ReserveRequest { request_id, lock_owner, hold: request.hold.clone() };
        InLine { client, submitter, request, is_named, is_over: false }
    }

    /// Waits for the nonce. If it does not come in time, the request is withdrawn.
    pub(super) async fn wait(mut self, wait: Duration) -> Result<ReservationView, ClientError> {
        match self.client.reserve_nonce(self.submitter, &self.request, Some(wait)).await {
            Ok(lent) => {
                if lent.nonce.is_none() {
                    // Nobody would be there to use it. If it is lent by now, the drop gives it back.
                    let canceled = self.client.cancel_tx(&lent.tx_id, None).await;
                    self.is_over = canceled.is_ok_and(|canceled| canceled.state == TxStateName::Canceled);
                } else {
                    self.is_over = true;
                }
                Ok(lent)
            }
            Err(error) => {
                // Whoever was told no has nothing in line, and whoever named the request can ask for it again.
                let is_no = error.problem().is_some_and(|problem| matches!(problem.status, 400..=499));
                self.is_over = is_no || self.is_named;
                Err(error)
            }
        }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (client, submitter, request) = (self.client.clone(), self.submitter.to_owned(), self.request.clone());
        // Without a runtime nobody can send anything; the hold runs out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for _ in 0..MAX_WITHDRAWALS {
                    if withdraw(&client, &submitter, &request).await != Some(false) {
                        break;
                    }
                }
            });
        }
    }
}

/// Takes a request out of the line, or gives its nonce back; `Some(false)` if it was lent meanwhile, `None` if nobody knows. Asking for
/// it once more tells its id, and is right also if the first call has not arrived: whatever comes later means this one.
async fn withdraw(client: &Client, submitter: &str, request: &ReserveRequest) -> Option<bool> {
    let lent = client.reserve_nonce(submitter, request, Some(Duration::ZERO)).await.ok()?;
    match lent.nonce {
        Some(nonce) => client.release_nonce(submitter, nonce, &lent.lock_owner, None).await.ok().map(|_| true),
        None => {
            let canceled = client.cancel_tx(&lent.tx_id, None).await.ok()?;
            Some(canceled.state == TxStateName::Canceled)
        }
    }
}

/// Too much to guess: a lock owner is a proof.
#[expect(clippy::disallowed_methods, reason = "the client runs in the caller's process, which no seed drives")]
fn fresh_name() -> String {
    uuid::Uuid::new_v4().to_string()
}
