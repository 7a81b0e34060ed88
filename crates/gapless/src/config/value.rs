//! The conversion of a node of the tree into a typed value, and the text of a value.

use std::net::SocketAddr;
use std::time::Duration;

use super::problem::ProblemKind;
use super::tree::Value;

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// The accepted values, as the end of the sentence "must be …".
    fn wanted() -> String;

    /// The value, or `None` if it is not one of this type. Messages never repeat the value, because it may be a secret
    /// in the wrong place.
    fn read(value: &Value) -> Option<Self>;

    /// The text that `config check` prints.
    fn show(&self) -> String;

    /// Like `read`, with the problem of an invalid value. Types with a more specific problem override it.
    fn try_read(value: &Value) -> Result<Self, ProblemKind> {
        Self::read(value).ok_or_else(|| ProblemKind::Wanted { wanted: Self::wanted() })
    }
}

/// A text, with quotes in the file and without quotes in the environment.
pub(crate) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) | Value::Word(text) => Some(text),
        _ => None,
    }
}

/// The digits of a number.
pub(crate) fn number_of(value: &Value) -> Option<&str> {
    match value {
        Value::Number(text) | Value::Word(text) => Some(text),
        _ => None,
    }
}

impl Setting for bool {
    fn wanted() -> String {
        "true or false".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(yes) => Some(*yes),
            Value::Word(word) => word.parse().ok(),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn wanted() -> String {
        "text".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        text_of(value).map(str::to_owned)
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

macro_rules! whole_numbers {
    ($($type:ty),+) => {
        $(impl Setting for $type {
            fn wanted() -> String {
                format!("a whole number up to {}", <$type>::MAX)
            }

            fn read(value: &Value) -> Option<Self> {
                number_of(value)?.parse().ok()
            }

            fn show(&self) -> String {
                self.to_string()
            }
        })+
    };
}

whole_numbers!(u16, u32, u64, usize);

impl Setting for Duration {
    fn wanted() -> String {
        "a duration such as \"250ms\", \"10s\", \"5m\", \"2h\" or \"30d\", a year at most".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        parse_duration(text_of(value)?)
    }

    fn show(&self) -> String {
        format!("{:?}", show_duration(*self))
    }
}

const UNITS_OF_TIME: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Above any sensible setting, and far below an overflow.
const MAX_DURATION: Duration = Duration::from_secs(366 * 86_400);

/// Parses a duration: one or several numbers with units, as in `10s` or `1h 30m`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    gapless_wire::parse_duration(text).filter(|duration| *duration <= MAX_DURATION)
}

/// A retention period: a duration, or `"never"` for a period without an end. `None` stands for the latter and is the
/// longest period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period(pub(crate) Option<Duration>);

/// A hundred years.
const MAX_PERIOD: Duration = Duration::from_secs(36_525 * 86_400);

impl PartialOrd for Period {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.unwrap_or(Duration::MAX).partial_cmp(&other.0.unwrap_or(Duration::MAX))
    }
}

impl Setting for Period {
    fn wanted() -> String {
        "a duration such as \"12h\", \"30d\" or \"3650d\", or \"never\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match text_of(value)? {
            "never" => Some(Period(None)),
            text => gapless_wire::parse_duration(text)
                .filter(|period| *period <= MAX_PERIOD)
                .map(|period| Period(Some(period))),
        }
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "\"never\"".to_owned(), |period| period.show())
    }
}

/// Formats a duration in the largest unit that divides it.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let fits = |(_, unit): &&(&str, u64)| millis.is_multiple_of(*unit) && millis > 0;
    let (name, unit) = UNITS_OF_TIME.iter().rev().find(fits).copied().unwrap_or(("s", 1000));
    format!("{}{name}", millis / unit)
}

/// A number of bytes, written as `"120KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteSize(pub(crate) usize);

const UNITS_OF_SIZE: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl Setting for ByteSize {
    fn wanted() -> String {
        "a size such as \"512B\", \"120KiB\", \"4MiB\" or \"1GiB\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let (number, unit) = split_unit(text_of(value)?)?;
        let (_, bytes) = UNITS_OF_SIZE.into_iter().find(|(name, _)| *name == unit)?;
        usize::try_from(number.checked_mul(bytes)?).ok().map(ByteSize)
    }

    fn show(&self) -> String {
        let bytes = self.0 as u64;
        let fits = |(_, unit): &&(&str, u64)| bytes.is_multiple_of(*unit) && bytes > 0;
        let (name, unit) = UNITS_OF_SIZE.iter().rev().find(fits).copied().unwrap_or(("B", 1));
        format!("\"{}{name}\"", bytes / unit)
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim_start_matches(' ')))
}

/// A factor in thousandths, written as `1.125`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permille(pub(crate) u32);

impl Setting for Permille {
    fn wanted() -> String {
        "a factor with at most three decimals, such as 1.125".to_owned()
    }

    /// Reads digit by digit, because a floating point number would lose the written digits.
    fn read(value: &Value) -> Option<Self> {
        let text = number_of(value)?;
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let decimals_are_sound = decimals.len() <= 3 && decimals.bytes().all(|b| b.is_ascii_digit());
        if !decimals_are_sound || !whole.bytes().all(|b| b.is_ascii_digit()) || text.ends_with('.') {
            return None;
        }
        let thousandths: u32 = format!("{decimals:0<3}").parse().ok()?;
        whole.parse::<u32>().ok()?.checked_mul(1000)?.checked_add(thousandths).map(Permille)
    }

    fn show(&self) -> String {
        let digits = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        let short = digits.trim_end_matches('0');
        if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
    }
}

impl Setting for SocketAddr {
    fn wanted() -> String {
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = text_of(value)?;
        match text.strip_prefix("localhost:") {
            Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
            None => text.parse().ok(),
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Setting>(word: &str) -> Option<String> {
        T::read(&Value::Word(word.to_owned())).map(|value| value.show())
    }

    #[test]
    fn durations_are_shown_in_their_largest_unit() {
        for (text, shown) in [
            ("250ms", "250ms"),
            ("10s", "10s"),
            ("90s", "90s"),
            ("120s", "2m"),
            ("24h", "1d"),
            ("0s", "0s"),
            ("1000 ms", "1s"),
            ("10 sec", "10s"),
            ("1.5s", "1500ms"),
        ] {
            assert_eq!(read::<Duration>(text), Some(format!("{shown:?}")), "{text}");
        }
        for text in ["10", "s", "", "1.5ms", "-1s", "10 parsecs", "18446744073709551615d", "367d"] {
            assert_eq!(read::<Duration>(text), None, "{text}");
        }
    }

    #[test]
    fn period_is_a_duration_or_never() {
        for (text, shown) in [("never", "never"), ("30d", "30d"), ("3650d", "3650d"), ("0s", "0s")] {
            assert_eq!(read::<Period>(text), Some(format!("{shown:?}")), "{text}");
        }
        for text in ["", "Never", "30", "forever", "36526d", "99999999999999999d"] {
            assert_eq!(read::<Period>(text), None, "{text}");
        }
        assert!(Period(None) > Period(Some(MAX_PERIOD)));
    }

    #[test]
    fn sizes_are_shown_in_their_largest_unit() {
        assert_eq!(read::<ByteSize>("120KiB").as_deref(), Some("\"120KiB\""));
        assert_eq!(read::<ByteSize>("1024KiB").as_deref(), Some("\"1MiB\""));
        assert_eq!(read::<ByteSize>("1MB"), None);
        assert_eq!(read::<ByteSize>("99999999999GiB"), None);
    }

    #[test]
    fn factors_keep_all_written_digits() {
        for (text, shown) in [("1.125", "1.125"), ("2", "2.0"), ("1.1", "1.1"), ("10.010", "10.01")] {
            assert_eq!(read::<Permille>(text).as_deref(), Some(shown), "{text}");
        }
        for text in ["1.1255", "-1.1", "1.", ".5", "1e3", "inf", "+1", "99999999"] {
            assert_eq!(read::<Permille>(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_do_not_wrap() {
        assert_eq!(read::<u16>("65535").as_deref(), Some("65535"));
        assert_eq!(read::<u16>("65536"), None);
        assert_eq!(read::<u32>("-1"), None);
    }

    #[test]
    fn quoted_text_is_rejected_as_number_and_bool() {
        assert!(u16::read(&Value::Text("1".to_owned())).is_none());
        assert!(bool::read(&Value::Text("true".to_owned())).is_none());
    }
}
