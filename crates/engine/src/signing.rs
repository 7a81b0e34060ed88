//! Signs the plans of a lane: one call for a batch, and a verdict for each plan.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gapless_domain::{NodeText, Permit, SignFailure, SignRequest, SignedTx, Tick, TxPlan};
use gapless_signer::{Signer, SignerError, Timer, TxEncoder, sign_plans};

use crate::driver::Driver;

/// The time of the engine, for the bounds of signers.
#[derive(Debug)]
pub(crate) struct DriverTimer(pub(crate) Arc<dyn Driver>);

impl Timer for DriverTimer {
    fn now(&self) -> Tick {
        self.0.now()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(time)
    }
}

/// The signer of one lane, and the encoding of its chain.
#[derive(Clone, Debug)]
pub(crate) struct LaneSigner {
    pub(crate) encoder: Arc<dyn TxEncoder>,
    /// Behind the bounds of this node.
    pub(crate) signer: Arc<dyn Signer>,
}

/// The answers to the requests of one batch.
#[derive(Debug)]
pub(crate) struct SignedBatch {
    pub(crate) answers: Vec<Result<SignedTx, SignFailure>>,
    /// Requests that the signer did not answer in time.
    pub(crate) timeouts: usize,
}

impl LaneSigner {
    pub(crate) async fn sign(&self, permit: &Permit, requests: Vec<SignRequest>) -> SignedBatch {
        let plans: Vec<TxPlan> = requests.into_iter().map(|request| request.plan).collect();
        let answers = sign_plans(permit, self.encoder.as_ref(), self.signer.as_ref(), &plans).await;
        let timeouts = answers.iter().filter(|answer| matches!(answer, Err(SignerError::Timeout))).count();
        SignedBatch { answers: answers.into_iter().map(|answer| answer.map_err(failure)).collect(), timeouts }
    }
}

/// Only a refusal is about the transaction. After any other failure the transaction is signed later or on another node.
fn failure(error: SignerError) -> SignFailure {
    let text = NodeText::new(&error.to_string());
    match error {
        SignerError::Refused(_) => SignFailure::Refused(text),
        SignerError::Unavailable(_) | SignerError::Timeout | SignerError::Mismatch(_) => SignFailure::Unavailable(text),
    }
}
