//! Durations in requests: `30s`, `500ms`, `1m`.

use std::time::Duration;

/// Longer texts are refused unread. No duration of use is that long, and `humantime` 2.4 panics at
/// `18446744073709551615s 1000ms`.
const MAX_TEXT_BYTES: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a waiting time is a number and its unit: 500ms, 30s or 1m")]
pub struct WaitError;

/// Reads a waiting time. The server may grant less.
pub fn parse_wait(text: &str) -> Result<Duration, WaitError> {
    parse_duration(text).ok_or(WaitError)
}

/// Reads a duration in the language of `humantime`, in whole milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let duration = humantime::parse_duration(text).ok()?;
    duration.subsec_nanos().is_multiple_of(1_000_000).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_with_a_unit_is_read() {
        for (text, millis) in [
            ("30s", 30_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("999999m", 59_999_940_000),
            ("30 s", 30_000),
            ("1h", 3_600_000),
            ("1m 30s", 90_000),
            ("1.5s", 1_500),
        ] {
            assert_eq!(parse_wait(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
    }

    #[test]
    fn wait_without_a_unit_or_out_of_range_is_refused() {
        for text in ["", "30", "s", "-1s", "1us", "1.5ms", "٣s", "99999999999999999y", "18446744073709551615s 1000ms"]
        {
            assert_eq!(parse_wait(text), Err(WaitError), "{text:?}");
        }
    }
}
