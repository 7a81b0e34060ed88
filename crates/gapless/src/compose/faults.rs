//! Fault points for tests: aborts the process at a named point, as a crash does (S02), or stops it there, as a paused
//! machine does (N06). Release builds have no fault points.

use std::sync::Arc;

use gapless_engine::{FaultPoints, NoFaults};

use super::ComposeError;

/// Refuses fault points in a release build, so that a test does not pass because nothing crashed.
#[cfg(not(debug_assertions))]
pub(crate) fn fault_points() -> Result<Arc<dyn FaultPoints>, ComposeError> {
    match ["GAPLESS_ABORT_AT", "GAPLESS_STOP_AT"].iter().find_map(|variable| std::env::var(variable).ok()) {
        Some(name) => Err(ComposeError::FaultPoint { name }),
        None => Ok(Arc::new(NoFaults)),
    }
}

/// Reads the fault point from the environment. `GAPLESS_ABORT_AT=after_bind_commit` aborts the process at the first
/// time, `after_bind_commit:3` at the third. `GAPLESS_STOP_AT` stops the process as SIGSTOP does, until it gets
/// SIGCONT.
#[cfg(debug_assertions)]
pub(crate) fn fault_points() -> Result<Arc<dyn FaultPoints>, ComposeError> {
    use scripted::{Act, ActAt};

    for (variable, act) in [("GAPLESS_ABORT_AT", Act::Abort), ("GAPLESS_STOP_AT", Act::Stop)] {
        if let Ok(text) = std::env::var(variable) {
            let at = ActAt::parse(&text, act).ok_or(ComposeError::FaultPoint { name: text })?;
            return Ok(Arc::new(at));
        }
    }
    Ok(Arc::new(NoFaults))
}

#[cfg(debug_assertions)]
mod scripted {
    use std::process::Command;
    use std::sync::atomic::{AtomicU32, Ordering};

    use gapless_engine::{FaultPoint, FaultPoints};

    const STOP: &str = "kill -STOP \"$0\"; until grep -q '^[^)]*) T' \"/proc/$0/stat\"; do :; done";

    #[derive(Clone, Copy, Debug)]
    pub(super) enum Act {
        Abort,
        Stop,
    }

    #[derive(Debug)]
    pub(super) struct ActAt {
        point: FaultPoint,
        act: Act,
        /// The number of times that the point is reached until the action happens.
        left: AtomicU32,
    }

    impl ActAt {
        pub(super) fn parse(text: &str, act: Act) -> Option<Self> {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            let left = AtomicU32::new(count.parse().ok().filter(|count| *count > 0)?);
            Some(ActAt { point: FaultPoint::parse(name)?, act, left })
        }
    }

    impl FaultPoints for ActAt {
        fn reach(&self, point: FaultPoint) {
            if point == self.point && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                match self.act {
                    Act::Abort => std::process::abort(),
                    // Another process sends the signal, and ends only when the signal has taken effect. This thread
                    // waits for it, so it does nothing more before SIGCONT.
                    Act::Stop => {
                        let stopped = Command::new("sh").args(["-c", STOP, &std::process::id().to_string()]).status();
                        if let Err(error) = stopped {
                            tracing::error!("cannot stop at a fault point: {error}");
                        }
                    }
                }
            }
        }
    }
}
