//! Text output of attempts: kind, hash, fees, and the answers of the endpoints.

use gapless_wire::{AttemptView, FeesPayload, SendView};

/// A row for each attempt, below it a row for each send, and below that a row for the answer of each endpoint.
pub(crate) fn attempt_rows(attempts: &[AttemptView]) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for attempt in attempts {
        let most = attempt.max_cost.as_ref().map(|cost| format!(", at most {cost} wei in total")).unwrap_or_default();
        let when = format!("nonce {}, signed {}, {}", attempt.nonce, attempt.created_at, times_sent(attempt));
        rows.push([attempt.kind.to_string(), attempt.hash.clone(), format!("{}{most}", price(&attempt.fees)), when]);
        if attempt.history.is_empty() {
            rows.extend(last_send(attempt));
        }
        for send in &attempt.history {
            // Endpoints answer with the hash, which the attempt's row already shows.
            let text = Some(&send.text).filter(|text| **text != attempt.hash).cloned().unwrap_or_default();
            rows.push(["  sent".to_owned(), send.at.clone(), words(&send.outcome), text]);
            rows.extend(answer_rows(send));
        }
    }
    rows
}

/// The price per unit of gas: the gas price, or the max fee and the tip.
pub(crate) fn price(fees: &FeesPayload) -> String {
    match (&fees.gas_price, &fees.max_fee_per_gas, &fees.max_priority_fee_per_gas) {
        (Some(price), _, _) => format!("{price} wei/gas"),
        (None, Some(max), Some(tip)) => format!("{max}/{tip} wei/gas"),
        _ => String::new(),
    }
}

/// A stable code as words: `nonce_too_high` becomes `nonce too high`.
pub(crate) fn words(word: &str) -> String {
    word.replace('_', " ")
}

fn times_sent(attempt: &AttemptView) -> String {
    let shown = attempt.history.len();
    let times = match attempt.sends {
        0 => return "never sent".to_owned(),
        1 => "sent once".to_owned(),
        sends => format!("sent {sends} times"),
    };
    let all = usize::try_from(attempt.sends).is_ok_and(|sends| sends <= shown);
    if all || shown == 0 { times } else { format!("{times}, the last {shown} shown") }
}

fn answer_rows(send: &SendView) -> impl Iterator<Item = [String; 4]> {
    send.heard
        .iter()
        .map(|answer| ["    answer".to_owned(), answer.endpoint.clone(), words(&answer.outcome), answer.text.clone()])
}

/// The last send of an attempt, for attempts whose earlier sends are not stored.
fn last_send(attempt: &AttemptView) -> Option<[String; 4]> {
    let at = attempt.last_sent_at.clone()?;
    let (outcome, text) = match &attempt.last_outcome {
        Some(outcome) => (words(&outcome.code), outcome.text.clone()),
        None => ("no answer".to_owned(), String::new()),
    };
    Some(["  sent".to_owned(), at, outcome, text])
}
