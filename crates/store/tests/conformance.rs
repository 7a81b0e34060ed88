//! The conformance suite on the model, and on the model behind a [`FaultyStore`] without faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gapless_domain::{LeaseTerms, OwnerId, Timestamp};
use gapless_store::conformance::Harness;
use gapless_store::{DatabaseClock, FaultyStore, ManualClock, Model, Store, StoreFaults};

struct ModelHarness {
    model: Model,
    clock: Arc<ManualClock>,
    nodes: AtomicU64,
    /// Puts a [`FaultyStore`] in front of each handle.
    wrapped: bool,
}

impl ModelHarness {
    fn fresh(wrapped: bool) -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::from_micros(1_900_000_000_000_000)));
        let model = Model::new(LeaseTerms::default(), clock.clone());
        ModelHarness { model, clock, nodes: AtomicU64::new(0), wrapped }
    }
}

#[async_trait]
impl Harness for ModelHarness {
    async fn node(&self, name: &str) -> Arc<dyn Store> {
        let unique = self.nodes.fetch_add(1, Ordering::SeqCst);
        let store = Arc::new(self.model.node(OwnerId::new(name, u128::from(unique))));
        if self.wrapped { Arc::new(FaultyStore::new(store, NoStoreFaults)) } else { store }
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn jump_back(&self, span: Duration) {
        self.clock.set(self.clock.now().saturating_sub(span));
    }

    fn terms(&self) -> LeaseTerms {
        LeaseTerms::default()
    }
}

#[derive(Debug)]
struct NoStoreFaults;

impl StoreFaults for NoStoreFaults {}

gapless_store::conformance_suite!(ModelHarness::fresh(false));

mod faulty_store {
    use super::*;

    gapless_store::conformance_suite!(ModelHarness::fresh(true));
}
