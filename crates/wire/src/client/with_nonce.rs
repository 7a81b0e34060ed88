//! A reservation for the time of a closure: reserved before, and afterwards submitted or released.
//!
//! An unused reservation holds up everything behind it. A nonce that is released while its transaction may be on its
//! way would be used twice. So however the closure ends, including a panic and a dropped future, the nonce is released
//! exactly if no transaction was submitted for it. Where that is unknown, the nonce is left alone and the caller is
//! told: the hold ends by itself, and the lane knows what was submitted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::queued::QueuedReservation;
use super::{Client, ClientError};
use crate::command::CommandState;
use crate::problem::ProblemCode;
use crate::reservation::{ReservationResult, ReserveRequest, SubmitRequest};

/// Number of submits of bytes that the lane has not executed yet; the server waits each time.
const MAX_HAND_INS: u32 = 4;
/// Default wait in the queue.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// Options of a reservation.
#[derive(Clone, Debug, Default)]
pub struct NonceOptions {
    pub request: ReserveRequest,
    /// Wait in the queue; 30 seconds if absent. The server may grant less.
    pub wait: Option<Duration>,
}

/// The reserved nonce for the closure, held until [`NonceContext::locked_until`].
#[derive(Clone, Debug)]
pub struct NonceContext(Arc<HeldReservation>);

/// State of the nonce after the closure failed.
#[derive(Debug)]
pub enum NonceFate {
    /// Released: the next reservation gets it.
    Released,
    /// The release failed; the hold ends by itself.
    NotReleased(ClientError),
    /// The closure had submitted a transaction for it.
    Used(ReservationResult),
    /// The closure tried to submit a transaction with an unknown result. The nonce was not released.
    Unknown,
}

#[derive(Debug, thiserror::Error)]
pub enum WithNonceError<E: fmt::Debug + fmt::Display> {
    /// No nonce was reserved, as far as is known. Without an answer a reservation may exist. It is withdrawn in the
    /// background, unless the caller gave both names and can ask again; if that fails too, the hold ends by itself.
    #[error("no nonce: {0}")]
    Reserve(#[source] ClientError),
    /// The reservation did not reach the head of the queue in time and was withdrawn.
    #[error("reservation {tx_id} got no nonce in time")]
    NotBound { tx_id: String },
    /// The closure failed.
    #[error("{error}")]
    Work { error: E, nonce: u64, fate: NonceFate },
    /// The signed transaction was refused. The nonce was released, unless it was no longer reserved.
    #[error("the transaction was refused: {0}")]
    Refused(#[source] ClientError),
    /// Whether the transaction was accepted is unknown. The nonce was **not** released: submit the same bytes again
    /// with [`Client::submit_nonce`] until the hold ends.
    #[error("unknown whether the transaction for nonce {nonce} was accepted")]
    Unknown { tx_id: String, nonce: u64, lock_owner: String, source: Option<ClientError> },
}

#[derive(Debug)]
struct HeldReservation {
    client: Client,
    submitter: String,
    tx_id: String,
    nonce: u64,
    lock_owner: String,
    locked_until: String,
    stage: Mutex<ReservationStage>,
}

/// State of a reservation.
#[derive(Clone, Debug)]
enum ReservationStage {
    Lent,
    /// Bytes were sent, and the result is not known yet.
    Asked,
    Used(ReservationResult),
    /// Released, or no longer held.
    Over,
}

/// Releases the nonce when dropped, if no transaction was submitted for it.
struct Keeper(Arc<HeldReservation>);

impl Client {
    /// Reserves a nonce, calls `work` with it, and submits the signed bytes that it returns. If it fails, panics or is
    /// dropped before a submit, the nonce is released; on a drop by a task of its own on the current runtime, if there
    /// is one. A reservation that is dropped while it is queued is withdrawn in the same way. Missing names are
    /// generated here.
    pub async fn with_nonce<E, F>(
        &self,
        submitter: &str,
        options: &NonceOptions,
        work: impl FnOnce(NonceContext) -> F,
    ) -> Result<ReservationResult, WithNonceError<E>>
    where
        E: fmt::Debug + fmt::Display,
        F: Future<Output = Result<Vec<u8>, E>>,
    {
        let held = Arc::new(self.reserve_for_closure(submitter, options).await?);
        let keeper = Keeper(Arc::clone(&held));
        let context = NonceContext(Arc::clone(&held));
        let raw = match work(context.clone()).await {
            Ok(raw) => raw,
            Err(error) => {
                return Err(WithNonceError::Work { error, nonce: held.nonce, fate: keeper.give_back().await });
            }
        };
        let source = match context.submit(&raw).await {
            Ok(result) if result.state == CommandState::Done => return Ok(result),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        match (keeper.0.stage(), source) {
            (ReservationStage::Lent | ReservationStage::Over, Some(refusal)) => {
                keeper.give_back().await;
                Err(WithNonceError::Refused(refusal))
            }
            (_, source) => {
                let (tx_id, lock_owner) = (held.tx_id.clone(), held.lock_owner.clone());
                Err(WithNonceError::Unknown { tx_id, nonce: held.nonce, lock_owner, source })
            }
        }
    }

    async fn reserve_for_closure<E>(
        &self,
        submitter: &str,
        options: &NonceOptions,
    ) -> Result<HeldReservation, WithNonceError<E>>
    where
        E: fmt::Debug + fmt::Display,
    {
        let wait = options.wait.unwrap_or(DEFAULT_WAIT);
        let queued = QueuedReservation::new(self, submitter, &options.request);
        let reserved = queued.wait(wait).await.map_err(WithNonceError::Reserve)?;
        let (Some(nonce), Some(locked_until)) = (reserved.nonce, reserved.locked_until) else {
            return Err(WithNonceError::NotBound { tx_id: reserved.tx_id });
        };
        Ok(HeldReservation {
            client: self.clone(),
            submitter: reserved.submitter,
            tx_id: reserved.tx_id,
            nonce,
            lock_owner: reserved.lock_owner,
            locked_until,
            stage: Mutex::new(ReservationStage::Lent),
        })
    }
}

impl NonceContext {
    pub fn nonce(&self) -> u64 {
        self.0.nonce
    }

    /// The submitter's CAIP-10 id, also if an alias was given.
    pub fn submitter(&self) -> &str {
        &self.0.submitter
    }

    pub fn lock_owner(&self) -> &str {
        &self.0.lock_owner
    }

    pub fn tx_id(&self) -> &str {
        &self.0.tx_id
    }

    /// The deadline, RFC 3339, by the database's clock: a later submit is refused.
    pub fn locked_until(&self) -> &str {
        &self.0.locked_until
    }

    /// Submits signed bytes now. The closure may also return the bytes; doing both counts as one submit.
    pub async fn submit(&self, raw: &[u8]) -> Result<ReservationResult, ClientError> {
        let held = &self.0;
        let before = held.stage();
        if let ReservationStage::Used(result) = before {
            return Ok(result);
        }
        let raw = format!("0x{}", raw.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let request = SubmitRequest { lock_owner: held.lock_owner.clone(), raw };
        held.set(ReservationStage::Asked);
        let mut hand_ins = 1;
        loop {
            match held.client.submit_nonce(&held.submitter, held.nonce, &request, None).await {
                Ok(result) if result.state == CommandState::Done => {
                    held.set(ReservationStage::Used(result.clone()));
                    return Ok(result);
                }
                Ok(open) if hand_ins == MAX_HAND_INS => return Ok(open),
                Ok(_) => hand_ins += 1,
                Err(error) => {
                    let lost = error.problem().and_then(|problem| problem.known_code());
                    let lost = lost == Some(ProblemCode::ReservationLost);
                    // A refusal does not undo an earlier submit. After a submit that became durable, the client cannot
                    // know whether the lane executed it.
                    if matches!(before, ReservationStage::Lent) && error.is_refusal() && hand_ins == 1 {
                        held.set(if lost { ReservationStage::Over } else { ReservationStage::Lent });
                    }
                    return Err(error);
                }
            }
        }
    }
}

impl Keeper {
    async fn give_back(&self) -> NonceFate {
        let held = &self.0;
        match held.stage() {
            ReservationStage::Used(result) => NonceFate::Used(result),
            ReservationStage::Asked => NonceFate::Unknown,
            ReservationStage::Over => NonceFate::Released,
            ReservationStage::Lent => {
                let released = held.release().await;
                // The reservation is finished either way: a second release from the drop would get the same answer.
                held.set(ReservationStage::Over);
                released.map_or_else(NonceFate::NotReleased, |_| NonceFate::Released)
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !matches!(self.0.stage(), ReservationStage::Lent) {
            return;
        }
        let held = Arc::clone(&self.0);
        held.set(ReservationStage::Over);
        // Without a runtime no request can be sent; the hold ends by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = held.release().await;
            });
        }
    }
}

impl HeldReservation {
    async fn release(&self) -> Result<ReservationResult, ClientError> {
        self.client.release_nonce(&self.submitter, self.nonce, &self.lock_owner, None).await
    }

    fn stage(&self) -> ReservationStage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, stage: ReservationStage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}
