//! The conformance suite on a service, alone and behind bounds that split every batch.
#![allow(clippy::disallowed_methods, reason = "a test owns its own time")]
#![allow(clippy::unwrap_used, reason = "the helpers of a test panic too")]

#[allow(dead_code, reason = "not every test file uses all of it")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gapless_signer::conformance::Harness;
use gapless_signer::{Signer, SigningBounds, SigningLimits};
use support::{TestService, TestTimer};

struct ServiceHarness {
    service: Arc<TestService>,
    bounds: Option<SigningBounds>,
}

impl ServiceHarness {
    fn alone() -> Self {
        ServiceHarness { service: TestService::new("service", Some(Duration::from_millis(1))), bounds: None }
    }

    fn bounded() -> Self {
        let limits = SigningLimits { concurrency: 2, batch_max: 7, ..SigningLimits::default() };
        ServiceHarness { bounds: Some(SigningBounds::new(limits, TestTimer::start())), ..Self::alone() }
    }
}

#[async_trait]
impl Harness for ServiceHarness {
    async fn open(&self) -> Arc<dyn Signer> {
        let service = Arc::clone(&self.service) as Arc<dyn Signer>;
        match &self.bounds {
            Some(bounds) => bounds.bound(service),
            None => service,
        }
    }

    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }
}

mod service {
    use super::*;
    gapless_signer::conformance_suite!(ServiceHarness::alone());
}

mod bounded_service {
    use super::*;
    gapless_signer::conformance_suite!(ServiceHarness::bounded());
}
