//! Nonces for callers who sign by themselves, call by call. [`Client::with_nonce`] is the safe way to use them.

use std::time::Duration;

use super::{Client, ClientError};
use crate::reservation::{ReleaseRequest, ReservationResult, ReservationView, ReserveRequest, SubmitRequest};

impl Client {
    /// Asks for a nonce, and waits for it up to `wait`, or as long as the server likes. Without a nonce in the answer it is still
    /// in line: the same request again, with the request id and the lock owner of the answer, asks again.
    pub async fn reserve_nonce(
        &self,
        submitter: &str,
        request: &ReserveRequest,
        wait: Option<Duration>,
    ) -> Result<ReservationView, ClientError> {
        self.post(&["api", "v1", "submitters", submitter, "nonces"], Some(request), wait).await
    }

    /// Gives the signed transaction for a lent nonce. The same bytes again are answered the same.
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

    /// Lets a lent nonce go.
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
