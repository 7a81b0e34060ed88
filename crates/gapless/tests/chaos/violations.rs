//! The violated promises of a run.

use std::fmt;
use std::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Violations(Mutex<Vec<PromiseViolation>>);

/// A violation of a promise (docs/promises.md).
#[derive(Clone, Debug)]
pub(crate) struct PromiseViolation {
    promise: &'static str,
    detail: String,
}

impl Violations {
    pub(crate) fn add(&self, promise: &'static str, detail: impl Into<String>) {
        self.0.lock().unwrap().push(PromiseViolation { promise, detail: detail.into() });
    }

    pub(crate) fn read(&self) -> Vec<PromiseViolation> {
        self.0.lock().unwrap().clone()
    }
}

impl fmt::Display for PromiseViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.promise, self.detail)
    }
}
