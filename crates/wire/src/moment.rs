//! Points in time as RFC 3339 text.

use gapless_domain::Timestamp;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Years that do not fit into four digits cannot be parsed back, so they are shown as the nearest that can.
const LAST_SECOND: i64 = 253_402_300_799;

/// Formats a time in UTC, with fractions of a second to the microsecond.
pub fn moment_to_text(at: Timestamp) -> String {
    let micros = at.as_micros().clamp(0, LAST_SECOND * 1_000_000);
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000)
        .ok()
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

/// Parses RFC 3339, from 1970 on. Digits below a microsecond are dropped.
pub fn moment_from_text(text: &str) -> Option<Timestamp> {
    let nanos = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos();
    let micros = i64::try_from(nanos.div_euclid(1000)).ok()?;
    (0..=LAST_SECOND * 1_000_000 + 999_999).contains(&micros).then_some(Timestamp::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_in_any_offset_and_written_in_utc() {
        let at = moment_from_text("2026-03-01T14:00:00.25+02:00").unwrap();
        assert_eq!(moment_to_text(at), "2026-03-01T12:00:00.25Z");
    }

    #[test]
    fn invalid_rfc_3339_is_refused() {
        for text in ["", "soon", "2026-03-01", "2026-03-01T12:00:00", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z"] {
            assert_eq!(moment_from_text(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(micros in 0..=LAST_SECOND * 1_000_000) {
            let at = Timestamp::from_micros(micros);
            prop_assert_eq!(moment_from_text(&moment_to_text(at)), Some(at));
        }

        #[test]
        fn every_stored_time_can_be_shown(micros in any::<i64>()) {
            prop_assert!(moment_from_text(&moment_to_text(Timestamp::from_micros(micros))).is_some());
        }
    }
}
