//! A nonce for the time of a closure: lent before it, and afterwards either used or given back.
//!
//! A nonce that nobody uses holds up everything behind it, and one that is given back while its transaction may be on its way
//! would be used twice. So whatever way the closure ends, including a panic and a caller who drops the future, the nonce is given
//! back exactly if nothing was handed in for it. Where that is not known it is left alone, and the caller is told: the hold runs
//! out by itself, and the lane knows what it was given.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::in_line::InLine;
use super::{Client, ClientError};
use crate::command::CommandState;
use crate::problem::ProblemCode;
use crate::reservation::{ReservationResult, ReserveRequest, SubmitRequest};

/// How often signed bytes are handed in that the lane has not come to yet; each time the server waits for a while.
const MAX_HAND_INS: u32 = 4;
/// How long somebody waits in line for a nonce who does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// How to ask for a nonce.
#[derive(Clone, Debug, Default)]
pub struct NonceOptions {
    pub request: ReserveRequest,
    /// How long to wait in line for it; 30 seconds if absent. The server may grant less.
    pub wait: Option<Duration>,
}

/// The nonce, as the closure gets it. It is lent until [`NonceContext::locked_until`].
#[derive(Clone, Debug)]
pub struct NonceContext(Arc<Loan>);

/// What became of the nonce when the closure failed.
#[derive(Debug)]
pub enum NonceFate {
    /// It went back; somebody else gets it.
    Released,
    /// It could not be given back; its hold runs out by itself.
    NotReleased(ClientError),
    /// The closure had handed in a transaction for it, which goes its way.
    Used(ReservationResult),
    /// The closure tried to hand one in, and whether it did is not known. The nonce was not given back.
    Unknown,
}

#[derive(Debug, thiserror::Error)]
pub enum WithNonceError<E: fmt::Debug + fmt::Display> {
    /// No nonce was lent, as far as is known. If there was no answer, one may be. It is withdrawn in the background, unless the
    /// caller gave both names and can ask again; if that fails too, its hold runs out by itself.
    #[error("no nonce: {0}")]
    Reserve(#[source] ClientError),
    /// It did not come to the head of the line in time, and was withdrawn.
    #[error("request {tx_id} got no nonce in time")]
    NotBound { tx_id: String },
    /// The closure failed.
    #[error("{error}")]
    Work { error: E, nonce: u64, fate: NonceFate },
    /// What the closure signed was refused; the nonce was given back, unless it was no longer lent.
    #[error("the transaction was refused: {0}")]
    Refused(#[source] ClientError),
    /// Whether the transaction was taken is not known. The nonce was **not** given back: the same bytes can be handed in again with
    /// [`Client::submit_nonce`], until the hold is over.
    #[error("whether the transaction for nonce {nonce} was taken is not known")]
    Unknown { tx_id: String, nonce: u64, lock_owner: String, source: Option<ClientError> },
}

#[derive(Debug)]
struct Loan {
    client: Client,
    submitter: String,
    tx_id: String,
    nonce: u64,
    lock_owner: String,
    locked_until: String,
    stage: Mutex<Stage>,
}

/// How far a loan is.
#[derive(Clone, Debug)]
enum Stage {
    Lent,
    /// Bytes were sent, and nobody knows yet what came of it.
    Asked,
    Used(ReservationResult),
    /// Given back, or no longer ours.
    Over,
}

/// Gives the nonce back when it is dropped, if nothing was handed in for it.
struct Keeper(Arc<Loan>);

impl Client {
    /// Lends a nonce, calls `work` with it, and hands in the signed bytes that it returns. If it fails, panics or is dropped before
    /// anything was handed in, the nonce is given back; on a drop by a task of its own on the current runtime, where there is one.
    /// Whoever drops it while it is still in line is taken out of the line the same way. Names that are left out are made up here.
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
        let loan = Arc::new(self.borrow_nonce(submitter, options).await?);
        let keeper = Keeper(Arc::clone(&loan));
        let context = NonceContext(Arc::clone(&loan));
        let raw = match work(context.clone()).await {
            Ok(raw) => raw,
            Err(error) => {
                return Err(WithNonceError::Work { error, nonce: loan.nonce, fate: keeper.give_back().await });
            }
        };
        let source = match context.submit(&raw).await {
            Ok(result) if result.state == CommandState::Done => return Ok(result),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        match (keeper.0.stage(), source) {
            (Stage::Lent | Stage::Over, Some(refusal)) => {
                keeper.give_back().await;
                Err(WithNonceError::Refused(refusal))
            }
            (_, source) => {
                let (tx_id, lock_owner) = (loan.tx_id.clone(), loan.lock_owner.clone());
                Err(WithNonceError::Unknown { tx_id, nonce: loan.nonce, lock_owner, source })
            }
        }
    }

    async fn borrow_nonce<E>(&self, submitter: &str, options: &NonceOptions) -> Result<Loan, WithNonceError<E>>
    where
        E: fmt::Debug + fmt::Display,
    {
        let wait = options.wait.unwrap_or(DEFAULT_WAIT);
        let in_line = InLine::new(self, submitter, &options.request);
        let lent = in_line.wait(wait).await.map_err(WithNonceError::Reserve)?;
        let (Some(nonce), Some(locked_until)) = (lent.nonce, lent.locked_until) else {
            return Err(WithNonceError::NotBound { tx_id: lent.tx_id });
        };
        Ok(Loan {
            client: self.clone(),
            submitter: lent.submitter,
            tx_id: lent.tx_id,
            nonce,
            lock_owner: lent.lock_owner,
            locked_until,
            stage: Mutex::new(Stage::Lent),
        })
    }
}

impl NonceContext {
    pub fn nonce(&self) -> u64 {
        self.0.nonce
    }

    /// The submitter's CAIP-10 id, also if an alias was asked for.
    pub fn submitter(&self) -> &str {
        &self.0.submitter
    }

    pub fn lock_owner(&self) -> &str {
        &self.0.lock_owner
    }

    pub fn tx_id(&self) -> &str {
        &self.0.tx_id
    }

    /// The deadline, RFC 3339, by the database's clock: what is handed in later is refused.
    pub fn locked_until(&self) -> &str {
        &self.0.locked_until
    }

    /// Hands in signed bytes now. Returning them from the closure does the same; after this, both are one.
    pub async fn submit(&self, raw: &[u8]) -> Result<ReservationResult, ClientError> {
        let loan = &self.0;
        let before = loan.stage();
        if let Stage::Used(result) = before {
            return Ok(result);
        }
        let raw = format!("0x{}", raw.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let request = SubmitRequest { lock_owner: loan.lock_owner.clone(), raw };
        loan.set(Stage::Asked);
        let mut hand_ins = 1;
        loop {
            match loan.client.submit_nonce(&loan.submitter, loan.nonce, &request, None).await {
                Ok(result) if result.state == CommandState::Done => {
                    loan.set(Stage::Used(result.clone()));
                    return Ok(result);
                }
                Ok(open) if hand_ins == MAX_HAND_INS => return Ok(open),
                Ok(_) => hand_ins += 1,
                Err(error) => {
                    let lost = error.problem().and_then(|problem| problem.known_code());
                    let lost = lost == Some(ProblemCode::ReservationLost);
                    // What an earlier call may have handed in is not undone by a refusal of this one; whatever it was, after a hand-in
                    // that was written down nobody here knows whether the lane took it.
                    if matches!(before, Stage::Lent) && error.is_refusal() && hand_ins == 1 {
                        loan.set(if lost { Stage::Over } else { Stage::Lent });
                    }
                    return Err(error);
                }
            }
        }
    }
}

impl Keeper {
    async fn give_back(&self) -> NonceFate {
        let loan = &self.0;
        match loan.stage() {
            Stage::Used(result) => NonceFate::Used(result),
            Stage::Asked => NonceFate::Unknown,
            Stage::Over => NonceFate::Released,
            Stage::Lent => {
                let released = loan.release().await;
                // Either way it is done with: once more from the drop would meet the same.
                loan.set(Stage::Over);
                released.map_or_else(NonceFate::NotReleased, |_| NonceFate::Released)
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !matches!(self.0.stage(), Stage::Lent) {
            return;
        }
        let loan = Arc::clone(&self.0);
        loan.set(Stage::Over);
        // Without a runtime nobody can send anything; the hold runs out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = loan.release().await;
            });
        }
    }
}

impl Loan {
    async fn release(&self) -> Result<ReservationResult, ClientError> {
        self.client.release_nonce(&self.submitter, self.nonce, &self.lock_owner, None).await
    }

    fn stage(&self) -> Stage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }
}
