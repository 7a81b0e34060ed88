//! Faults of a store that a test switches on and off.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gapless_domain::SubmitterId;
use gapless_store::{RowError, StoreError, StoreFaults, StoreVerb};

#[derive(Debug, Default)]
pub(crate) struct SwitchedFaults(Mutex<FaultSwitches>);

/// The faults that act at present.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultSwitches {
    /// No verb answers.
    pub(crate) is_down: bool,
    pub(crate) sweep_delay: Duration,
    pub(crate) load_fails: bool,
    /// The queue of this lane holds a row that cannot be read.
    pub(crate) bad_queue: Option<SubmitterId>,
}

impl SwitchedFaults {
    pub(crate) fn set(&self) -> MutexGuard<'_, FaultSwitches> {
        self.0.lock().unwrap()
    }
}

impl StoreFaults for SwitchedFaults {
    async fn before(&self, verb: StoreVerb, lanes: &[SubmitterId]) -> Result<(), StoreError> {
        let faults = self.set().clone();
        if verb == StoreVerb::LanesWithWork {
            tokio::time::sleep(faults.sweep_delay).await;
        }
        if verb == StoreVerb::LoadLanes && faults.load_fails {
            return Err(StoreError::Unavailable("too slow".into()));
        }
        if verb == StoreVerb::PeekQueues && lanes.iter().any(|lane| Some(lane) == faults.bad_queue.as_ref()) {
            return Err(StoreError::Row(RowError::new("payload", "cannot be read")));
        }
        if self.set().is_down {
            return Err(StoreError::Unavailable("connection refused".into()));
        }
        Ok(())
    }
}
