//! The signals that stop the process: SIGTERM and SIGINT.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ComposeError;

/// Receives stop signals from the moment of its creation.
#[derive(Debug)]
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> Result<Self, ComposeError> {
        let receive = |kind| signal(kind).map_err(ComposeError::Signals);
        Ok(StopSignals { terminate: receive(SignalKind::terminate())?, interrupt: receive(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
