//! One transaction, many endpoints, one answer.

use std::sync::Arc;

use alloy_primitives::B256;
use gapless_chain::{Classified, Reason, Verdict};
use gapless_domain::{ChainId, SignedTx};
use serde_json::json;
use tokio::sync::mpsc;

use crate::endpoint::{Endpoint, Standing, now};
use crate::endpoints::{Endpoints, GRACE, Recipients, receive, without_verdict};
use crate::meter;
use crate::rpc::Call;

/// What an endpoint made of the transactions; nothing if it was not asked after all, because it is not well.
struct Report {
    endpoint: Arc<Endpoint>,
    answers: Option<Vec<Classified>>,
}

/// Gives `txs` to up to `most` endpoints at once. The answer is there when all have answered, or shortly after the moment when
/// every transaction has been accepted by somebody; the slower ones go on in the background until they have answered.
pub(crate) async fn broadcast(
    endpoints: &Endpoints,
    chain: &ChainId,
    txs: &[SignedTx],
    most: usize,
) -> Vec<Classified> {
    if txs.is_empty() {
        return Vec::new();
    }
    let shared: Arc<[SignedTx]> = txs.into();
    let Recipients { asked, missed: mut unheard } = endpoints.for_sending(most);
    let (sender, mut reports) = mpsc::channel(asked.len().max(1));
    unheard.extend(asked.iter().cloned());
    for endpoint in asked {
        let (sender, txs, chain) = (sender.clone(), Arc::clone(&shared), chain.clone());
        endpoints.spawn(async move {
            let answers = send(&endpoint, &chain, &txs).await;
            drop(sender.send(Report { endpoint, answers }).await);
        });
    }
    drop(sender);

    let mut best: Vec<Option<Classified>> = vec![None; txs.len()];
    let mut refusals = Vec::new();
    let mut until = None;
    while let Some(Report { endpoint, answers }) = receive(&mut reports, until).await {
        if answers.is_some() {
            unheard.retain(|other| !Arc::ptr_eq(other, &endpoint));
        }
        for (place, answer) in answers.into_iter().flatten().enumerate() {
            if answer.verdict == Verdict::Rejected {
                refusals.push((place, Arc::clone(&endpoint), answer.clone()));
            }
            if let Some(best) = best.get_mut(place) {
                *best = Some(better(best.take(), answer));
            }
        }
        if best.iter().all(|best| best.as_ref().is_some_and(is_taken)) {
            until.get_or_insert_with(|| now() + GRACE);
        }
    }
    for (place, endpoint, refusal) in refusals {
        let taken = best.get(place).and_then(Option::as_ref).is_some_and(is_taken);
        if let Some(tx) = txs.get(place).filter(|_| taken) {
            meter::contradiction(chain, endpoint.name(), &tx.hash.to_string(), refusal.text.as_str());
        }
    }
    let all_were_heard = !unheard.iter().any(|endpoint| endpoint.may_speak_soon());
    let conclude = |best: Option<Classified>| match best {
        None => endpoints.nobody(),
        Some(refused) if refused.verdict == Verdict::Rejected && !all_were_heard => not_yet(refused),
        Some(best) => best,
    };
    best.into_iter().map(conclude).collect()
}

/// A final refusal while somebody is away who may have the transaction, from before or from elsewhere, or may take it: it is
/// not concluded from those who are left. It stays without a verdict, and is sent again.
fn not_yet(refused: Classified) -> Classified {
    without_verdict(Reason::Unreachable, &format!("{} (not every endpoint was heard)", refused.text))
}

/// `None` if the endpoint could not be asked: then it has no part in the answer.
async fn send(endpoint: &Endpoint, chain: &ChainId, txs: &[SignedTx]) -> Option<Vec<Classified>> {
    if endpoint.standing() != Standing::Good && !endpoint.check().await {
        return None;
    }
    let calls: Vec<Call> = txs.iter().map(|tx| Call::new("eth_sendRawTransaction", json!([tx.raw]))).collect();
    let answers = endpoint.ask_in_order(&calls).await;
    let judge = |(tx, answer): (&SignedTx, crate::endpoint::Answer)| match answer {
        Err(classified) => classified,
        Ok(raw) => match serde_json::from_str::<B256>(raw.get()) {
            Err(_) => endpoint.unreadable(raw.get()),
            Ok(hash) => {
                let classified = Classified::answered(tx.hash, hash);
                if classified.reason == Reason::HashMismatch {
                    meter::hash_mismatch(chain, endpoint.name(), &tx.hash.to_string(), &hash.to_string());
                }
                classified
            }
        },
    };
    Some(txs.iter().zip(answers).map(judge).collect())
}

fn is_taken(classified: &Classified) -> bool {
    matches!(classified.verdict, Verdict::Accepted | Verdict::AlreadyKnown)
}

fn better(first: Option<Classified>, second: Classified) -> Classified {
    match first {
        Some(first) if rank(first.verdict) <= rank(second.verdict) => first,
        _ => second,
    }
}

/// The one order of answers, the one that counts first: taken by somebody; no verdict, since whoever gave none may have taken
/// it; then the refusals, the least final first. What only has to wait is less final than what has to be paid better, that
/// less than what says that the nonce is gone, and nothing is more final than bytes that no node will ever take.
fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Accepted => 0,
        Verdict::AlreadyKnown => 1,
        Verdict::Unknown => 2,
        Verdict::Unavailable => 3,
        Verdict::RateLimited => 4,
        Verdict::PoolFull => 5,
        Verdict::Wait => 6,
        Verdict::Reverted => 7,
        Verdict::NonceTooHigh => 8,
        Verdict::InsufficientFunds => 9,
        Verdict::Underpriced => 10,
        Verdict::ReplacementUnderpriced => 11,
        Verdict::NonceTooLow => 12,
        Verdict::Rejected => 13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gapless_chain::Source;
    use gapless_domain::NodeText;
    use std::collections::BTreeSet;

    fn answer(verdict: Verdict) -> Classified {
        let text = NodeText::new(verdict.as_str());
        Classified { verdict, reason: Reason::NoVerdict, source: Source::Nobody, text, revert_data: None }
    }

    fn combined(verdicts: &[Verdict]) -> Verdict {
        verdicts.iter().fold(None, |best, verdict| Some(better(best, answer(*verdict)))).unwrap().verdict
    }

    #[test]
    fn the_order_is_total() {
        let ranks: BTreeSet<u8> = Verdict::ALL.iter().map(|verdict| rank(*verdict)).collect();
        assert_eq!(ranks.len(), Verdict::ALL.len());
    }

    #[test]
    fn one_answer_of_many() {
        use Verdict::*;
        for (answers, one) in [
            (&[Rejected, Unavailable, Accepted][..], Accepted),
            (&[Underpriced, AlreadyKnown], AlreadyKnown),
            (&[Rejected, Unavailable], Unavailable),
            (&[NonceTooLow, Unknown, Unavailable], Unknown),
            (&[Rejected, Wait], Wait),
            (&[Rejected, NonceTooLow], NonceTooLow),
            (&[Underpriced, InsufficientFunds], InsufficientFunds),
            (&[PoolFull, RateLimited], RateLimited),
            (&[Rejected, Rejected], Rejected),
        ] {
            assert_eq!(combined(answers), one, "{answers:?}");
            let reversed: Vec<Verdict> = answers.iter().rev().copied().collect();
            assert_eq!(combined(&reversed), one, "{reversed:?}");
        }
    }
}
