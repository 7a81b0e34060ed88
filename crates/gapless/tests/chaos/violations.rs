//! What was promised and did not hold.

use std::fmt;
use std::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Violations(Mutex<Vec<Violation>>);

/// By the words of the promises (DESIGN, section 1).
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    promise: &'static str,
    what: String,
}

impl Violations {
    pub(crate) fn add(&self, promise: &'static str, what: impl Into<String>) {
        self.0.lock().unwrap().push(Violation { promise, what: what.into() });
    }

    pub(crate) fn read(&self) -> Vec<Violation> {
        self.0.lock().unwrap().clone()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.promise, self.what)
    }
}
