//! A signer with a key in memory that poses as a service, and the clock of a test.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use gapless_domain::Tick;
use gapless_signer::{KeyLocation, PublicKey, Signature, Signer, SignerError, SigningInput, Timer};
use secp256k1::{Message, SECP256K1, SecretKey};

/// Tokio's clock. A test pauses it.
#[derive(Debug)]
pub(crate) struct TestTimer(tokio::time::Instant);

impl TestTimer {
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(TestTimer(tokio::time::Instant::now()))
    }
}

impl Timer for TestTimer {
    fn now(&self) -> Tick {
        Tick::since_start(self.0.elapsed())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// A service with one key. A test says how long its calls take, and which inputs it refuses.
#[derive(Debug)]
pub(crate) struct TestService {
    key: [u8; 32],
    name: &'static str,
    pub(crate) latency: Mutex<Option<Duration>>,
    pub(crate) refused: Mutex<HashSet<SigningInputText>>,
    pub(crate) calls: Mutex<Vec<usize>>,
    pub(crate) answered: AtomicUsize,
    running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
}

/// The bytes of an input, as text.
pub(crate) type SigningInputText = String;

/// Counts a running call while it lives.
struct RunningCall<'a>(&'a TestService);

impl<'a> RunningCall<'a> {
    fn begin(service: &'a TestService) -> Self {
        let running = service.running.fetch_add(1, Ordering::SeqCst) + 1;
        service.most_running.fetch_max(running, Ordering::SeqCst);
        RunningCall(service)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestService {
    /// `latency` is `None` for a service that hangs.
    pub(crate) fn new(name: &'static str, latency: Option<Duration>) -> Arc<Self> {
        Arc::new(TestService {
            key: [7; 32],
            name,
            latency: Mutex::new(latency),
            refused: Mutex::default(),
            calls: Mutex::default(),
            answered: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
        })
    }

    fn key(&self) -> SecretKey {
        SecretKey::from_byte_array(self.key).unwrap()
    }

    fn sign(&self, input: &SigningInput) -> Result<Signature, SignerError> {
        let text = String::from_utf8(input.bytes.to_vec()).unwrap();
        if self.refused.lock().unwrap().contains(&text) {
            return Err(SignerError::Refused("by a rule".to_owned()));
        }
        let signed = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(input.digest.0), &self.key());
        let (parity, bytes) = signed.serialize_compact();
        let (r, s) = bytes.split_at(32);
        let y_is_odd = i32::from(parity) & 1 == 1;
        Ok(Signature::Secp256k1 { r: r.try_into().unwrap(), s: s.try_into().unwrap(), y_is_odd })
    }
}

#[async_trait]
impl Signer for TestService {
    fn public_key(&self) -> PublicKey {
        PublicKey::Secp256k1(self.key().public_key(SECP256K1).serialize_uncompressed())
    }

    fn location(&self) -> KeyLocation {
        KeyLocation::Service(self.name.into())
    }

    async fn sign_many(&self, inputs: &[SigningInput]) -> Vec<Result<Signature, SignerError>> {
        let _running = RunningCall::begin(self);
        self.calls.lock().unwrap().push(inputs.len());
        let latency = *self.latency.lock().unwrap();
        match latency {
            Some(latency) => tokio::time::sleep(latency).await,
            None => std::future::pending().await,
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
        inputs.iter().map(|input| self.sign(input)).collect()
    }
}
