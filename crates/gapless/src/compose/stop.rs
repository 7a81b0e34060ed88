//! When to stop: SIGTERM and SIGINT.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ComposeError;

/// Hears signals from the moment it is made.
#[derive(Debug)]
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    pub(crate) fn listen() -> Result<Self, ComposeError> {
        let hear = |kind| signal(kind).map_err(ComposeError::Signals);
        Ok(Stop { terminate: hear(SignalKind::terminate())?, interrupt: hear(SignalKind::interrupt())? })
    }

    /// Ends at the next signal.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
