//! Signed transactions for people: what each is, what it offers, when it was sent where, and what was said to it.

use gapless_wire::{AttemptView, FeesPayload, SendView};

/// A line for each attempt, under it one for each time that it was sent, and under that what each endpoint said.
pub(crate) fn attempt_rows(attempts: &[AttemptView]) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for attempt in attempts {
        let most = attempt.max_cost.as_ref().map(|cost| format!(", at most {cost} wei in all")).unwrap_or_default();
        let when = format!("nonce {}, signed {}, {}", attempt.nonce, attempt.created_at, times_sent(attempt));
        rows.push([attempt.kind.to_string(), attempt.hash.clone(), format!("{}{most}", price(&attempt.fees)), when]);
        if attempt.history.is_empty() {
            rows.extend(last_send(attempt));
        }
        for send in &attempt.history {
            // Nodes answer with the hash, which is told already.
            let text = Some(&send.text).filter(|text| **text != attempt.hash).cloned().unwrap_or_default();
            rows.push(["  sent".to_owned(), send.at.clone(), words(&send.outcome), text]);
            rows.extend(heard_rows(send));
        }
    }
    rows
}

/// What one unit of gas may cost, and how much of it is for whoever includes it.
pub(crate) fn price(fees: &FeesPayload) -> String {
    match (&fees.gas_price, &fees.max_fee_per_gas, &fees.max_priority_fee_per_gas) {
        (Some(price), _, _) => format!("{price} wei/gas"),
        (None, Some(max), Some(tip)) => format!("{max}/{tip} wei/gas"),
        _ => String::new(),
    }
}

/// A stable word as people say it.
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
    if all || shown == 0 { times } else { format!("{times}, of which the newest {shown} are shown") }
}

fn heard_rows(send: &SendView) -> impl Iterator<Item = [String; 4]> {
    send.heard
        .iter()
        .map(|heard| ["    said".to_owned(), heard.endpoint.clone(), words(&heard.outcome), heard.text.clone()])
}

/// Where nobody has kept more than the last one.
fn last_send(attempt: &AttemptView) -> Option<[String; 4]> {
    let at = attempt.last_sent_at.clone()?;
    let (outcome, text) = match &attempt.last_outcome {
        Some(outcome) => (words(&outcome.code), outcome.text.clone()),
        None => ("not answered".to_owned(), String::new()),
    };
    Some(["  sent".to_owned(), at, outcome, text])
}
