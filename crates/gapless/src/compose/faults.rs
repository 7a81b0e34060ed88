//! Ends the process at a named place, as a crash would (S02). Only in debug builds: what is shipped has no such place.

use std::sync::Arc;

use gapless_engine::{FaultPoints, NoFaults};

use super::ComposeError;

#[cfg(not(debug_assertions))]
pub(crate) fn fault_points() -> Result<Arc<dyn FaultPoints>, ComposeError> {
    Ok(Arc::new(NoFaults))
}

/// `GAPLESS_ABORT_AT=after_bind_commit` ends the process when it comes there the first time, `after_bind_commit:3` the third.
#[cfg(debug_assertions)]
pub(crate) fn fault_points() -> Result<Arc<dyn FaultPoints>, ComposeError> {
    match std::env::var("GAPLESS_ABORT_AT") {
        Ok(text) => {
            let wrong = || ComposeError::FaultPoint { name: text.clone() };
            abort::AbortAt::parse(&text).map(|at| Arc::new(at) as Arc<dyn FaultPoints>).ok_or_else(wrong)
        }
        Err(_) => Ok(Arc::new(NoFaults)),
    }
}

#[cfg(debug_assertions)]
mod abort {
    use std::sync::atomic::{AtomicU32, Ordering};

    use gapless_engine::{FaultPoint, FaultPoints};

    #[derive(Debug)]
    pub(super) struct AbortAt {
        point: FaultPoint,
        /// How often it may still be passed, and once more.
        left: AtomicU32,
    }

    impl AbortAt {
        pub(super) fn parse(text: &str) -> Option<Self> {
            let (name, count) = text.split_once(':').unwrap_or((text, "1"));
            let left = AtomicU32::new(count.parse().ok().filter(|count| *count > 0)?);
            Some(AbortAt { point: FaultPoint::parse(name)?, left })
        }
    }

    impl FaultPoints for AbortAt {
        fn reach(&self, point: FaultPoint) {
            if point == self.point && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                std::process::abort();
            }
        }
    }
}
