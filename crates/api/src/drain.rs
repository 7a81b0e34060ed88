//! Orderly shutdown: readiness turns false, and waiting callers get an answer.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells every route that the node drains. Clones share the signal.
#[derive(Clone, Debug)]
pub struct Drain(Arc<watch::Sender<bool>>);

impl Default for Drain {
    fn default() -> Self {
        Drain(Arc::new(watch::Sender::new(false)))
    }
}

impl Drain {
    /// Begins the drain: `/readyz` answers 503, and callers that wait for a change get the current state.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the drain begins.
    pub async fn begun(&self) {
        let mut receiver = self.0.subscribe();
        // The sender is alive, because `self` holds it.
        let _ = receiver.wait_for(|begun| *begun).await;
    }
}
