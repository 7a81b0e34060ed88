//! How long a caller wants to wait for a change: `30s`, `500ms`, `1m`.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a waiting time is a whole number and its unit: 500ms, 30s or 1m")]
pub struct WaitError;

/// Reads a waiting time. How much of it is granted is up to the server.
pub fn parse_wait(text: &str) -> Result<Duration, WaitError> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or(WaitError)?;
    let (number, unit) = text.split_at_checked(unit_at).ok_or(WaitError)?;
    // Six digits are days enough, and cannot overflow.
    if !(1..=6).contains(&number.len()) {
        return Err(WaitError);
    }
    let number: u64 = number.parse().map_err(|_| WaitError)?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        _ => Err(WaitError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_has_a_unit() {
        assert_eq!(parse_wait("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_wait("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_wait("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "30", "s", "-1s", "1.5s", "1h", "30 s", "1000000s", "٣s"] {
            assert_eq!(parse_wait(text), Err(WaitError), "{text:?}");
        }
    }
}
