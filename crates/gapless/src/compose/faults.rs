//! Ends the process at a named place, as a crash would (S02), or puts it to sleep there, as a machine that is paused would be
//! (N06). Only in debug builds: what is shipped has no such place.

use std::sync::Arc;

use gapless_engine::{FaultPoints, NoFaults};

use super::ComposeError;

/// Whoever asks for one is told, rather than let believe that nothing crashed there.
#[cfg(not(debug_assertions))]
pub(crate) fn fault_points() -> Result<Arc<dyn FaultPoints>, ComposeError> {
    match ["GAPLESS_ABORT_AT", "GAPLESS_STOP_AT"].iter().find_map(|variable| std::env::var(variable).ok()) {
        Some(name) => Err(ComposeError::FaultPoint { name }),
        None => Ok(Arc::new(NoFaults)),
    }
}

/// `GAPLESS_ABORT_AT=after_bind_commit` ends the process when it comes there the first time, `after_bind_commit:3` the third.
/// `GAPLESS_STOP_AT` is the same, but the process stops as by SIGSTOP, and goes on from there when it gets SIGCONT.
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
        /// How often it may still be passed, and once more.
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
                    // This thread waits for another process that sends the signal, and that ends only when it has taken
                    // effect: nothing more is done here before it is time to go on.
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
