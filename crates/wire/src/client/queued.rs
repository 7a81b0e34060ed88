//! A queued reservation. A caller that gives up withdraws it; otherwise its nonce would be held without use, and the
//! lane with it.

use std::time::Duration;

use super::{Client, ClientError};
use crate::names::TxStateName;
use crate::reservation::{ReservationView, ReserveRequest};

/// Number of withdrawals: the nonce may be reserved while it is being canceled, and must be released then.
const MAX_WITHDRAWALS: u32 = 2;

/// Withdraws the reservation when dropped, unless it has ended.
pub(super) struct QueuedReservation<'a> {
    client: &'a Client,
    submitter: &'a str,
    /// The request with both names, so that every repetition means the same reservation.
    request: ReserveRequest,
    /// True if the caller knows both names.
    is_named: bool,
    is_over: bool,
}

impl<'a> QueuedReservation<'a> {
    pub(super) fn new(client: &'a Client, submitter: &'a str, request: &ReserveRequest) -> Self {
        let is_named = request.request_id.is_some() && request.lock_owner.is_some();
        let request_id = Some(request.request_id.clone().unwrap_or_else(|| format!("nonce-{}", fresh_name())));
        let lock_owner = Some(request.lock_owner.clone().unwrap_or_else(fresh_name));
        let request = ReserveRequest { request_id, lock_owner, hold: request.hold.clone() };
        QueuedReservation { client, submitter, request, is_named, is_over: false }
    }

    /// Waits for the nonce, and withdraws the reservation on a time-out.
    pub(super) async fn wait(mut self, wait: Duration) -> Result<ReservationView, ClientError> {
        match self.client.reserve_nonce(self.submitter, &self.request, Some(wait)).await {
            Ok(reserved) => {
                if reserved.nonce.is_none() {
                    // The caller would not use the nonce. If it is reserved by now, the drop releases it.
                    let canceled = self.client.cancel_tx(&reserved.tx_id, None).await;
                    self.is_over = canceled.is_ok_and(|canceled| canceled.state == TxStateName::Canceled);
                } else {
                    self.is_over = true;
                }
                Ok(reserved)
            }
            Err(error) => {
                // A refused reservation is not queued, and a caller who named it can ask again.
                let is_no = error.problem().is_some_and(|problem| matches!(problem.status, 400..=499));
                self.is_over = is_no || self.is_named;
                Err(error)
            }
        }
    }
}

impl Drop for QueuedReservation<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let (client, submitter, request) = (self.client.clone(), self.submitter.to_owned(), self.request.clone());
        // Without a runtime no request can be sent; the hold ends by itself.
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

/// Withdraws a queued reservation, or releases its nonce. `Some(false)` if it was reserved meanwhile, `None` if the
/// result is unknown. Repeating the request returns its id, and is right even if the first call never arrived.
async fn withdraw(client: &Client, submitter: &str, request: &ReserveRequest) -> Option<bool> {
    let reserved = client.reserve_nonce(submitter, request, Some(Duration::ZERO)).await.ok()?;
    match reserved.nonce {
        Some(nonce) => client.release_nonce(submitter, nonce, &reserved.lock_owner, None).await.ok().map(|_| true),
        None => {
            let canceled = client.cancel_tx(&reserved.tx_id, None).await.ok()?;
            Some(canceled.state == TxStateName::Canceled)
        }
    }
}

/// A long random name: a lock owner is a proof and must not be guessable.
#[expect(clippy::disallowed_methods, reason = "the client runs in the caller's process, which no seed drives")]
fn fresh_name() -> String {
    uuid::Uuid::new_v4().to_string()
}
