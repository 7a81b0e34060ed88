//! What came of an attempt's sends, as a JSON array, oldest first.

use gapless_domain::{EndpointAnswer, NodeText, SendOutcome, SendRecord, SendReport, Timestamp};
use serde::{Deserialize, Serialize};

use super::{RowError, from_json, to_json, word};

/// Microseconds since 1970, as in every other place where a time is not a column.
#[derive(Serialize, Deserialize)]
struct SendRow {
    at: i64,
    outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heard: Vec<HeardRow>,
}

#[derive(Serialize, Deserialize)]
struct HeardRow {
    endpoint: String,
    outcome: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

/// Reports of one attempt and one commit, which is made at `at`. The stores append them to what is there.
pub fn sends_to_json(at: Timestamp, reports: &[&SendReport]) -> String {
    let heard = |heard: &EndpointAnswer| HeardRow {
        endpoint: heard.endpoint.to_string(),
        outcome: heard.outcome.as_str().to_owned(),
        text: heard.text.to_string(),
    };
    let row = |report: &&SendReport| SendRow {
        at: at.as_micros(),
        outcome: report.outcome.as_str().to_owned(),
        text: report.text.to_string(),
        heard: report.answers.iter().map(heard).collect(),
    };
    to_json(&reports.iter().map(row).collect::<Vec<_>>())
}

pub fn sends_from_json(json: &str) -> Result<Vec<SendRecord>, RowError> {
    from_json::<Vec<SendRow>>("history", json)?.into_iter().map(SendRecord::try_from).collect()
}

impl TryFrom<SendRow> for SendRecord {
    type Error = RowError;

    fn try_from(row: SendRow) -> Result<Self, RowError> {
        Ok(SendRecord {
            at: Timestamp::from_micros(row.at),
            outcome: word("outcome", &row.outcome, SendOutcome::parse)?,
            text: NodeText::new(&row.text),
            answers: row.heard.into_iter().map(EndpointAnswer::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<HeardRow> for EndpointAnswer {
    type Error = RowError;

    fn try_from(row: HeardRow) -> Result<Self, RowError> {
        Ok(EndpointAnswer {
            endpoint: NodeText::new(&row.endpoint),
            outcome: word("outcome", &row.outcome, SendOutcome::parse)?,
            text: NodeText::new(&row.text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_domain::{B256, Nonce};

    const AT: Timestamp = Timestamp::from_micros(1_900_000_000_000_001);

    fn report(outcome: SendOutcome, said: &str, heard: Vec<EndpointAnswer>) -> SendReport {
        SendReport { nonce: Nonce::ZERO, hash: B256::ZERO, outcome, text: NodeText::new(said), answers: heard }
    }

    fn heard(endpoint: &str, outcome: SendOutcome, said: &str) -> EndpointAnswer {
        EndpointAnswer { endpoint: NodeText::new(endpoint), outcome, text: NodeText::new(said) }
    }

    #[test]
    fn sends_round_trip_in_order() {
        let said = [heard("a", SendOutcome::Accepted, ""), heard("b", SendOutcome::Unknown, "\"quoted\" and \\")];
        let mut reports: Vec<_> = SendOutcome::ALL.iter().map(|outcome| report(*outcome, "", vec![])).collect();
        reports.push(report(SendOutcome::Accepted, "é", said.to_vec()));
        let expected: Vec<_> = reports
            .iter()
            .map(|report| SendRecord {
                at: AT,
                outcome: report.outcome,
                text: report.text.clone(),
                answers: report.answers.clone(),
            })
            .collect();
        let json = sends_to_json(AT, &reports.iter().collect::<Vec<_>>());
        assert_eq!(sends_from_json(&json), Ok(expected));
        assert_eq!(sends_from_json("[]"), Ok(vec![]), "as rows of older releases have it");
    }

    #[test]
    fn the_words_of_a_row_do_not_change() {
        let full = report(SendOutcome::Wait, "later", vec![heard("node-1", SendOutcome::RateLimited, "429")]);
        let short = report(SendOutcome::Accepted, "", vec![heard("node-1", SendOutcome::Accepted, "")]);
        let json = concat!(
            r#"[{"at":7,"outcome":"wait","text":"later","heard":[{"endpoint":"node-1","outcome":"rate_limited","text":"429"}]},"#,
            r#"{"at":7,"outcome":"accepted","heard":[{"endpoint":"node-1","outcome":"accepted"}]}]"#,
        );
        assert_eq!(sends_to_json(Timestamp::from_micros(7), &[&full, &short]), json);
    }

    #[test]
    fn damage_is_an_error() {
        for damaged in [
            "",
            "null",
            "{}",
            "[{}]",
            r#"[{"at":"soon","outcome":"wait"}]"#,
            r#"[{"at":7,"outcome":"lost"}]"#,
            r#"[{"at":7,"outcome":"wait","heard":[{"endpoint":"a","outcome":"lost"}]}]"#,
            r#"[{"at":7,"outcome":"wait","heard":[{"outcome":"wait"}]}]"#,
        ] {
            assert!(sends_from_json(damaged).is_err(), "{damaged}");
        }
    }
}
