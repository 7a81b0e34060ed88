//! The only place of this crate that reads a clock or sleeps: waiting for another process to get ready, and holding back what a
//! proxy carries.

use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls `look` until it gives an answer, or until `limit` has passed (then `None`).
#[expect(clippy::disallowed_methods, reason = "waits for a real process; no code that we ship runs through here")]
pub(crate) fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = look() {
            return Some(answer);
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Blocks the calling thread.
#[expect(clippy::disallowed_methods, reason = "a thread of a proxy, which has nothing else to do meanwhile")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}
