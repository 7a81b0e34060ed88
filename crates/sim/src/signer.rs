//! The signers of simulated lanes: one service that all lanes of a process use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::OwnerId;
use gapless_engine::Driver;
use gapless_signer::{KeyLocation, PublicKey, Signature, Signer, SignerError, SigningInput};

use crate::fault::{Fault, Faults};
use crate::history::{History, Moment};
use crate::net::Net;

/// The duration of a slow call. Some slow calls end after the time-out.
const SLOW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(8));

/// The name of the service.
const SERVICE: &str = "simulated";

/// The transaction format of the simulator has no signatures, so all of them are equal.
const SIGNATURE: Signature = Signature::Secp256k1 { r: [1; 32], s: [1; 32], y_is_odd: false };

/// The signer of one process in a world. Its faults strike once per call.
#[derive(Debug)]
pub(crate) struct WorldSigner {
    pub(crate) net: Net,
    pub(crate) faults: Faults,
    pub(crate) history: History,
    pub(crate) owner: OwnerId,
}

impl WorldSigner {
    fn strikes(&self, fault: Fault) -> bool {
        let strikes = self.faults.strikes(fault);
        if strikes {
            self.history.tell(Moment::Struck { fault, what: format!("a call of {}", self.owner) });
        }
        strikes
    }
}

#[async_trait]
impl Signer for WorldSigner {
    fn public_key(&self) -> PublicKey {
        PublicKey::Secp256k1([4; 65])
    }

    fn location(&self) -> KeyLocation {
        KeyLocation::Service(SERVICE.into())
    }

    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>> {
        if self.strikes(Fault::SignerHangs) {
            std::future::pending::<()>().await;
        }
        if self.strikes(Fault::SignerSlow) {
            let time = self.net.roll(|dice| dice.duration(SLOW.0, SLOW.1));
            self.net.stage().sleep(time).await;
        }
        let fails = self.strikes(Fault::SignerFails).then(|| self.net.roll(|dice| dice.index(inputs.len())));
        let answer = |at: usize| match fails == Some(at) {
            true => Err(SignerError::Unavailable("the service is overloaded".to_owned())),
            false => Ok(SIGNATURE),
        };
        (0..inputs.len()).map(answer).collect()
    }
}

/// The signer of a test. It signs for any lane of a [`ScriptedChain`](crate::testing::ScriptedChain), and deviates as
/// its script says.
#[derive(Debug)]
pub struct ScriptedSigner {
    driver: Arc<dyn Driver>,
    state: Mutex<SignerState>,
}

#[derive(Debug, Default)]
struct SignerState {
    script: SignerScript,
    calls: Vec<usize>,
    running: usize,
    most_running: usize,
}

/// Deviations of a signer, for as long as they are set.
#[derive(Clone, Debug, Default)]
pub struct SignerScript {
    /// No call is ever answered.
    pub hangs: bool,
    /// Every input of every call fails at once.
    pub fails: bool,
    /// The duration of every call.
    pub latency: Duration,
    /// The further duration of a call for each of its inputs.
    pub latency_each: Duration,
    /// The failures of the next inputs whose bytes contain a text.
    pub failures: VecDeque<(String, SignerError)>,
}

impl ScriptedSigner {
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Arc::new(ScriptedSigner { driver, state: Mutex::default() })
    }

    /// Changes the script from now on.
    pub fn script(&self, change: impl FnOnce(&mut SignerScript)) {
        change(&mut self.state().script);
    }

    /// The number of inputs of each call so far.
    pub fn calls(&self) -> Vec<usize> {
        self.state().calls.clone()
    }

    /// The greatest number of calls that ran at the same time.
    pub fn most_running(&self) -> usize {
        self.state().most_running
    }

    fn answer(&self, input: &SigningInput) -> Result<Signature, SignerError> {
        let bytes = String::from_utf8_lossy(&input.bytes);
        let failures = &mut self.state().script.failures;
        let at = failures.iter().position(|(text, _)| bytes.contains(text.as_str()));
        match at.and_then(|at| failures.remove(at)) {
            Some((_, error)) => Err(error),
            None => Ok(SIGNATURE),
        }
    }

    fn state(&self) -> MutexGuard<'_, SignerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a call as running while it lives.
struct RunningCall<'a>(&'a ScriptedSigner);

impl<'a> RunningCall<'a> {
    fn begin(signer: &'a ScriptedSigner, inputs: usize) -> Self {
        let mut state = signer.state();
        state.calls.push(inputs);
        state.running += 1;
        state.most_running = state.most_running.max(state.running);
        RunningCall(signer)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}

#[async_trait]
impl Signer for ScriptedSigner {
    fn public_key(&self) -> PublicKey {
        PublicKey::Secp256k1([4; 65])
    }

    fn location(&self) -> KeyLocation {
        KeyLocation::Service(SERVICE.into())
    }

    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>> {
        let _running = RunningCall::begin(self, inputs.len());
        let SignerScript { hangs, fails, latency, latency_each, .. } = self.state().script.clone();
        if hangs {
            std::future::pending::<()>().await;
        }
        if fails {
            return vec![Err(SignerError::Unavailable("the service is down".to_owned())); inputs.len()];
        }
        let latency = latency + latency_each * u32::try_from(inputs.len()).unwrap_or(u32::MAX);
        if !latency.is_zero() {
            self.driver.sleep(latency).await;
        }
        inputs.iter().map(|input| self.answer(input)).collect()
    }
}
