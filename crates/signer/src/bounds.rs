//! The time-out of every signer, and the bound of concurrent calls of every service.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, join_all};
use gapless_domain::Tick;
use tokio::sync::Semaphore;

use crate::port::{KeyLocation, PublicKey, Signature, Signer, SignerError, SigningInput};

/// The divisor of the time-out that gives the least time of a call.
const LEAST_TIME_PART: u32 = 10;

/// The limits of signing, by their names in the config section `[signing]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigningLimits {
    /// The time limit of one call, with its wait for a free place.
    pub timeout: Duration,
    /// Calls to one service at the same time.
    pub concurrency: usize,
    /// Inputs of one call. A longer batch is split into calls at the same time.
    pub batch_max: usize,
    /// A lane whose signer has signed nothing for this long is handed over to other nodes.
    pub handover_first: Duration,
    /// The time before a handover doubles with each handover after which the signer still signs nothing, up to this.
    pub handover_longest: Duration,
}

impl Default for SigningLimits {
    fn default() -> Self {
        SigningLimits {
            timeout: Duration::from_secs(5),
            concurrency: 8,
            batch_max: 100,
            handover_first: Duration::from_secs(10),
            handover_longest: Duration::from_secs(60),
        }
    }
}

/// The clock and the timers of the node.
pub trait Timer: Send + Sync + fmt::Debug {
    fn now(&self) -> Tick;

    /// Ends after this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// Puts signers behind the limits of this node. Signers of one service share its places.
#[derive(Debug)]
pub struct SigningBounds {
    limits: SigningLimits,
    timer: Arc<dyn Timer>,
    services: Mutex<HashMap<Arc<str>, Arc<Service>>>,
}

/// The places of one service.
#[derive(Debug)]
struct Service {
    places: Semaphore,
    /// Counts the answered calls, to tell a busy service from one that hangs.
    answered: AtomicU64,
}

impl SigningBounds {
    pub fn new(limits: SigningLimits, timer: Arc<dyn Timer>) -> Self {
        SigningBounds { limits, timer, services: Mutex::default() }
    }

    /// The signer behind the limits: its calls end in time, and it gets at most `batch_max` inputs at once. A late
    /// answer is dropped with its call.
    pub fn bound(&self, signer: Arc<dyn Signer>) -> Arc<dyn Signer> {
        let service = match signer.location() {
            KeyLocation::Memory => None,
            KeyLocation::Service(name) => Some(self.service(name)),
        };
        Arc::new(BoundedSigner { inner: signer, limits: self.limits, timer: Arc::clone(&self.timer), service })
    }

    fn service(&self, name: Arc<str>) -> Arc<Service> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let places = self.limits.concurrency.clamp(1, Semaphore::MAX_PERMITS);
        let new = || Arc::new(Service { places: Semaphore::new(places), answered: AtomicU64::new(0) });
        Arc::clone(services.entry(name).or_insert_with(new))
    }
}

/// A signer behind the limits of its node.
#[derive(Debug)]
struct BoundedSigner {
    inner: Arc<dyn Signer>,
    limits: SigningLimits,
    timer: Arc<dyn Timer>,
    /// `None` for a key in memory.
    service: Option<Arc<Service>>,
}

#[async_trait]
impl Signer for BoundedSigner {
    fn public_key(&self) -> PublicKey {
        self.inner.public_key()
    }

    fn location(&self) -> KeyLocation {
        self.inner.location()
    }

    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>> {
        let calls = inputs.chunks(self.limits.batch_max.max(1)).map(|inputs| self.call(inputs));
        let answers = join_all(calls).await.concat();
        answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(count_failure);
        answers
    }
}

impl BoundedSigner {
    /// One deadline is for the wait for a place and for the answer.
    async fn call(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>> {
        let all = |error: SignerError| vec![Err(error); inputs.len()];
        let began = self.timer.now();
        let mut deadline = self.timer.sleep(self.limits.timeout);
        let Some(service) = self.service.as_deref() else {
            return self.ask(inputs, &mut deadline).await.unwrap_or_else(all);
        };
        let answered = service.answered.load(Ordering::Relaxed);
        let place = tokio::select! {
            biased;
            place = service.places.acquire() => place.ok(),
            () = &mut deadline => None,
        };
        let waited = self.timer.now().saturating_since(began);
        let answers = match place.filter(|_| self.limits.timeout.saturating_sub(waited) > self.least_time()) {
            Some(_place) => self.ask(inputs, &mut deadline).await,
            None => Err(SignerError::Timeout),
        };
        match answers {
            Ok(answers) => {
                service.answered.fetch_add(1, Ordering::Relaxed);
                answers
            }
            // A service that answered other calls during a long wait is busy and does not hang.
            Err(SignerError::Timeout)
                if waited > self.limits.timeout / 2 && service.answered.load(Ordering::Relaxed) != answered =>
            {
                all(SignerError::Busy(self.limits.concurrency))
            }
            Err(error) => all(error),
        }
    }

    /// A call that gets its place with less time left is not made: its answer would come too late.
    fn least_time(&self) -> Duration {
        self.limits.timeout / LEAST_TIME_PART
    }

    async fn ask(
        &self,
        inputs: &[SigningInput],
        deadline: &mut BoxFuture<'static, ()>,
    ) -> Result<Vec<Result<Signature, SignerError>>, SignerError> {
        let began = self.timer.now();
        let answers = tokio::select! {
            biased;
            answers = self.inner.sign_many(inputs) => Ok(answers),
            // The call is dropped here, and with it an answer that comes later.
            () = deadline => Err(SignerError::Timeout),
        };
        let took = self.timer.now().saturating_since(began);
        metrics::histogram!("gapless_signer_seconds").record(took.as_secs_f64());
        let answers = answers?;
        if answers.len() != inputs.len() {
            let text = format!("it gave {} answers to {} requests", answers.len(), inputs.len());
            return Err(SignerError::Unavailable(text));
        }
        Ok(answers)
    }
}

pub(crate) fn count_failure(error: &SignerError) {
    metrics::counter!("gapless_signer_failures_total", "reason" => error.reason()).increment(1);
}
