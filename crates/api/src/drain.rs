//! Going down in order: readiness says so, and nobody is left waiting.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells every route that the node drains. Clones share it.
#[derive(Clone, Debug)]
pub struct Drain(Arc<watch::Sender<bool>>);

impl Default for Drain {
    fn default() -> Self {
        Drain(Arc::new(watch::Sender::new(false)))
    }
}

impl Drain {
    /// From now on `/readyz` answers 503, and callers that wait for a change get what there is.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the drain begins.
    pub async fn begun(&self) {
        let mut receiver = self.0.subscribe();
        // The sender is alive: it is the one that we were called on.
        let _ = receiver.wait_for(|begun| *begun).await;
    }
}
