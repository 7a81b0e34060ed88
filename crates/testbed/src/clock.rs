//! The only module of this crate that reads a clock or sleeps: to wait for another process, and to delay the bytes of a
//! proxy.

use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Polls `look` until it returns an answer. Returns `None` after `limit`.
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
