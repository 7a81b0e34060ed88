//! Reservations call by call, for callers who sign. [`Client::with_nonce`] is the safe way to use them.

use std::time::Duration;

use super::{Client, ClientError};
use crate::reservation::{ReleaseRequest, ReservationResult, ReservationView, ReserveRequest, SubmitRequest};

impl Client {
    /// Reserves a nonce and waits for it up to `wait`, or as long as the server allows. An answer without a nonce means
    /// that the reservation is still queued: repeat the request with the request id and lock owner of the answer.
    pub async fn reserve_nonce(
        &self,
        submitter: &str,
        request: &ReserveRequest,
        wait: Option<Duration>,
    ) -> Result<ReservationView, ClientError> {
        self.post(&["api", "v1", "submitters", submitter, "nonces"], Some(request), wait).await
    }

    /// Submits the signed transaction for a reserved nonce. The same bytes again get the same answer.
    pub async fn submit_nonce(
        &self,
        submitter: &str,
        nonce: u64,
        request: &SubmitRequest,
        wait: Option<Duration>,
    ) -> Result<ReservationResult, ClientError> {
        self.post(&["api", "v1", "submitters", submitter, "nonces", &nonce.to_string(), "submit"], Some(request), wait)
            .await
    }

    /// Releases a reserved nonce.
    pub async fn release_nonce(
        &self,
        submitter: &str,
        nonce: u64,
        lock_owner: &str,
        wait: Option<Duration>,
    ) -> Result<ReservationResult, ClientError> {
        let request = ReleaseRequest { lock_owner: lock_owner.to_owned() };
        self.post(
            &["api", "v1", "submitters", submitter, "nonces", &nonce.to_string(), "release"],
            Some(&request),
            wait,
        )
        .await
    }
}
