//! The model passes the suite that every store has to pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{LeaseTerms, OwnerId, Timestamp};
use gapless_store::conformance::Harness;
use gapless_store::{ManualClock, Model, Store};

struct ModelHarness {
    model: Model,
    clock: Arc<ManualClock>,
    processes: AtomicU64,
}

impl ModelHarness {
    fn fresh() -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_900_000_000_000_000)));
        let model = Model::new(LeaseTerms::default(), clock.clone());
        ModelHarness { model, clock, processes: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Harness for ModelHarness {
    async fn node(&self, name: &str) -> Arc<dyn Store> {
        let unique = self.processes.fetch_add(1, Ordering::SeqCst);
        Arc::new(self.model.node(OwnerId::new(name, u128::from(unique))))
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn terms(&self) -> LeaseTerms {
        LeaseTerms::default()
    }
}

gapless_store::conformance_suite!(ModelHarness::fresh());
